//! The processor and main memory: their description, and the share that this process may use.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use serde::Serialize;

use crate::threads::usable_cores;

/// The processor.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cpu {
    /// Its name, in its own words.
    pub name: String,
    /// Sockets, where known.
    pub sockets: Option<usize>,
    /// Cores, where known.
    pub cores: Option<usize>,
    /// Hardware threads, on which the system schedules.
    pub threads: usize,
    /// Threads that this process may use: the number of workers that a run has.
    pub usable: usize,
    /// The limit that makes these fewer than there are.
    pub limit: Option<CoreLimit>,
    /// Instruction sets that make a difference for matrix products.
    pub instructions: Vec<&'static str>,
}

/// The limit on the threads of this process.
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

/// The processor and memory of this machine.
#[must_use]
pub fn here() -> (Cpu, Memory) {
    #[cfg(target_os = "linux")]
    {
        let root = std::path::Path::new("/");
        let limits = super::limits::ControlGroupLimits::read(root);
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

/// Main memory now, without the processor, whose description takes longer.
pub(super) fn memory_now() -> Memory {
    #[cfg(target_os = "linux")]
    {
        linux::memory(std::path::Path::new("/"), None)
    }
    #[cfg(not(target_os = "linux"))]
    {
        elsewhere::memory()
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::swap_free;

/// The narrower limit, if any. Rounded as the standard library does, whose count decides.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    #[cfg(target_os = "linux")]
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
