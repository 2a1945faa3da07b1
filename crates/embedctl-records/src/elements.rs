//! A JSON array as lines: each element becomes a line, byte for byte, so that offsets stay those of the file.

use std::io::{self, Read};

use embedctl_common::error::{Error, Place};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the elements of a JSON array as lines. Input that does not begin with `[` consists of lines already, and is not
/// changed. Nothing is held back, so an array may have any size.
pub struct ElementLines {
    inner: Box<dyn Read + Send>,
    /// The file, for messages.
    name: String,
    state: ElementState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementState {
    /// Nothing but white space yet.
    Begin,
    /// Lines.
    Lines,
    /// In the array, so many brackets deep.
    Array { depth: u64 },
    /// In a string of it.
    Quoted { depth: u64, is_escaped: bool },
    /// After the array.
    End,
    /// After the array there was more.
    Trailing,
}

impl ElementLines {
    /// Reads nothing yet. `name` is that of the file.
    #[must_use]
    pub fn new(inner: Box<dyn Read + Send>, name: &str) -> Self {
        Self {
            inner,
            name: name.to_owned(),
            state: ElementState::Begin,
        }
    }

    /// The byte that stands for `byte` among lines.
    fn line_byte(&mut self, byte: u8) -> u8 {
        use ElementState::{Array, Begin, End, Lines, Quoted, Trailing};
        let is_space = byte.is_ascii_whitespace();
        let (state, byte) = match (self.state, byte) {
            (Begin, b'[') => (Array { depth: 0 }, b' '),
            (Begin, _) if is_space || BYTE_ORDER_MARK.contains(&byte) => (Begin, byte),
            (Begin | Lines, _) => (Lines, byte),
            (Array { depth }, b'"') => {
                let is_escaped = false;
                (Quoted { depth, is_escaped }, byte)
            }
            (Array { depth }, b'{' | b'[') => (Array { depth: depth + 1 }, byte),
            (Array { depth: 0 }, b']') => (End, b'\n'),
            (Array { depth: 0 }, b',') => (Array { depth: 0 }, b'\n'),
            (Array { depth }, b'}' | b']') => {
                let depth = depth.saturating_sub(1);
                (Array { depth }, byte)
            }
            (Array { .. }, b'\n' | b'\r') => (self.state, b' '),
            (Array { .. }, _) => (self.state, byte),
            (Quoted { depth, is_escaped }, _) => match byte {
                b'"' if !is_escaped => (Array { depth }, byte),
                // No string holds a line break: the record is refused for a control character.
                b'\n' | b'\r' => (self.state, 1),
                _ => {
                    let is_escaped = byte == b'\\' && !is_escaped;
                    (Quoted { depth, is_escaped }, byte)
                }
            },
            (End, _) if is_space => (End, b' '),
            (End | Trailing, _) => (Trailing, b' '),
        };
        self.state = state;
        byte
    }

    fn refused(&self, reason: &str, remedy: &str) -> io::Error {
        let error = Error::input(Place::file(&self.name), reason).with_remedy(remedy);
        io::Error::other(error)
    }
}

impl Read for ElementLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if self.state != ElementState::Lines {
            for byte in &mut buffer[..count] {
                *byte = self.line_byte(*byte);
            }
        }
        match self.state {
            ElementState::Trailing => Err(self.refused(
                "the JSON array ends, but more follows",
                "write one array, or one object on each line",
            )),
            ElementState::Array { .. } | ElementState::Quoted { .. }
                if count == 0 && !buffer.is_empty() =>
            {
                Err(self.refused(
                    "the JSON array is not closed: the file is cut short",
                    "fetch or write it again",
                ))
            }
            _ => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `input`, which is given in pieces of that many bytes.
    fn lines(input: &str, piece: usize) -> io::Result<String> {
        let mut elements = ElementLines::new(Box::new(io::Cursor::new(input.to_owned())), "a.json");
        let mut all = Vec::new();
        let mut buffer = vec![0; piece];
        loop {
            match elements.read(&mut buffer)? {
                0 => return Ok(String::from_utf8(all).unwrap()),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn values(text: &str) -> Vec<serde_json::Value> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn elements_become_lines_whatever_is_in_them() {
        let records = serde_json::json!([
            {"id": 1, "text": "a ] b [ c , \" \\ {"},
            {"id": 2, "text": "\\\\\"", "more": [1, [2, {"a": "]"}], {}]},
            {"id": 3, "text": "Ü\n€"},
            {}
        ]);
        let compact = records.to_string();
        let pretty = serde_json::to_string_pretty(&records).unwrap();
        let crlf = pretty.replace('\n', "\r\n");
        let marked = format!("\u{feff}\n {pretty}\n\n");
        for input in [&compact, &pretty, &crlf, &marked] {
            for piece in [1, 2, 3, 7, 64, 4096] {
                let found = lines(input, piece).unwrap();
                assert_eq!(found.len(), input.len());
                let found = found.trim_start_matches('\u{feff}');
                assert_eq!(values(found), *records.as_array().unwrap());
            }
        }
    }

    #[test]
    fn lines_stay_as_they_are() {
        for input in ["", "\n", "{\"a\": [1,\n2]}\n{}", " {}\r\n[1]\n", "text [1]"] {
            assert_eq!(lines(input, 3).unwrap(), input);
        }
    }

    #[test]
    fn an_array_that_does_not_end_or_goes_on_is_refused() {
        for (input, said) in [
            ("[", "cut short"),
            ("[{\"a\": 1}", "cut short"),
            ("[{\"a\": \"]", "cut short"),
            ("[{}] {}", "more follows"),
            ("[{}][", "more follows"),
        ] {
            for piece in [1, 100] {
                let error = lines(input, piece).unwrap_err();
                assert!(error.to_string().contains(said), "{input}: {error}");
            }
        }
        assert_eq!(
            values(&lines("[]", 2).unwrap()),
            Vec::<serde_json::Value>::new()
        );
    }
}
