//! The processor and memory as Linux shows them below `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Cpu, Memory};

/// Names in `/proc/cpuinfo` of the instruction sets that matter.
const FLAGS: &str =
    "avx avx2 fma f16c avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_bf16
    asimd asimddp i8mm bf16 sve";

/// The processor below `root`, which stands for `/`; limits are left to the caller.
pub(super) fn cpu(root: &Path) -> Cpu {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let values = |key: &'static str| {
        info.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then_some(value.trim())
        })
    };
    // On Arm there is no name. The device tree or the firmware may name the machine, but virtual machines of one kind
    // share that name, so the processors' numbers are added.
    let name = values("model name").next().map(str::to_owned);
    let name = name.unwrap_or_else(|| {
        let machine = machine(root);
        let name = machine.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH));
        let mut numbers: Vec<String> = Vec::new();
        for key in ["CPU implementer", "CPU part"] {
            for number in values(key).map(|value| format!("{key} {value}")) {
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
        }
        match numbers.is_empty() {
            true => name,
            false => format!("{name} ({})", numbers.join(", ")),
        }
    });
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
            .split_ascii_whitespace()
            .filter(|flag| flags.contains(flag))
            .map(|flag| match flag {
                "asimd" => "neon",
                "asimddp" => "dotprod",
                usual => usual,
            })
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

fn memory_info(root: &Path) -> String {
    fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default()
}

/// A line of the kernel's account of memory.
fn bytes(info: &str, key: &str) -> Option<u64> {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Bytes of free swap.
pub(crate) fn swap_free(root: &Path) -> u64 {
    bytes(&memory_info(root), "SwapFree").unwrap_or(0)
}

/// Memory below `root`, under a control group's limit.
pub(super) fn memory(root: &Path, limit: Option<u64>) -> Memory {
    let info = memory_info(root);
    let total = bytes(&info, "MemTotal");
    Memory {
        total,
        available: bytes(&info, "MemAvailable"),
        // A limit above the machine's memory has no effect.
        limit: limit.filter(|&limit| total.is_none_or(|total| limit < total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedctl_testing::root;

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
        let cpu = cpu(root.path());
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
    fn an_arm_processor_goes_by_its_machine_and_its_own_number() {
        let cpus = |parts: &[&str]| {
            let of_part = |part: &&str| {
                format!(
                    "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd asimddp sve i8mm bf16\n\
                     CPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
                )
            };
            let info: String = parts.iter().map(of_part).collect();
            let model = ("proc/device-tree/model", "linux,dummy-virt\0");
            cpu(root(&[("proc/cpuinfo", &info), model]).path())
        };
        assert_eq!(
            cpus(&["0xd05", "0xd0b", "0xd0b"]).name,
            "linux,dummy-virt (CPU implementer 0x41, CPU part 0xd05, CPU part 0xd0b)"
        );
        let cpu = cpus(&["0xd4f"]);
        assert_eq!(
            cpu.name,
            "linux,dummy-virt (CPU implementer 0x41, CPU part 0xd4f)"
        );
        assert_eq!(cpu.instructions, ["neon", "dotprod", "i8mm", "bf16", "sve"]);
        assert_eq!((cpu.sockets, cpu.cores, cpu.threads), (None, None, 1));
    }

    #[test]
    fn an_empty_machine_has_one_nameless_processor() {
        let cpu = cpu(root(&[]).path());
        assert_eq!(cpu.threads, 1);
        assert!(cpu.name.ends_with("processor"));
    }

    #[test]
    fn memory_counts_a_limit_only_where_it_limits() {
        let root = root(&[(
            "proc/meminfo",
            "MemTotal:       24585028 kB\nMemFree:  1 kB\nMemAvailable:   14128456 kB\n",
        )]);
        let total = 24_585_028 * 1024;
        let limited = memory(root.path(), Some(1 << 30));
        assert_eq!(limited.total, Some(total));
        assert_eq!(limited.available, Some(14_128_456 * 1024));
        assert_eq!(limited.limit, Some(1 << 30));
        assert_eq!(memory(root.path(), Some(total + 1)).limit, None);
    }
}
