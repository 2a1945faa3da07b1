//! Faults of the Hub that tests can cause: kind, place and number.

use std::sync::Arc;

use super::http::{Hook, Reply, Request, Step};

/// The answers that a fault spoils.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The Hub's answer about a repository.
    Api,
    /// The Hub's answer about a file: a redirect, or a small file itself.
    Hub(String),
    /// A file's content, wherever it is served.
    Content(String),
}

/// The kind of a fault.
#[derive(Clone)]
pub enum Fault {
    /// Another status, with headers and no content.
    Status(u16, Vec<(&'static str, String)>),
    /// The connection ends when so many bytes of this answer have been sent.
    Cut(usize),
    /// The connection falls silent when so many bytes of this answer have been sent.
    Stall(usize),
    /// Something is done when so many bytes of this answer have been sent.
    Call(usize, Hook),
    /// The connection ends without an answer.
    NoAnswer,
    /// No answer comes.
    Silence,
    /// Other content.
    Content(Vec<u8>),
    /// The right length, and one wrong byte in the middle of the body.
    WrongByte,
    /// The whole file, whatever part was asked for.
    IgnoreRange,
    /// Another part than the one that was asked for.
    WrongRange,
    /// So many bytes at a time.
    Trickle(usize),
    /// No length is told: the content ends with the connection.
    Unmeasured,
    /// A redirect.
    Redirect(u16, String),
    /// Every request for a part of the file is answered by 416.
    RefuseRange,
    /// This header, with another value if it is there already.
    With(&'static str, String),
    /// These headers are left out.
    Without(&'static [&'static str]),
}

impl Fault {
    /// A status that comes with the Hub's word for what is wrong.
    pub fn coded(status: u16, code: &str, message: &str) -> Self {
        Self::Status(
            status,
            vec![
                ("X-Error-Code", code.to_owned()),
                ("X-Error-Message", message.to_owned()),
            ],
        )
    }

    /// "Come back at once", so that no test waits.
    pub fn again(status: u16) -> Self {
        Self::Status(status, vec![("Retry-After", "0".to_owned())])
    }

    pub fn call(after: usize, call: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Call(after, Arc::new(call))
    }

    /// Whether the answer is to be made as if no range had been asked for.
    pub(super) fn ignores_range(&self) -> bool {
        matches!(self, Self::IgnoreRange)
    }

    pub(super) fn spoil(&self, request: &Request, reply: &mut Reply) {
        match self {
            Self::Status(status, headers) => {
                *reply = Reply::new(*status);
                for (name, value) in headers {
                    reply.headers.push(((*name).to_owned(), value.clone()));
                }
            }
            Self::Cut(after) => reply.steps.push((*after, Step::Cut)),
            Self::Stall(after) => reply.steps.push((*after, Step::Stall)),
            Self::Call(after, call) => reply.steps.push((*after, Step::Call(Arc::clone(call)))),
            Self::NoAnswer => reply.instead = Some(Step::Cut),
            Self::Silence => reply.instead = Some(Step::Stall),
            Self::Content(content) => reply.body.clone_from(content),
            Self::WrongByte => {
                let middle = reply.body.len() / 2;
                reply.body[middle] ^= 1;
            }
            Self::IgnoreRange => {}
            Self::WrongRange => {
                if request.range().is_some() {
                    let length = reply.body.len();
                    reply.headers.retain(|(name, _)| name != "Content-Range");
                    let range = format!("bytes 0-{}/{}", length - 1, length);
                    reply.headers.push(("Content-Range".to_owned(), range));
                }
            }
            Self::Trickle(bytes) => reply.trickle = Some(*bytes),
            Self::Unmeasured => reply.unmeasured = true,
            Self::Redirect(status, location) => {
                *reply = Reply::new(*status).with("Location", location);
            }
            Self::RefuseRange => {
                if request.range().is_some() {
                    *reply = Reply::new(416);
                }
            }
            Self::With(name, value) => {
                reply
                    .headers
                    .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
                reply.headers.push(((*name).to_owned(), value.clone()));
            }
            Self::Without(names) => {
                (reply.headers).retain(|(name, _)| !names.contains(&name.as_str()));
            }
        }
    }
}

/// A fault, and which of the answers it spoils: after `skip` good ones, `times` of them.
pub(super) struct Rule {
    pub(super) at: At,
    pub(super) skip: usize,
    pub(super) times: usize,
    pub(super) fault: Fault,
}

impl Rule {
    /// Counts an answer; returns whether it is to be spoiled.
    pub(super) fn applies(&mut self, at: &At) -> bool {
        if self.at != *at || self.times == 0 {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}
