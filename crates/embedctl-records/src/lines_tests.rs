//! Lines come out the same however their bytes come in.

use super::*;

/// Gives `step` bytes at a time, as a slow pipe would.
struct Drip(Vec<u8>, usize);

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.len().min(self.1).min(into.len());
        into[..bytes].copy_from_slice(&self.0[..bytes]);
        self.0.drain(..bytes);
        Ok(bytes)
    }
}

/// Start, length, number and offset of every line.
fn lines(input: &[u8], step: usize, limit: usize) -> Vec<(Vec<u8>, u64, u64, u64)> {
    let mut reader = LineReader::new(Box::new(Drip(input.to_vec(), step)), limit);
    assert_eq!(reader.begin(|_| false).unwrap(), TextStart::Utf8);
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line().unwrap() {
        lines.push((line.bytes.to_vec(), line.length, line.number, line.offset));
    }
    assert_eq!(reader.number(), lines.len() as u64);
    assert_eq!(reader.offset(), input.len() as u64);
    lines
}

fn texts(input: &str) -> Vec<String> {
    let expected = lines(input.as_bytes(), usize::MAX, 100);
    for step in 1..5 {
        assert_eq!(lines(input.as_bytes(), step, 100), expected);
    }
    expected
        .into_iter()
        .map(|line| String::from_utf8(line.0).unwrap())
        .collect()
}

#[test]
fn ends_of_lines() {
    assert_eq!(texts(""), [""; 0]);
    assert_eq!(texts("\n"), [""]);
    assert_eq!(texts("a"), ["a"]);
    assert_eq!(texts("a\n"), ["a"]);
    assert_eq!(texts("a\n\nb"), ["a", "", "b"]);
    assert_eq!(texts("a\r\n\r\nb\r\n"), ["a", "", "b"]);
    // A carriage return is part of the line's end only before a line feed.
    assert_eq!(texts("a\rb\n\r\r\nc\r"), ["a\rb", "\r", "c\r"]);
}

#[test]
fn numbers_and_offsets_count_in_the_stream() {
    let found = lines("\u{feff}a\r\n\nbc\nd".as_bytes(), 2, 100);
    let places: Vec<_> = found.iter().map(|line| (line.2, line.3)).collect();
    assert_eq!(places, [(1, 3), (2, 6), (3, 7), (4, 10)]);
}

#[test]
fn only_a_byte_order_mark_at_the_start_is_dropped() {
    assert_eq!(texts("\u{feff}a\n\u{feff}b"), ["a", "\u{feff}b"]);
    assert_eq!(texts("\u{feff}"), [""; 0]);
    assert_eq!(texts("\u{feff}\n"), [""]);
    assert_eq!(lines(b"\xef\xbb", 1, 100)[0].0, b"\xef\xbb");
    assert_eq!(lines(b"\xff\xfe\n", 1, 100)[0].0, b"\xff\xfe");
}

#[test]
fn utf_16_is_recognised() {
    for (bytes, name) in [
        (&b"\xff\xfea\0\n\0"[..], "UTF-16"),
        (b"\xfe\xff\0a\0\n", "UTF-16"),
        (b"a\0\n\0", "UTF-16LE"),
        (b"\0a\0\n", "UTF-16BE"),
    ] {
        let mut reader = LineReader::new(Box::new(Drip(bytes.to_vec(), 1)), 10);
        assert_eq!(reader.begin(|_| false).unwrap(), TextStart::Utf16(name));
    }
}

#[test]
fn lines_above_the_limit_are_skipped_and_measured() {
    for step in [1, 2, 3, 7, 1000, usize::MAX] {
        for end in ["\n", "\r\n"] {
            let input = ["abcd", "abcde", &"x".repeat(5000), "", "z"].join(end);
            let found = lines(input.as_bytes(), step, 4);
            let lengths: Vec<_> = found.iter().map(|line| line.1).collect();
            assert_eq!(lengths, [4, 5, 5000, 0, 1], "{step} {end:?}");
            assert_eq!(found[0].0, b"abcd");
            assert_eq!(found[1].0[..5], *b"abcde");
            assert!(found[2].0.starts_with(b"xxxxx"));
            assert_eq!(found[4].0, b"z");
            assert_eq!(found[4].3, (input.len() - 1) as u64);
        }
    }
    // The last line, without an end.
    let found = lines(&[b'x'; 5000], 999, 4);
    assert_eq!((found.len(), found[0].1), (1, 5000));
}

proptest::proptest! {
    #[test]
    fn lines_do_not_depend_on_how_they_come(
        input in "([a-z]{0,9}(\r|\n|\r\n)?){0,20}",
        step in 1usize..12,
        limit in 1usize..8,
    ) {
        let mut expected: Vec<&str> = input.split('\n').collect();
        // What follows the last end of a line is a line only if it holds something.
        let open = expected.pop().filter(|line| !line.is_empty());
        let whole = expected.iter().map(|line| line.strip_suffix('\r').unwrap_or(line));
        let expected: Vec<&str> = whole.chain(open).collect();
        let found = lines(input.as_bytes(), step, limit);
        proptest::prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            proptest::prop_assert_eq!(found.1, expected.len() as u64);
            proptest::prop_assert!(expected.as_bytes().starts_with(&found.0) || found.1 > limit as u64);
            proptest::prop_assert!(found.1 > limit as u64 || found.0 == expected.as_bytes());
            let rest = &input.as_bytes()[usize::try_from(found.3).unwrap()..];
            proptest::prop_assert!(rest.starts_with(expected.as_bytes()));
        }
    }
}

#[test]
fn memory_stays_bounded() {
    let limit = 1024 * 1024;
    let mut input = vec![b'x'; 20 * limit];
    input.push(b'\n');
    input.extend(vec![b'y'; limit]);
    let mut reader = LineReader::new(Box::new(io::Cursor::new(input)), limit);
    let line = reader.next_line().unwrap().unwrap();
    assert_eq!(line.length, 20 * limit as u64);
    assert_eq!(line.bytes, [b'x'; Reject::RAW_BYTES]);
    let line = reader.next_line().unwrap().unwrap();
    assert_eq!(line.bytes, vec![b'y'; limit]);
    assert!(reader.next_line().unwrap().is_none());
    assert!(reader.buffer.len() <= limit + CHUNK);
}

#[test]
fn an_error_comes_after_the_whole_lines_before_it() {
    struct FailingReader;
    impl Read for FailingReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    let stream = io::Cursor::new(b"a\nhalf").chain(FailingReader);
    let mut reader = LineReader::new(Box::new(stream), 100);
    assert_eq!(reader.next_line().unwrap().unwrap().bytes, b"a");
    assert_eq!(reader.next_line().unwrap_err().to_string(), "broken");
}
