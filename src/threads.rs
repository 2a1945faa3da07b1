//! Threads: how many this process may use, and what one said when it panicked.

/// Cores that this process may use: affinity and control groups counted in.
#[must_use]
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "a worker panicked: {}",
        said.unwrap_or_else(|| "without a message".into())
    )
}
