//! Damage for tests: files and records as accidents and attackers make them, from a seed.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::error::{ErrorKind, Result};

/// How many cases a test of damaged data runs: few by default, `EMBEDCTL_TEST_CASES` for a long run
/// (`benches/hardening/run.sh`).
pub(crate) fn cases(few: u32) -> u32 {
    let asked = std::env::var("EMBEDCTL_TEST_CASES");
    asked.map_or(few, |text| {
        text.parse().expect("EMBEDCTL_TEST_CASES is a number")
    })
}

/// Gives `look` the path of `name` in a folder of its own, again and again, each time with `good` in it damaged
/// in another way; [`cases`] says how often. Says how long a long run took.
pub(crate) fn each(name: &str, good: &[u8], few: u32, mut look: impl FnMut(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (start, cases) = (Instant::now(), cases(few));
    for seed in 0..u64::from(cases) {
        let mut content = good.to_vec();
        damage(&mut content, seed);
        fs::write(&path, content).unwrap();
        look(&path);
    }
    if cases > few {
        println!("{name}: {cases} damaged files in {:.0?}", start.elapsed());
    }
}

/// The reason why something was refused is not the program's own fault.
pub(crate) fn assert_no_bug<T>(result: Result<T>) -> Option<T> {
    if let Err(error) = &result {
        assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    }
    result.ok()
}

/// What is put in somewhere.
const STRANGE: [&[u8]; 22] = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000",
    b"1e999",
    b"-1",
    b"0",
    b"1000000000000",
    b"18446744073709551616",
    b"null",
    b"true",
    b"[[[[[[[[",
    b"{\"a\":",
    b"\"",
    b"\r",
    b"\n",
    b"\r\n",
    b"NaN",
    b"\\",
    b"}",
    b",",
];

/// Damages `data` in one to four places.
pub(crate) fn damage(data: &mut Vec<u8>, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..=random.below(4) {
        let at = random.below(data.len() + 1);
        let end = (at + 1 + random.below(16)).min(data.len());
        let strange = STRANGE[random.below(STRANGE.len())];
        match random.below(6) {
            0 if at < data.len() => data[at] ^= 1 << random.below(8),
            1 => drop(data.drain(at..end)),
            2 => {
                let copy = data[at..end].to_vec();
                data.splice(at..at, copy);
            }
            3 => drop(data.splice(at..at, strange.iter().copied())),
            4 => data.truncate(at),
            _ => {
                // The next number becomes another.
                let digits = |byte: &u8| byte.is_ascii_digit();
                if let Some(start) = data[at..].iter().position(digits).map(|found| at + found) {
                    let length = data[start..].iter().take_while(|byte| digits(byte)).count();
                    data.splice(start..start + length, strange.iter().copied());
                }
            }
        }
    }
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("below a usize")
    }
}
