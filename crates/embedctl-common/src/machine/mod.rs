//! The processor and the memory of this machine, and what this process may use of them.

mod cpu;
mod limits;
mod room;

pub use cpu::here as processor_and_memory;
pub use cpu::{CoreLimit, Cpu, Memory};
pub use room::{Bound, Room, room};
