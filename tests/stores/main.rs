//! Object stores: the library's own reading, listing and writing, and whole runs of the real binary, against servers
//! that others have made (moto for S3 and, behind a front, for Google; azurite for Azure) and against ones that go wrong on demand.
//!
//! `objects.rs`, `datasets.rs`: the library. `inputs.rs`, `runs.rs`: `embed` from and to stores. `network.rs`: the way there. `inspected.rs`: `inspect`. `compared.rs`:
//! what other commands read there. `documented.rs`: the commands of the documentation. `refused.rs`: who says no, and
//! what is said then. `secrets.rs`: what no output shows. `served.rs`: `serve --like`. `stopped.rs`: interrupts and kills.
//! `unsteady.rs`: stores that ignore conditions, cut writes. `versions.rs`: objects that are replaced while they are read.

#[path = "../support/hub/mod.rs"]
mod hub;
#[path = "../cli/sandbox.rs"]
#[allow(dead_code)] // for all that the command line's tests need
mod sandbox;
#[cfg(feature = "serve")]
#[path = "../serve/server.rs"]
#[allow(dead_code)] // for all that the server's tests need
mod server;
mod servers;
#[path = "../support/mod.rs"]
mod support;

mod compared;
mod datasets;
#[cfg(unix)]
mod documented;
#[cfg(unix)]
mod inputs;
mod inspected;
mod network;
mod objects;
mod refused;
mod runs;
mod secrets;
#[cfg(feature = "serve")]
mod served;
#[cfg(unix)]
mod stopped;
mod unsteady;
mod versions;
