//! The share of the machine that this process may use: control groups of both versions, read below `/proc` and `/sys`.
//! The crate `sysinfo` reads neither the groups above the process's own nor quotas of processor time.

use std::fs;
use std::path::{Path, PathBuf};

/// The limits of this process's control groups: the least over its own group and the groups above it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ControlGroupLimits {
    /// Processor time in each moment, as a number of cores.
    pub cores: Option<f64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Bytes that can still be used within the limits; page cache counts as free.
    pub memory_left: Option<u64>,
}

/// Version 1 writes the largest page-aligned number for no limit.
const UNLIMITED_BYTES: u64 = 1 << 60;

impl ControlGroupLimits {
    /// Reads the limits; `root` stands for `/`.
    pub(super) fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let groups = text("proc/self/cgroup");
        let mounts = mounts(&text("proc/self/mountinfo"));
        let folders = |controller: &str| folders(root, &groups, &mounts, controller);
        Self {
            cores: folders("cpu")
                .iter()
                .filter_map(|folder| quota(folder))
                .min_by(f64::total_cmp),
            memory: folders("memory")
                .iter()
                .filter_map(|folder| memory(folder))
                .min(),
            memory_left: folders("memory")
                .iter()
                .filter_map(|folder| memory_left(folder))
                .min(),
        }
    }
}

/// A mount of a hierarchy of control groups.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The topmost visible group.
    top: String,
    /// Where.
    folder: String,
    /// Controllers of version 1; `None` for version 2, which has all in one hierarchy.
    controllers: Option<Vec<String>>,
}

/// The mounts of control groups in a `mountinfo`.
fn mounts(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (place, system) = line.split_once(" - ")?;
            let mut place = place.split(' ').skip(3);
            let (top, folder) = (place.next()?.to_owned(), place.next()?.to_owned());
            let mut system = system.split(' ');
            let controllers = match system.next()? {
                "cgroup2" => None,
                "cgroup" => Some(system.nth(1)?.split(',').map(str::to_owned).collect()),
                _ => return None,
            };
            Some(Mount {
                top,
                folder,
                controllers,
            })
        })
        .collect()
}

/// This process's group for a controller and the groups above it, as folders.
fn folders(root: &Path, groups: &str, mounts: &[Mount], controller: &str) -> Vec<PathBuf> {
    // A line of version 1 is `4:cpu,cpuacct:/path`, that of version 2 `0::/path`.
    let mut second = None;
    let mut first = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next(), parts.next()) {
            (Some(""), Some(path)) => second = Some(path),
            (Some(names), Some(path)) if names.split(',').any(|name| name == controller) => {
                first = Some(path);
            }
            _ => {}
        }
    }
    // A controller belongs to one version at a time; version 1 lists its controllers.
    let has = |mount: &&Mount| match &mount.controllers {
        Some(names) => first.is_some() && names.iter().any(|name| name == controller),
        None => first.is_none(),
    };
    let (Some(path), Some(mount)) = (first.or(second), mounts.iter().find(has)) else {
        return Vec::new();
    };
    // In a container the group's path may be that of the host, whose upper part is not mounted, or may lead out of the
    // visible hierarchy.
    let below = path
        .strip_prefix(mount.top.trim_end_matches('/'))
        .filter(|below| !below.split('/').any(|part| part == ".."))
        .unwrap_or_default()
        .trim_matches('/');
    let top = root.join(mount.folder.trim_start_matches('/'));
    let folder = top.join(below);
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with(&top))
        .map(Path::to_path_buf)
        .collect()
}

fn quota(folder: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let mut parts = text.split_whitespace().map(str::to_owned);
            (parts.next()?, parts.next()?)
        }
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    // `max` and -1 both mean: no limit.
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok().filter(|&period| period > 0)?;
    Some(quota as f64 / period as f64)
}

fn memory(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("memory.max"))
        .or_else(|_| fs::read_to_string(folder.join("memory.limit_in_bytes")))
        .ok()?;
    let bytes = text.trim().parse().ok()?;
    (bytes < UNLIMITED_BYTES).then_some(bytes)
}

