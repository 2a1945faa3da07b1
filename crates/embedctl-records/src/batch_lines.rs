//! A batch file of OpenAI's API as lines: each text of a request becomes an object on a line of its own.

use std::io::{self, BufRead, BufReader, Read};

use serde::Deserialize;
use serde_json::value::RawValue;

use embedctl_common::error::{Error, Place};

/// Bytes of a request at most: the API takes files of 200 MB.
const LONGEST: u64 = 256 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads requests (`{"custom_id": …, "body": {"input": …}}`) as lines `{"id": …, "index": …, "text": …}`: one of a
/// string, and one of each element of a list, counted from 0. Any other line stays as it is.
pub struct BatchLines {
    inner: BufReader<Box<dyn Read + Send>>,
    /// The file, for messages.
    name: String,
    /// The request at hand.
    request: Vec<u8>,
    /// Its lines, and how much of them was read.
    lines: Vec<u8>,
    read: usize,
}

#[derive(Deserialize)]
struct BatchRequest<'a> {
    #[serde(borrow)]
    custom_id: &'a RawValue,
    #[serde(borrow)]
    body: BatchBody<'a>,
}

#[derive(Deserialize)]
struct BatchBody<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
}

impl BatchLines {
    /// Reads nothing yet. `name` is that of the file.
    #[must_use]
    pub fn new(inner: Box<dyn Read + Send>, name: &str) -> Self {
        Self {
            inner: BufReader::new(inner),
            name: name.to_owned(),
            request: Vec::new(),
            lines: Vec::new(),
            read: 0,
        }
    }

    /// Makes the lines of the next request; none at the end.
    fn advance(&mut self) -> io::Result<()> {
        (self.read, self.request) = (0, Vec::new());
        self.lines.clear();
        let mut limited = self.inner.by_ref().take(LONGEST);
        let length = limited.read_until(b'\n', &mut self.request)? as u64;
        if length == LONGEST && !self.request.ends_with(b"\n") {
            let reason = format!("a request has more than {LONGEST} bytes");
            let error = Error::input(Place::file(&self.name), reason)
                .with_remedy("divide its list of texts among several requests");
            return Err(io::Error::other(error));
        }
        let request = self.request.strip_prefix(BYTE_ORDER_MARK);
        let request = request.unwrap_or(&self.request);
        match serde_json::from_slice::<BatchRequest<'_>>(request) {
            Ok(BatchRequest { custom_id, body }) => {
                for (index, text) in texts(body.input).iter().enumerate() {
                    let line =
                        format!("{{\"id\":{custom_id},\"index\":{index},\"text\":{text}}}\n");
                    self.lines.extend_from_slice(line.as_bytes());
                }
            }
            Err(_) => std::mem::swap(&mut self.lines, &mut self.request),
        }
        Ok(())
    }
}

/// The texts of a request as they are written. A list of numbers is one text, of tokens, which is refused where it is
/// read; an empty list is one that is null.
fn texts(input: &RawValue) -> Vec<&str> {
    let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(input.get()) else {
        return vec![input.get()];
    };
    let is_number = |element: &&RawValue| element.get().parse::<f64>().is_ok();
    match elements.first() {
        None => vec!["null"],
        Some(first) if is_number(first) => vec![input.get()],
        Some(_) => elements.iter().map(|element| element.get()).collect(),
    }
}

impl Read for BatchLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.lines.len() {
            self.advance()?;
        }
        let count = buffer.len().min(self.lines.len() - self.read);
        buffer[..count].copy_from_slice(&self.lines[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &str) -> String {
        let mut lines = String::new();
        let mut reader = BatchLines::new(Box::new(io::Cursor::new(input.to_owned())), "a.jsonl");
        reader.read_to_string(&mut lines).unwrap();
        lines
    }

    #[test]
    fn each_text_of_a_request_is_a_line() {
        for (request, expected) in [
            (
                r#"{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"model": "m", "input": "x\n"}}"#,
                r#"{"id":"a","index":0,"text":"x\n"}"#,
            ),
            (
                r#"{"body": {"input": ["x", "é\u00e9", null]}, "custom_id": 7}"#,
                "{\"id\":7,\"index\":0,\"text\":\"x\"}\n{\"id\":7,\"index\":1,\"text\":\"é\\u00e9\"}\n\
                 {\"id\":7,\"index\":2,\"text\":null}",
            ),
            (
                r#"{"custom_id":"a","body":{"input":[]}}"#,
                r#"{"id":"a","index":0,"text":null}"#,
            ),
            (
                r#"{"custom_id":"a","body":{"input":[1, 2]}}"#,
                r#"{"id":"a","index":0,"text":[1, 2]}"#,
            ),
            (
                r#"{"custom_id":"a","body":{"input":[[1], [2]]}}"#,
                "{\"id\":\"a\",\"index\":0,\"text\":[1]}\n{\"id\":\"a\",\"index\":1,\"text\":[2]}",
            ),
            (r#"{"text": "no request"}"#, r#"{"text": "no request"}"#),
            (r#"{"custom_id": "cut", "#, r#"{"custom_id": "cut", "#),
        ] {
            let expected = format!("{expected}\n");
            assert_eq!(lines(&format!("{request}\n")), expected, "{request}");
            let twice = format!("{request}\r\n{request}\n");
            let again = lines(&twice).replace('\r', "");
            assert_eq!(again, expected.repeat(2), "{request}");
        }
        let marked = "\u{feff}{\"custom_id\":\"a\",\"body\":{\"input\":\"x\"}}";
        let expected = "{\"id\":\"a\",\"index\":0,\"text\":\"x\"}\n";
        assert_eq!(lines(marked), expected);
        assert_eq!(lines(""), "");
        assert_eq!(lines("\n\n"), "\n\n");
    }
}
