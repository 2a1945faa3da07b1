//! `embedctl download`, and models that `embed` fetches by itself: whole runs of the real binary against a
//! Hub on this machine.
//!
//! `fetched.rs`: what comes, and to where. `faults.rs`: what goes wrong on the way. `refused.rs`: whom the
//! Hub lets in, and what is said where it doesn't. `cached.rs`: what is here already, and what is damaged.
//! `pinned.rs`: commits and lock files. `network.rs`: proxies and certificates. `shown.rs`: bars and lines.
//! `hostile.rs`: who means harm.
//! `stopped.rs`: interrupts and kills. `readme.rs`: what README.md shows. `python.rs`: the same cache, shared with `huggingface_hub`.

#[path = "../support/hub/mod.rs"]
mod hub;
#[path = "../cli/sandbox.rs"]
#[allow(dead_code)] // for all that the command line's tests need
mod sandbox;
#[path = "../support/mod.rs"]
mod support;
#[cfg(unix)]
#[path = "../support/terminal.rs"]
mod terminal;
mod world;

mod cached;
mod faults;
mod fetched;
mod hostile;
mod network;
mod pinned;
mod python;
#[cfg(unix)]
mod readme;
mod refused;
#[cfg(unix)]
mod shown;
#[cfg(unix)]
mod stopped;
