//! Whole runs of the real binary: exit code, standard output and standard error together.
//!
//! One file for each subcommand, `messages.rs` for what all of them share, `faults.rs` for what goes wrong
//! around a run (signals, closed pipes, full disks). Snapshots stand in `snapshots/`; after a wanted change
//! run `INSTA_UPDATE=always cargo test --test cli` and read the difference before committing it.

mod bench;
mod completions;
mod embed;
#[cfg(unix)]
mod faults;
mod help;
mod man;
mod messages;
mod sandbox;
#[cfg(unix)]
mod terminal;
