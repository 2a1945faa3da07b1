//! `embedctl serve`: the real binary with small models, asked over sockets.
//!
//! `vectors.rs`: its vectors are those of `embed` and of the library. `like.rs`: an output as the model's settings.
//! `scores.rs`: its scores are those
//! of `score`. `sparse.rs`: its sparse vectors. `search.rs`: the rows that it finds are those of `search`. `process.rs`:
//! addresses, signals, keys. `conduct.rs`: what clients must not do, and get all the same. `clients.rs`: the programs that
//! speak its protocols. `page.rs`: its page in a browser.

#[path = "../cli/sandbox.rs"]
#[allow(dead_code)] // for all that the command line's tests need
mod sandbox;
mod server;
mod sparse;
#[path = "../support/mod.rs"]
mod support;

mod clients;
mod conduct;
mod like;
#[cfg(unix)] // the browser is driven by pipes
mod page;
mod process;
mod scores;
mod search;
mod vectors;
