//! What was measured on: processor, cores, memory, operating system; and what this process has used.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::threads::usable_cores;

/// A machine as far as it decides speed.
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
        Self {
            cpu: system::cpu().unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH)),
            cores: usable_cores(),
            memory_bytes: system::memory(),
            os: system::os().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            arch: std::env::consts::ARCH.to_owned(),
            peak_gflops: None,
            peak_vectors: None,
            peak_int16: None,
            peak_int8: None,
        }
    }

    /// The measured peak of the products that an engine computes in.
    pub(super) fn peak(&self, precision: Option<&str>) -> Option<f64> {
        match precision {
            Some("int16") => self.peak_int16,
            Some("int8") => self.peak_int8,
            _ => self.peak_gflops,
        }
    }

    /// What two machines have in common that run at the same speed: processor and usable cores.
    #[must_use]
    pub fn signature(&self) -> String {
        let digest = Sha256::digest(format!("{}\n{}\n{}", self.cpu, self.cores, self.arch));
        digest[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The most memory that this process has held at a time, in bytes, where the system says.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    system::peak_memory()
}

/// The value of `key` in a file of lines `key: value`.
#[cfg(target_os = "linux")]
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// `1234 kB` in bytes.
#[cfg(target_os = "linux")]
fn kilobytes(value: &str) -> Option<u64> {
    let number: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::read_to_string;

    use super::{field, kilobytes};

    pub fn cpu() -> Option<String> {
        let info = read_to_string("/proc/cpuinfo").ok()?;
        // Kernels for ARM name only the board, if anything.
        ["model name", "Model", "Hardware", "cpu model"]
            .into_iter()
            .find_map(|key| field(&info, key))
            .map(ToOwned::to_owned)
            .or_else(|| {
                let part = format!(
                    "{} {}",
                    field(&info, "CPU implementer")?,
                    field(&info, "CPU part")?
                );
                Some(format!("{} {part}", std::env::consts::ARCH))
            })
    }

    pub fn memory() -> Option<u64> {
        let all = kilobytes(field(&read_to_string("/proc/meminfo").ok()?, "MemTotal")?)?;
        // A container's own limit, where there is one ("max" where not).
        let limit = read_to_string("/sys/fs/cgroup/memory.max").ok();
        let limit = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
        Some(limit.map_or(all, |limit| limit.min(all)))
    }

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
        let status = read_to_string("/proc/self/status").ok()?;
        kilobytes(field(&status, "VmHWM")?)
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    /// What `sysctl -n NAME` prints.
    fn sysctl(name: &str) -> Option<String> {
        let output = std::process::Command::new("/usr/sbin/sysctl")
            .args(["-n", name])
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let text = text.trim();
        (output.status.success() && !text.is_empty()).then(|| text.to_owned())
    }

    pub fn cpu() -> Option<String> {
        sysctl("machdep.cpu.brand_string").or_else(|| sysctl("hw.model"))
    }

    pub fn memory() -> Option<u64> {
        sysctl("hw.memsize")
            .or_else(|| sysctl("hw.physmem"))?
            .parse()
            .ok()
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
        // macOS counts in bytes, everybody else in kilobytes.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        u64::try_from(usage.ru_maxrss).ok().map(|peak| peak * unit)
    }
}

#[cfg(not(unix))]
mod system {
    pub fn cpu() -> Option<String> {
        std::env::var("PROCESSOR_IDENTIFIER").ok()
    }

    pub fn memory() -> Option<u64> {
        None
    }

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
        assert_eq!(field(text, "VmHWM").and_then(kilobytes), Some(1948 * 1024));
        assert_eq!(field(text, "VmH"), None);
    }
}