/// The memory that a group may still use: the unused part of its limit, and its pages of files, which the kernel
/// reclaims first.
fn memory_left(folder: &Path) -> Option<u64> {
    let text = |names: [&str; 2]| {
        let mut texts = names
            .iter()
            .map(|name| fs::read_to_string(folder.join(name)));
        texts.find_map(Result::ok)
    };
    let number = |names: [&str; 2]| text(names)?.trim().parse::<u64>().ok();
    let limit = memory(folder)?;
    let used = number(["memory.current", "memory.usage_in_bytes"]).unwrap_or(0);
    let stat = text(["memory.stat"; 2]).unwrap_or_default();
    // Version 1 sums up the groups below under names of their own.
    let pages = |name: &str| {
        let of = |name: &str| {
            let line = stat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line?.trim().parse::<u64>().ok()
        };
        of(&format!("total_{name}")).or(of(name)).unwrap_or(0)
    };
    let files = pages("active_file").saturating_add(pages("inactive_file"));
    let left = limit.saturating_sub(used.saturating_sub(files));
    // Version 2 counts swap apart.
    let swapped = number(["memory.swap.current"; 2]).unwrap_or(0);
    let swap = match text(["memory.swap.max"; 2]).as_deref().map(str::trim) {
        None => 0,
        Some("max") => u64::MAX,
        Some(most) => most
            .parse::<u64>()
            .map_or(0, |most| most.saturating_sub(swapped)),
    };
    Some(left.saturating_add(swap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedctl_testing::root;

    #[test]
    fn a_groups_files_can_be_taken_back_and_the_tightest_group_counts() {
        let mount = ("proc/self/mountinfo", SECOND);
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let left = |files: &[(&str, &str)]| {
            let all = [&[mount, group][..], files].concat();
            ControlGroupLimits::read(root(&all).path()).memory_left
        };
        assert_eq!(left(&[]), None);
        assert_eq!(left(&[("sys/fs/cgroup/a/b/memory.max", "max\n")]), None);
        let inner = [
            ("sys/fs/cgroup/a/b/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "900\n"),
            (
                "sys/fs/cgroup/a/b/memory.stat",
                "anon 500\nfile 300\ninactive_file 250\nactive_file 50\n",
            ),
        ];
        assert_eq!(left(&inner), Some(400));
        let outer = [
            ("sys/fs/cgroup/a/memory.max", "2000\n"),
            ("sys/fs/cgroup/a/memory.current", "1900\n"),
        ];
        assert_eq!(left(&[&inner[..], &outer].concat()), Some(100));
        let swap = [
            ("sys/fs/cgroup/a/b/memory.swap.max", "70\n"),
            ("sys/fs/cgroup/a/b/memory.swap.current", "20\n"),
        ];
        assert_eq!(left(&[&inner[..], &swap].concat()), Some(450));
        // More is in use than is allowed, as when a limit was lowered.
        let over = [
            ("sys/fs/cgroup/a/b/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "9000\n"),
        ];
        assert_eq!(left(&over), Some(0));
        let first = root(&[
            ("proc/self/cgroup", "4:memory:/job\n"),
            (
                "proc/self/mountinfo",
                "41 30 0:36 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800\n"),
            (
                "sys/fs/cgroup/memory/job/memory.stat",
                "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 0\n",
            ),
        ]);
        assert_eq!(
            ControlGroupLimits::read(first.path()).memory_left,
            Some(300)
        );
    }

    const SECOND: &str = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";

    #[test]
    fn version_2_takes_the_least_of_all_groups_above() {
        let root = root(&[
            ("proc/self/cgroup", "0::/system.slice/job.scope\n"),
            ("proc/self/mountinfo", SECOND),
            ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
            (
                "sys/fs/cgroup/system.slice/job.scope/cpu.max",
                "max 100000\n",
            ),
            (
                "sys/fs/cgroup/system.slice/job.scope/memory.max",
                "2147483648\n",
            ),
        ]);
        let expected = ControlGroupLimits {
            cores: Some(1.5),
            memory: Some(2 << 30),
            memory_left: Some(2 << 30),
        };
        assert_eq!(ControlGroupLimits::read(root.path()), expected);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let root = root(&[
            (
                "proc/self/cgroup",
                "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n0::/\n",
            ),
            // As in a container without a namespace of its own: the group's folder is the mount itself.
            (
                "proc/self/mountinfo",
                "40 30 0:35 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 41 30 0:36 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 42 30 0:37 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        let expected = ControlGroupLimits {
            cores: Some(4.0),
            memory: None,
            memory_left: None,
        };
        assert_eq!(ControlGroupLimits::read(root.path()), expected);
    }

    #[test]
    fn a_path_outside_of_the_mount_means_the_mount() {
        let root = root(&[
            ("proc/self/cgroup", "0::/../other\n"),
            ("proc/self/mountinfo", SECOND),
            ("sys/fs/cgroup/memory.max", "1024\n"),
            ("sys/fs/other/memory.max", "1\n"),
        ]);
        assert_eq!(ControlGroupLimits::read(root.path()).memory, Some(1024));
    }

    #[test]
    fn no_limits_and_nonsense_are_no_limits() {
        let unlimited = root(&[
            ("proc/self/cgroup", "4:cpu:/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cpu rw - cgroup cgroup rw,cpu\n",
            ),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(
            ControlGroupLimits::read(unlimited.path()),
            ControlGroupLimits::default()
        );
        let nonsense = root(&[
            ("proc/self/cgroup", "0::/\n\nx\n:"),
            ("proc/self/mountinfo", &format!("- cgroup\n{SECOND}")),
            ("sys/fs/cgroup/cpu.max", "100000 0\n"),
            ("sys/fs/cgroup/memory.max", "much\n"),
        ]);
        assert_eq!(
            ControlGroupLimits::read(nonsense.path()),
            ControlGroupLimits::default()
        );
        assert_eq!(
            ControlGroupLimits::read(root(&[]).path()),
            ControlGroupLimits::default()
        );
    }
}
