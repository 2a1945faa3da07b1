//! A model behind HTTP: OpenAI's `/v1/embeddings` and the routes of text-embeddings-inference, on one batching queue.
//!
//! ```text
//!  connection ──► request ──► rows of tokens ──► queue ──► worker ──► answer
//!  (tokio)        limits,     (tokenizer)        bounded,  (thread,   JSON in the
//!                 keys                           in turns  a batch)   route's protocol
//! ```
//!
//! The server knows its model as a [`ServedModel`]: tokens of texts, and workers that turn rows of tokens into rows of
//! numbers. What these numbers are is the model's [`ModelHead`]; a route names the head that it needs. Requests wait in one
//! [`queue`], from which every worker takes rows of several requests at a time.
//!
//! The crate prints nothing: the caller gets [`Notice`]s.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod answer;
mod app;
mod body;
mod connections;
mod keys;
mod listen;
mod metrics;
mod model;
mod openai;
mod options;
mod queue;
mod routes;
mod rows;
mod scores;
mod server;
mod tei;

pub use keys::ApiKeys;
pub use listen::{BoundListener, Listen};
pub use model::{ModelCard, ModelHead, ServedModel, ServedRow, ServedWorker, Token};
pub use options::{Notice, Notify, ServerOptions};
pub use server::serve;
