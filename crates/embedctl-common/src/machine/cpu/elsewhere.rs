//! The processor and memory on systems without `/proc`, by calls to the processor or the system. The crate `sysinfo`
//! would add four crates on Windows and two on macOS for these few calls, and names no instruction sets.

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
    crate::machine::macos::text("machdep.cpu.brand_string")
        .unwrap_or_else(|| "Apple processor".to_owned())
}

#[cfg(not(any(target_arch = "x86_64", target_os = "macos")))]
pub(super) fn name() -> String {
    std::env::var("PROCESSOR_IDENTIFIER")
        .unwrap_or_else(|_| format!("{} processor", std::env::consts::ARCH))
}

/// The names of those features that the processor has.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detected {
    ($has:ident, $($name:literal = $feature:tt)*) => {{
        let all = [$(($name, std::arch::$has!($feature))),*];
        all.into_iter().filter(|one| one.1).map(|one| one.0).collect()
    }};
}

#[cfg(target_arch = "x86_64")]
pub(super) fn instructions() -> Vec<&'static str> {
    detected!(is_x86_feature_detected, "avx"="avx" "avx2"="avx2" "fma"="fma" "f16c"="f16c" "avx_vnni"="avxvnni"
        "avx512f"="avx512f" "avx512_vnni"="avx512vnni" "avx512_bf16"="avx512bf16")
}

#[cfg(target_arch = "aarch64")]
pub(super) fn instructions() -> Vec<&'static str> {
    detected!(is_aarch64_feature_detected, "neon"="neon" "dotprod"="dotprod" "i8mm"="i8mm" "bf16"="bf16")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn instructions() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(target_os = "macos")]
pub(super) fn cores() -> Option<usize> {
    crate::machine::macos::number("hw.physicalcpu").and_then(|cores| cores.try_into().ok())
}

#[cfg(not(target_os = "macos"))]
pub(super) fn cores() -> Option<usize> {
    None
}

#[cfg(target_os = "macos")]
pub(super) fn memory() -> Memory {
    Memory {
        total: crate::machine::macos::number("hw.memsize"),
        ..Memory::default()
    }
}

#[cfg(windows)]
pub(super) fn memory() -> Memory {
    crate::machine::windows::memory()
}

#[cfg(not(any(target_os = "macos", windows)))]
pub(super) fn memory() -> Memory {
    Memory::default()
}
