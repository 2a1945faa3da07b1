//! The processor and main memory: what they are, and how much of them this process may use.

use serde::Serialize;

use crate::embedder::usable_cores;

/// The processor.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cpu {
    /// Its name, in its own words.
    pub name: String,
    /// Sockets, where known.
    pub sockets: Option<usize>,
    /// Cores, where known.
    pub cores: Option<usize>,
    /// Hardware threads: what the system schedules on.
    pub threads: usize,
    /// Threads that this process may use: the number of workers that a run has.
    pub usable: usize,
    /// Why that are fewer than there are.
    pub limit: Option<CoreLimit>,
    /// Instruction sets that make a difference for matrix products.
    pub instructions: Vec<&'static str>,
}

/// What keeps this process from using all threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum CoreLimit {
    /// It is bound to some processors (`taskset`, a cpuset, a batch system).
    Affinity {
        /// So many.
        processors: usize,
    },
    /// The control group's share of processor time (a container's `--cpus`).
    Quota {
        /// In cores; fractions are rounded down, but not to zero.
        cores: f64,
    },
}

/// Main memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Bytes in the machine.
    pub total: Option<u64>,
    /// Bytes that can be had without swapping.
    pub available: Option<u64>,
    /// Bytes that this process's control group may use.
    pub limit: Option<u64>,
}

/// Names in `/proc/cpuinfo` of the instruction sets that matter, and what they are called here.
#[cfg(any(target_os = "linux", test))]
const FLAGS: [(&str, &str); 16] = [
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("fma", "fma"),
    ("f16c", "f16c"),
    ("avx_vnni", "avx_vnni"),
    ("avx512f", "avx512f"),
    ("avx512_vnni", "avx512_vnni"),
    ("avx512_bf16", "avx512_bf16"),
    ("avx512_fp16", "avx512_fp16"),
    ("amx_int8", "amx_int8"),
    ("amx_bf16", "amx_bf16"),
    ("asimd", "neon"),
    ("asimddp", "dotprod"),
    ("i8mm", "i8mm"),
    ("bf16", "bf16"),
    ("sve", "sve"),
];

/// The processor and memory of this machine.
pub(super) fn here() -> (Cpu, Memory) {
    #[cfg(target_os = "linux")]
    {
        let root = std::path::Path::new("/");
        let limits = super::limits::Limits::read(root);
        let mut cpu = linux::cpu(root);
        cpu.usable = usable_cores();
        cpu.limit = limit(
            cpu.threads,
            linux::affinity().unwrap_or(cpu.threads),
            limits.cores,
        );
        (cpu, linux::memory(root, limits.memory))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let cpu = Cpu {
            name: elsewhere::name(),
            threads: usable_cores(),
            usable: usable_cores(),
            instructions: elsewhere::instructions(),
            cores: elsewhere::cores(),
            ..Cpu::default()
        };
        (cpu, elsewhere::memory())
    }
}

