//! The system's permission to use tiles.

use std::sync::LazyLock;

use super::super::detection::has_tiles;

/// Whether tiles may be used: not where the processor has none. An error is the reason why the system keeps them from this
/// process. The first call asks it, for the whole process.
pub(in super::super) fn permission() -> &'static Result<bool, String> {
    static ANSWER: LazyLock<Result<bool, String>> = LazyLock::new(|| match has_tiles() {
        false => Ok(false),
        true => ask().map(|()| true),
    });
    &ANSWER
}

/// Asks the kernel for the tiles' state, which it gives to processes that ask alone.
fn ask() -> Result<(), String> {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const TILE_DATA: usize = 18;
    if !state_is_enabled() {
        return Err("the system does not save the state of AMX's tiles".to_owned());
    }
    let answer: i64;
    // SAFETY: the call takes two numbers and touches no memory of this process; the kernel keeps all registers but those
    // named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match i32::try_from(-answer) {
        Ok(0) => Ok(()),
        Ok(code) => {
            let error = std::io::Error::from_raw_os_error(code);
            Err(format!("the system refuses AMX's tiles: {error}"))
        }
        Err(_) => Err("the system refuses AMX's tiles".to_owned()),
    }
}

/// Whether the system has enabled both parts of the tiles' state: their configuration, and their data.
fn state_is_enabled() -> bool {
    use std::arch::x86_64::{__cpuid, _xgetbv};
    const OSXSAVE: u32 = 1 << 27;
    const TILES: u64 = 1 << 17 | 1 << 18;
    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        // SAFETY: register 0 is there wherever the instruction is.
        unsafe { _xgetbv(0) }
    }
    if __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    // SAFETY: the processor was asked for the instruction, and the system has enabled it.
    unsafe { enabled() & TILES == TILES }
}
