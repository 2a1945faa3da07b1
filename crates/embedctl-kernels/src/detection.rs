//! What the processor is asked for: by the kernels when they run, and by the build script, which compiles those of the
//! machine at hand.

/// Names of the instruction sets for vectors that this processor has, the fastest first and `portable` last.
pub(super) fn vectors() -> Vec<&'static str> {
    let mut names = vec!["portable"];
    #[cfg(target_arch = "x86_64")]
    {
        use std::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
        names.extend(avx2.then_some("avx2"));
        names.extend((avx2 && has!("avxvnni")).then_some("avx2-vnni"));
        names.extend((avx2 && avx512 && has!("avx512vnni")).then_some("avx512"));
    }
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::is_aarch64_feature_detected as has;
        names.extend(has!("neon").then_some("neon"));
        let dot = has!("neon") && has!("dotprod");
        names.extend(dot.then_some("neon-dot"));
        names.extend((dot && has!("i8mm")).then_some("neon-i8mm"));
    }
    names.reverse();
    names
}

/// Whether the processor multiplies tiles of bytes and of bfloat16 beside AVX-512. On other systems than Linux tiles are
/// left alone.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) fn has_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    const ALL: u32 = BF16 | TILE | INT8;
    let has = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & ALL == ALL;
    has && vectors()[0] == "avx512"
}

/// As above.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) fn has_tiles() -> bool {
    false
}
