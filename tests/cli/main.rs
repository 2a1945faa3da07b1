//! Whole runs of the real binary: exit code, standard output and standard error together.
//!
//! One file for each subcommand, `messages.rs` for what all of them share, `faults.rs` for what goes wrong
//! around a run (signals, closed pipes, full disks). Snapshots stand in `snapshots/`; after a wanted change
//! run `INSTA_UPDATE=always cargo test --test cli` and read the difference before committing it.

mod adapters;
mod as_they_are;
mod bench;
mod cache;
mod chunks;
mod compare;
mod completions;
mod config;
#[cfg(target_os = "linux")]
mod cuda;
#[cfg(target_os = "linux")]
mod cuda_overflow;
mod devices;
mod documents;
mod dry_run;
mod embed;
mod export;
#[cfg(unix)]
mod faults;
mod help;
#[cfg(unix)]
mod hostile;
mod info;
mod inspect;
mod jobs;
mod jobs_input;
mod jobs_live;
mod jobs_proven;
mod jobs_reuse;
mod jobs_shards;
mod kept_weights;
mod keys;
mod lengths;
#[cfg(unix)]
mod libraries;
#[cfg(unix)]
mod links;
mod man;
mod messages;
mod notes;
mod nulls;
mod numbers;
#[cfg(unix)]
mod open_files;
mod operator;
mod outputs;
mod outside;
mod refused;
mod rejects;
mod rooms;
mod sandbox;
mod score;
mod search;
mod search_inputs;
#[cfg(all(target_os = "linux", feature = "serve"))]
#[path = "../serve/server.rs"]
#[allow(dead_code)] // for all that the server's tests need
mod server;
mod streams;
#[cfg(unix)]
#[path = "../support/terminal.rs"]
mod support_terminal;
mod tables;
mod tasks;
#[cfg(unix)]
mod terminal;
mod texts;
#[cfg(unix)]
mod untrusted;
mod verify;
#[cfg(target_os = "linux")]
mod weights;

#[path = "../support/mod.rs"]
mod support;

#[cfg(unix)]
#[path = "../support/fakes.rs"]
mod fakes;
