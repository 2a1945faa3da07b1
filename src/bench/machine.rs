//! The machine of a measurement: processor, cores, memory, operating system; and the memory that this process has used.

use serde::{Deserialize, Serialize};

use crate::{device, hash};

/// The properties of a machine that decide speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Bytes of memory that this process may use, where that is known.
    pub memory_bytes: Option<u64>,
    /// Operating system and its version.
    pub os: String,
    /// Instruction set, such as `x86_64`.
    pub arch: String,
    /// Measured peak of all usable cores, single precision: 10⁹ operations a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_gflops: Option<f64>,
    /// Vector instructions that the peak was measured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_vectors: Option<String>,
    /// The same for products of bfloat16, where an engine computed with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bf16: Option<f64>,
    /// The same for products of 16-bit integers, where an engine computed with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_int16: Option<f64>,
    /// The same for products of 8-bit integers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_int8: Option<f64>,
}

impl Machine {
    /// This machine, its peak not measured.
    #[must_use]
    pub fn here() -> Self {
        let (cpu, memory) = device::processor_and_memory();
        Self {
            cpu: cpu.name,
            cores: cpu.usable,
            memory_bytes: memory.limit.or(memory.total),
            os: system::os().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            arch: std::env::consts::ARCH.to_owned(),
            peak_gflops: None,
            peak_vectors: None,
            peak_bf16: None,
            peak_int16: None,
            peak_int8: None,
        }
    }

    /// The measured peak of the products that an engine computes in.
    pub(super) fn peak(&self, precision: Option<&str>) -> Option<f64> {
        match precision {
            Some("bf16") => self.peak_bf16.or(self.peak_gflops),
            Some("int16") => self.peak_int16,
            Some("int8") => self.peak_int8,
            _ => self.peak_gflops,
        }
    }

    /// Whether two machines run at the same speed: the same processor and number of usable cores.
    #[must_use]
    pub fn signature(&self) -> String {
        let text = format!("{}\n{}\n{}", self.cpu, self.cores, self.arch);
        hash::of(text)[..8].to_owned()
    }
}

/// The most memory that this process has held at a time, in bytes, where the system says.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    system::peak_memory()
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::read_to_string;

    pub fn os() -> Option<String> {
        let release = read_to_string("/etc/os-release").unwrap_or_default();
        let name = release.lines().find_map(|line| {
            let name = line.strip_prefix("PRETTY_NAME=")?;
            Some(name.trim_matches('"').to_owned())
        });
        let kernel = read_to_string("/proc/sys/kernel/osrelease").ok()?;
        Some(format!("{}, Linux {}", name?, kernel.trim()))
    }

    pub fn peak_memory() -> Option<u64> {
        high_water_mark(&read_to_string("/proc/self/status").ok()?)
    }

    pub fn high_water_mark(status: &str) -> Option<u64> {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes: u64 = peak?.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    /// The output of `sysctl -n NAME`.
    fn sysctl(name: &str) -> Option<String> {
        let output = std::process::Command::new("/usr/sbin/sysctl")
            .args(["-n", name])
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let text = text.trim();
        (output.status.success() && !text.is_empty()).then(|| text.to_owned())
    }

    pub fn os() -> Option<String> {
        let version = sysctl("kern.osproductversion").or_else(|| sysctl("kern.osrelease"))?;
        Some(format!("{} {version}", std::env::consts::OS))
    }

    pub fn peak_memory() -> Option<u64> {
        // SAFETY: `rusage` is a plain C struct for which all zeros is a value; the call fills it in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
                return None;
            }
            usage
        };
        // macOS counts in bytes, other systems in kilobytes.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        u64::try_from(usage.ru_maxrss).ok().map(|peak| peak * unit)
    }
}

#[cfg(not(unix))]
mod system {
    pub fn os() -> Option<String> {
        None
    }

    pub fn peak_memory() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_and_a_core() {
        let machine = Machine::here();
        assert!(!machine.cpu.is_empty() && machine.cores >= 1, "{machine:?}");
        assert_eq!(machine.signature(), Machine::here().signature());
    }

    #[test]
    fn other_cores_are_another_machine() {
        let machine = Machine::here();
        let mut other = machine.clone();
        other.memory_bytes = Some(1);
        assert_eq!(machine.signature(), other.signature());
        other.cores += 1;
        assert_ne!(machine.signature(), other.signature());
    }

    #[test]
    #[cfg(unix)]
    fn this_process_has_used_memory() {
        assert!(peak_memory().unwrap() > 1 << 20);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn fields_are_found_by_their_whole_name() {
        let text = "VmPeak:\t  10 kB\nVmHWM:\t  1948 kB\n";
        assert_eq!(system::high_water_mark(text), Some(1948 * 1024));
        assert_eq!(system::high_water_mark("VmHWM2: 3 kB\n"), None);
    }
}
