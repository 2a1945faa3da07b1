//! A server with a model of the tests' own, asked over sockets.

mod hostile;
mod life;
mod model;
mod page;
mod protocols;
mod scores;
mod search;
mod server;
