//! Values of the macOS kernel, by name.

/// A number by its name: `hw.memsize`.
pub(super) fn number(name: &str) -> Option<u64> {
    let bytes = value(name)?;
    match bytes.len() {
        4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// A text by its name: `machdep.cpu.brand_string`.
#[cfg_attr(target_arch = "x86_64", allow(dead_code))] // there the processor itself gives its name
pub(super) fn text(name: &str) -> Option<String> {
    let bytes = value(name)?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.trim_end_matches('\0').to_owned())
}

fn value(name: &str) -> Option<Vec<u8>> {
    let name = std::ffi::CString::new(name).ok()?;
    let mut bytes = vec![0_u8; 256];
    let mut size = bytes.len();
    // SAFETY: the name ends with a zero byte; the buffer is writable for `size` bytes, and the kernel writes no more
    // and sets `size` to the bytes written. Nothing is changed: there is no new value.
    let result = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    bytes.truncate(size);
    (result == 0).then_some(bytes)
}