/// Which limit holds, if any: the narrower one. Rounded as the standard library does, whose count is the
/// one that decides.
#[cfg(any(target_os = "linux", test))]
fn limit(threads: usize, processors: usize, quota: Option<f64>) -> Option<CoreLimit> {
    match quota {
        Some(cores) if (cores.floor() as usize).max(1) < processors => {
            Some(CoreLimit::Quota { cores })
        }
        _ if processors < threads => Some(CoreLimit::Affinity { processors }),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{Cpu, FLAGS, Memory};

    /// The processor below `root`, which stands for `/`; limits are left to the caller.
    pub(super) fn cpu(root: &Path) -> Cpu {
        let info = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        let values = |key: &'static str| {
            info.lines().filter_map(move |line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then_some(value.trim())
            })
        };
        // On Arm there is no name; the device tree or the firmware may have the machine's.
        let name = values("model name")
            .next()
            .map(str::to_owned)
            .or_else(|| machine(root))
            .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH));
        let flags: BTreeSet<&str> = values("flags")
            .next()
            .or_else(|| values("Features").next())
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let (sockets, cores) = topology(root);
        Cpu {
            name: name.split_whitespace().collect::<Vec<_>>().join(" "),
            sockets,
            cores,
            threads: values("processor").count().max(1),
            instructions: FLAGS
                .iter()
                .filter(|(flag, _)| flags.contains(flag))
                .map(|&(_, name)| name)
                .collect(),
            ..Cpu::default()
        }
    }

    fn machine(root: &Path) -> Option<String> {
        [
            "proc/device-tree/model",
            "sys/devices/virtual/dmi/id/product_name",
        ]
        .iter()
        .find_map(|path| fs::read_to_string(root.join(path)).ok())
        .map(|name| name.trim_matches(['\0', '\n', ' ']).to_owned())
        .filter(|name| !name.is_empty())
    }

    /// Sockets and cores.
    fn topology(root: &Path) -> (Option<usize>, Option<usize>) {
        let mut sockets = BTreeSet::new();
        let mut cores = BTreeSet::new();
        let folder = root.join("sys/devices/system/cpu");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let number = |name: &str| -> Option<i64> {
                let path = entry.path().join("topology").join(name);
                fs::read_to_string(path).ok()?.trim().parse().ok()
            };
            // Cores are numbered within their socket, on Arm within their cluster.
            if let (Some(socket), Some(core)) = (number("physical_package_id"), number("core_id")) {
                sockets.insert(socket);
                cores.insert((socket, number("cluster_id"), core));
            }
        }
        let count = |number: usize| (number > 0).then_some(number);
        (count(sockets.len()), count(cores.len()))
    }

    /// Processors that this process is bound to.
    pub(super) fn affinity() -> Option<usize> {
        // Larger than `cpu_set_t`, whose 1,024 processors some machines have more than.
        let mut mask = [0_u64; 256];
        // SAFETY: the mask is writable for the size that is given, and any bits are a valid mask.
        let result =
            unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
        let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
        (result == 0 && count > 0).then_some(count as usize)
    }

    /// Memory below `root`, under a control group's limit.
    pub(super) fn memory(root: &Path, limit: Option<u64>) -> Memory {
        let info = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let bytes = |key: &str| -> Option<u64> {
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kibibytes.checked_mul(1024)
        };
        let total = bytes("MemTotal");
        Memory {
            total,
            available: bytes("MemAvailable"),
            // A limit above what there is limits nothing.
            limit: limit.filter(|&limit| total.is_none_or(|total| limit < total)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::Memory;

    #[cfg(target_arch = "x86_64")]
    pub(super) fn name() -> String {
        use std::arch::x86_64::__cpuid;
        // Three answers of four words make the name, where there are that many.
        let mut bytes = Vec::new();
        if __cpuid(0x8000_0000).eax >= 0x8000_0004 {
            for leaf in 0x8000_0002..=0x8000_0004 {
                let answer = __cpuid(leaf);
                for word in [answer.eax, answer.ebx, answer.ecx, answer.edx] {
                    bytes.extend(word.to_le_bytes());
                }
            }
        }
        let name = String::from_utf8_lossy(&bytes).replace('\0', " ");
        name.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[cfg(all(not(target_arch = "x86_64"), target_os = "macos"))]
    pub(super) fn name() -> String {
        super::super::macos::text("machdep.cpu.brand_string")
            .unwrap_or_else(|| "Apple processor".to_owned())
    }

    #[cfg(not(any(target_arch = "x86_64", target_os = "macos")))]
    pub(super) fn name() -> String {
        std::env::var("PROCESSOR_IDENTIFIER")
            .unwrap_or_else(|_| format!("{} processor", std::env::consts::ARCH))
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn instructions() -> Vec<&'static str> {
        let all = [
            ("avx", is_x86_feature_detected!("avx")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("f16c", is_x86_feature_detected!("f16c")),
            ("avx_vnni", is_x86_feature_detected!("avxvnni")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512_vnni", is_x86_feature_detected!("avx512vnni")),
            ("avx512_bf16", is_x86_feature_detected!("avx512bf16")),
        ];
        all.into_iter()
            .filter(|one| one.1)
            .map(|one| one.0)
            .collect()
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) fn instructions() -> Vec<&'static str> {
        use std::arch::is_aarch64_feature_detected;
        let all = [
            ("neon", is_aarch64_feature_detected!("neon")),
            ("dotprod", is_aarch64_feature_detected!("dotprod")),
            ("i8mm", is_aarch64_feature_detected!("i8mm")),
            ("bf16", is_aarch64_feature_detected!("bf16")),
        ];
        all.into_iter()
            .filter(|one| one.1)
            .map(|one| one.0)
            .collect()
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) fn instructions() -> Vec<&'static str> {
        Vec::new()
    }

    #[cfg(target_os = "macos")]
    pub(super) fn cores() -> Option<usize> {
        super::super::macos::number("hw.physicalcpu").and_then(|cores| cores.try_into().ok())
    }

    #[cfg(not(target_os = "macos"))]
    pub(super) fn cores() -> Option<usize> {
        None
    }

    #[cfg(target_os = "macos")]
    pub(super) fn memory() -> Memory {
        Memory {
            total: super::super::macos::number("hw.memsize"),
            ..Memory::default()
        }
    }

    #[cfg(windows)]
    pub(super) fn memory() -> Memory {
        super::super::windows::memory()
    }

    #[cfg(not(any(target_os = "macos", windows)))]
    pub(super) fn memory() -> Memory {
        Memory::default()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::TempDir::new().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn an_x86_processor_names_itself() {
        let processor = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)  Platinum 8481C\n\
            flags\t\t: fpu avx avx2 fma avx512f avx512_vnni avx512_bf16 amx_bf16 amx_tile amx_int8\n\n";
        let second = processor.replace(": 0", ": 1");
        let root = root(&[
            ("proc/cpuinfo", &format!("{processor}{second}")),
            (
                "sys/devices/system/cpu/cpu0/topology/physical_package_id",
                "0\n",
            ),
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
            (
                "sys/devices/system/cpu/cpu1/topology/physical_package_id",
                "0\n",
            ),
            ("sys/devices/system/cpu/cpu1/topology/core_id", "0\n"),
            ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ]);
        let cpu = linux::cpu(root.path());
        assert_eq!(cpu.name, "Intel(R) Xeon(R) Platinum 8481C");
        assert_eq!(
            (cpu.sockets, cpu.cores, cpu.threads),
            (Some(1), Some(1), 2),
            "two threads of one core"
        );
        let expected = [
            "avx",
            "avx2",
            "fma",
            "avx512f",
            "avx512_vnni",
            "avx512_bf16",
            "amx_int8",
            "amx_bf16",
        ];
        assert_eq!(cpu.instructions, expected);
    }

    #[test]
    fn an_arm_processor_goes_by_its_machine() {
        let root = root(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd asimddp sve i8mm bf16\n\
                 CPU implementer\t: 0x41\n",
            ),
            ("proc/device-tree/model", "NVIDIA Jetson AGX Orin\0"),
        ]);
        let cpu = linux::cpu(root.path());
        assert_eq!(cpu.name, "NVIDIA Jetson AGX Orin");
        assert_eq!(cpu.instructions, ["neon", "dotprod", "i8mm", "bf16", "sve"]);
        assert_eq!((cpu.sockets, cpu.cores, cpu.threads), (None, None, 1));
    }

    #[test]
    fn an_empty_machine_has_one_nameless_processor() {
        let cpu = linux::cpu(root(&[]).path());
        assert_eq!(cpu.threads, 1);
        assert!(cpu.name.ends_with("processor"));
    }

    #[test]
    fn the_narrower_limit_is_named() {
        let quota = |cores| Some(CoreLimit::Quota { cores });
        assert_eq!(limit(64, 64, None), None);
        assert_eq!(
            limit(64, 8, None),
            Some(CoreLimit::Affinity { processors: 8 })
        );
        assert_eq!(limit(64, 8, Some(2.5)), quota(2.5));
        assert_eq!(limit(64, 64, Some(0.5)), quota(0.5));
        assert_eq!(
            limit(64, 8, Some(16.0)),
            Some(CoreLimit::Affinity { processors: 8 })
        );
        assert_eq!(limit(2, 2, Some(2.0)), None);
    }

    #[test]
    fn memory_counts_a_limit_only_where_it_limits() {
        let root = root(&[(
            "proc/meminfo",
            "MemTotal:       24585028 kB\nMemFree:  1 kB\nMemAvailable:   14128456 kB\n",
        )]);
        let total = 24_585_028 * 1024;
        let memory = linux::memory(root.path(), Some(1 << 30));
        assert_eq!(memory.total, Some(total));
        assert_eq!(memory.available, Some(14_128_456 * 1024));
        assert_eq!(memory.limit, Some(1 << 30));
        assert_eq!(linux::memory(root.path(), Some(total + 1)).limit, None);
    }

    #[test]
    fn this_machine_agrees_with_the_standard_library() {
        let (cpu, memory) = here();
        assert_eq!(cpu.usable, usable_cores());
        assert!(cpu.usable <= cpu.threads);
        assert!(memory.total.is_some());
        // If fewer are usable than there are, there is a reason, and the reason gives the number.
        let explained = match cpu.limit {
            None => cpu.threads,
            Some(CoreLimit::Affinity { processors }) => processors,
            Some(CoreLimit::Quota { cores }) => (cores.floor() as usize).max(1),
        };
        assert_eq!(cpu.usable, explained, "{cpu:?}");
    }
}
