//! Heads of requests, as they come in: which of them tell the length of their body in two ways.
//!
//! `Content-Length` together with `Transfer-Encoding` is how a request is smuggled past a proxy that reads the other one.
//! hyper reads the second and removes the first, so that it cannot be seen any more when a request is answered.

use std::collections::VecDeque;

/// A connection's requests. Bodies of a stated length are passed over. A body in chunks is the last that is looked at:
/// the connection is closed behind it.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    state: HeadState,
    /// The line that is being read.
    line: Vec<u8>,
    /// Whether a line of the head was not empty.
    begun: bool,
    length: Option<u64>,
    is_encoded: bool,
    /// Of heads that no request was made of yet, whether they tell two lengths.
    found: VecDeque<bool>,
}

#[derive(Debug, Default, Clone, Copy)]
enum HeadState {
    #[default]
    Head,
    /// So many bytes of a body are left.
    Body(u64),
    /// Nothing more is looked at.
    Chunks,
}

/// Bytes of a line that are kept: no name of a header that matters is longer, and no length.
const LINE: usize = 128;

impl Heads {
    /// Looks at bytes that were read.
    pub fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.state {
                HeadState::Head => {
                    let end = bytes.iter().position(|&byte| byte == b'\n');
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    let kept = part.len().min(LINE.saturating_sub(self.line.len()));
                    self.line.extend_from_slice(&part[..kept]);
                    bytes = end.map_or(&[], |end| &bytes[end + 1..]);
                    if end.is_some() {
                        self.end_line();
                    }
                }
                HeadState::Body(left) => {
                    let passed = left.min(bytes.len() as u64);
                    bytes = &bytes[usize::try_from(passed).unwrap_or(bytes.len())..];
                    self.state = match left - passed {
                        0 => HeadState::Head,
                        left => HeadState::Body(left),
                    };
                }
                HeadState::Chunks => return,
            }
        }
    }

    /// Whether the next request tells the length of its body in two ways.
    pub fn next_is_ambiguous(&mut self) -> bool {
        self.found.pop_front().unwrap_or(false)
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.is_empty() {
            // Empty lines before a request are allowed.
            if std::mem::take(&mut self.begun) {
                self.end_head();
            }
            return;
        }
        self.begun = true;
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return;
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_encoded = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            // hyper refuses a length that is not a number.
            let length = std::str::from_utf8(value)
                .ok()
                .and_then(|it| it.parse().ok());
            self.length = Some(length.unwrap_or_default());
        }
    }

    fn end_head(&mut self) {
        let (length, is_encoded) = (self.length.take(), std::mem::take(&mut self.is_encoded));
        self.found.push_back(is_encoded && length.is_some());
        self.state = match (is_encoded, length) {
            (true, _) => HeadState::Chunks,
            (false, None | Some(0)) => HeadState::Head,
            (false, Some(length)) => HeadState::Body(length),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in these bytes, however they are cut.
    fn found(bytes: &[u8]) -> Vec<bool> {
        let mut whole = Heads::default();
        whole.read(bytes);
        let whole = Vec::from(whole.found);
        for size in [1, 2, 7, 60] {
            let mut heads = Heads::default();
            bytes.chunks(size).for_each(|part| heads.read(part));
            assert_eq!(Vec::from(heads.found), whole, "in parts of {size}");
        }
        whole
    }

    #[test]
    fn heads_with_two_lengths_are_found_in_any_order_and_behind_other_requests() {
        let plain = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n\
                     Transfer-Encoding: chunked\r\n\r\n";
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let first = "POST / HTTP/1.1\r\ncontent-length: 3\r\nTRANSFER-ENCODING: chunked\r\n\r\n";
        let second = "\r\nPOST / HTTP/1.1\nTransfer-Encoding:chunked\nContent-Length:3\n\n";
        assert_eq!(found(plain.as_bytes()), [false]);
        assert_eq!(found(first.as_bytes()), [true]);
        assert_eq!(found(second.as_bytes()), [true]);
        let all = format!("{plain}{get}{get}{second}");
        assert_eq!(found(all.as_bytes()), [false, false, false, true]);
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n{first}", "a".repeat(3000));
        assert_eq!(found(long.as_bytes()), [false, true]);
        assert_eq!(
            found(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            [false]
        );
    }
}
