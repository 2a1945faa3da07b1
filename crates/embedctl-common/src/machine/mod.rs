//! The processor and the memory of this machine, and the share that this process may use.

mod cpu;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "macos")]
mod macos;
mod room;
#[cfg(windows)]
mod windows;

pub use cpu::here as processor_and_memory;
pub use cpu::{CoreLimit, Cpu, Memory};
pub use room::{Bound, Room, room};
