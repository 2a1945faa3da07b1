//! Lines that a few compressed bytes hold, and that hardly end.

use super::*;
use crate::reading::compression::tests::{bzip2, gzip, xz, zstd};
use embedctl_testing::stride;

type Pack = fn(&[u8]) -> Vec<u8>;

/// All compressions, by the endings of files.
const PACKS: [(&str, Pack); 4] = [("gz", gzip), ("zst", zstd), ("bz2", bzip2), ("xz", xz)];

/// Whatever the compression, the byte and the reader: a little is read, and said to be no text.
#[test]
fn a_line_without_an_end_is_an_error_soon() {
    for (number, (ending, pack)) in PACKS.into_iter().enumerate() {
        for (byte, formats) in [(0, &["txt", "jsonl", "csv"][..]), (b'x', &["txt", "tsv"])] {
            let data = pack(&vec![byte; 1 << 20]).repeat(600);
            for format in formats {
                let starts = ["", "id,text\n1,one\n"].into_iter();
                for start in starts.skip(number % stride(2)).step_by(stride(2)) {
                    let name = format!("a.{format}.{ending}");
                    let line = 1 + start.lines().count();
                    let start = match *format {
                        "tsv" => pack(start.replace(',', "\t").as_bytes()),
                        _ => pack(start.as_bytes()),
                    };
                    let files = Files::new().with(&name, [&start[..], &data].concat());
                    let error = failure(files.open(options()).and_then(windows));
                    let said = format!("line {line} exceeds the record limit by over 67");
                    assert!(error.contains(&said) && error.contains(&name), "{error}");
                    assert!(error.contains("decompress the file first"), "{error}");
                }
            }
        }
    }
}

/// A long line that is compressed as text is, or that ends, is a rejected record as ever.
#[test]
fn long_lines_of_compressed_text_are_rejected_one_by_one() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b'a' + u8::try_from((state >> 33) % 26).unwrap()
    };
    let noise: Vec<u8> = (0..70 << 20).map(|_| noise()).collect();
    let text = [&noise[..], b"\nshort\n"].concat();
    let short = [&vec![b'x'; 60 << 20][..], b"\nshort\n"].concat();
    for (name, content) in [
        ("a.txt.gz", gzip(&text)),
        ("b.txt.zst", zstd(&short)),
        ("c.txt", short),
    ] {
        let windows = Files::new().with(name, content).read(options());
        assert_eq!(texts(&windows), ["short"], "{name}");
        let rejects = windows.iter().map(|window| window.rejects().count());
        assert_eq!(rejects.sum::<usize>(), 1, "{name}");
    }
}
