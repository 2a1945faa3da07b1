//! The whole engine on the emulator: every architecture against the native engine, and faults of the card.

mod compiled;
mod emulator;
mod faults;
mod fixtures;
mod kernels;
mod networks;
