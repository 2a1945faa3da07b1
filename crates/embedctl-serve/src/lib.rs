//! A model behind HTTP: the routes of OpenAI, text-embeddings-inference, Cohere, Jina and Ollama, on one batching queue, and a
//! page for browsers.
//!
//! ```text
//!  connection ──► request ──► rows of tokens ──► queue ──► worker ──► answer
//!  (tokio)        limits,     (tokenizer)        bounded,  (thread,   JSON in the
//!                 keys                           in turns  a batch)   route's protocol
//! ```
//!
//! The server knows its model as a [`ServedModel`]: tokens of texts, and workers that turn rows of tokens into rows of
//! numbers. What these numbers are is their [`RowForm`](embedctl_vectors::RowForm); a route names the type of model that
//! it needs. Requests wait in one
//! [`queue`], from which every worker takes rows of several requests at a time.
//!
//! The crate prints nothing: the caller gets [`Notice`]s.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! use std::{net, thread};
//!
//! use embedctl_common::cancel::CancelToken;
//! use embedctl_common::error::{Cause, Result};
//! use embedctl_rows::batch::TokenRows;
//! use embedctl_serve::{Listen, ModelCard, ServedModel, ServedRow, ServedWorker, ServerOptions, serve};
//! # use embedctl_common::{Texts, pair::TextPair};
//! # use embedctl_rows::{batch::BatchLimits, score::ScoreForm};
//! # use embedctl_vectors::RowForm;
//! # use embedctl_serve::Token;
//!
//! /// A model whose tokens are characters, and whose vectors have one component: the number of tokens.
//! struct TextLengths(ModelCard);
//!
//! struct LengthWorker;
//!
//! impl ServedWorker for LengthWorker {
//!     fn run(&mut self, rows: &TokenRows) -> Result<Vec<Result<ServedRow, Cause>>> {
//!         let length = |row| Ok(ServedRow::from(vec![rows.get(row).len() as f32]));
//!         Ok((0..rows.len()).map(length).collect())
//!     }
//! }
//!
//! impl ServedModel for TextLengths {
//!     fn card(&self) -> &ModelCard {
//!         &self.0
//!     }
//!
//!     fn tokenize(&self, texts: &Texts, _prompt: Option<&str>) -> TokenRows {
//!         let mut rows = TokenRows::default();
//!         texts.iter().for_each(|text| rows.push(text.chars().map(u32::from), 0));
//!         rows
//!     }
//!
//!     fn worker(&self) -> Result<Box<dyn ServedWorker>> {
//!         Ok(Box::new(LengthWorker))
//!     }
//!     // … and pairs, tokens of clients, shorter vectors.
//! #    fn tokenize_pairs(&self, _: &[TextPair<'_>]) -> TokenRows {
//! #        TokenRows::default()
//! #    }
//! #    fn finish(&self, _: ScoreForm, _: &mut [f32]) {}
//! #    fn frame(&self, _: &[Vec<u32>]) -> Result<TokenRows, Cause> {
//! #        Err(Cause::of("texts only"))
//! #    }
//! #    fn tokens(&self, _: &str, _: Option<&str>, _: bool) -> Result<Vec<Token>, Cause> {
//! #        Ok(Vec::new())
//! #    }
//! #    fn cut(&self, _: &[f32], _: usize) -> Option<Vec<f32>> {
//! #        None
//! #    }
//! }
//!
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! # let card = ModelCard {
//! #     id: "lengths".into(),
//! #     revision: None,
//! #     digest: String::new(),
//! #     form: RowForm::Dense(vec![1]),
//! #     labels: Vec::new(),
//! #     cuts: false,
//! #     max_length: None,
//! #     prompt: String::new(),
//! #     prompts: Default::default(),
//! #     normalized: false,
//! #     pooling: "sum".into(),
//! #     is_half: false,
//! #     truncation: "right",
//! #     limits: BatchLimits { tokens: 256, rows: 64, equal_lengths: false },
//! #     workers: 1,
//! #     details: Default::default(),
//! # };
//! let listener = Listen::Tcp("127.0.0.1:0".into()).bind()?;
//! let address = listener.address().replace("http://", "");
//! let (model, notify) = (Arc::new(TextLengths(card)), Arc::new(|_| {}));
//! let stop = CancelToken::new();
//! let stopped = stop.clone();
//! let server = thread::spawn(move || serve(model, listener, ServerOptions::default(), notify, &stopped));
//!
//! let body = r#"{"inputs": ["cat", "mouse"]}"#;
//! let mut client = net::TcpStream::connect(address)?;
//! let head = "POST /embed HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: application/json";
//! write!(client, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.ends_with("[[3.0],[5.0]]"), "{answer}");
//!
//! stop.cancel();
//! server.join().expect("no panic")?;
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod answer;
mod answers;
mod app;
mod body;
mod browsers;
mod client;
mod connections;
mod corpus;
mod documents;
mod heads;
mod keys;
mod listen;
mod metrics;
mod model;
mod ollama;
mod openai;
mod options;
mod page;
mod queue;
mod root;
mod routes;
mod rows;
mod scores;
mod search;
mod server;
mod similarity;
mod tei;

pub use corpus::{CorpusRow, ServedCorpus};
pub use keys::ApiKeys;
pub use listen::{BoundListener, Listen};
pub use model::{ModelCard, ServedModel, ServedRow, ServedWorker, Token};
pub use options::{Notice, Notify, ServerOptions};
pub use server::serve;
