//! Scores of texts and of pairs of texts: the classification heads of transformers, and the logits of two tokens, as
//! sentence-transformers' `CrossEncoder` reads them.
//!
//! A head is a way to pool tokens' states and modules behind it, so that scores go the way of vectors: the network, the
//! pooler, the output.

pub(crate) mod activation;
mod bounded_template;
pub(crate) mod chat;
mod jinja;
pub(crate) mod labels;
mod python;
mod template_source;

pub use chat::{ChatMessage, ChatTemplate};
