//! Damage for tests: files and records as accidents and attackers make them, from a seed.
//!
//! A case may neither panic, nor take ten seconds, nor ask for memory by a number in the damaged data. A failure
//! names its case; `EMBEDCTL_TEST_FIRST=SEED EMBEDCTL_TEST_CASES=1` runs it again.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use arrow::ipc::root_as_footer;

/// How long a case may take.
const LONGEST: Duration = Duration::from_secs(10);

/// Bytes that a case may ask for at a time.
const MOST: usize = 64 << 20;

/// Megabytes that the process may have held after a long run, all tests before included.
const MOST_HELD: u64 = 1000;

thread_local! {
    /// The most bytes that this thread has asked for at a time, since a case began.
    static ASKED: Cell<usize> = const { Cell::new(0) };
    /// All bytes that it has asked for.
    static ALL: Cell<usize> = const { Cell::new(0) };
}

/// Somebody asks for memory.
pub fn asked(bytes: usize) {
    // A thread that is ending asks without being watched.
    let _ = ASKED.try_with(|asked| asked.set(asked.get().max(bytes)));
    let _ = ALL.try_with(|all| all.set(all.get().wrapping_add(bytes)));
}

/// All bytes that `work` asks for, one after another, in this thread.
pub fn all_asked(work: impl FnOnce()) -> usize {
    let before = ALL.get();
    work();
    ALL.get().wrapping_sub(before)
}

/// The most bytes that `work` asks for at a time, in this thread.
pub fn most_asked(work: impl FnOnce()) -> usize {
    ASKED.set(0);
    work();
    ASKED.get()
}

/// How many cases a test of damaged data runs: `few` in CI and a third of them elsewhere, or `EMBEDCTL_TEST_CASES` for a long
/// run (`benches/hardening/mutate.sh`).
#[must_use]
pub fn cases(few: u32) -> u32 {
    let usual = few.div_ceil(u32::try_from(crate::stride(3)).expect("a small number"));
    number("EMBEDCTL_TEST_CASES").map_or(usual, |cases| u32::try_from(cases).expect("not so many"))
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

/// Gives `look` the path of `name` in a folder of its own, again and again, each time with `good` in it damaged
/// in another way; [`cases`] says how often. Says how long a long run took.
pub fn each(name: &str, good: &[u8], few: u32, mut look: impl FnMut(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    each_content(name, good, few, |content| {
        fs::write(&path, content).unwrap();
        look(&path);
    });
}

/// As [`each`], for what reads no files: gives `look` the damaged content. `EMBEDCTL_TEST_ONLY` names the one that is
/// damaged, of many.
pub fn each_content(name: &str, good: &[u8], few: u32, mut look: impl FnMut(&[u8])) {
    if std::env::var("EMBEDCTL_TEST_ONLY").is_ok_and(|only| only != name) {
        return;
    }
    let (start, cases) = (Instant::now(), cases(few));
    let first = number("EMBEDCTL_TEST_FIRST").unwrap_or(0);
    let watched = Watched::new(name);
    let mut content = Vec::new();
    for seed in first..first + u64::from(cases) {
        content.clear();
        content.extend_from_slice(good);
        damage(&mut content, seed);
        watched.case(seed, || look(&content));
    }
    let (slowest, seed) = watched.slowest.get();
    if cases > few {
        let held = most_held();
        println!(
            "{name}: {cases} damaged files in {:.0?}, the slowest (seed {seed}) in {slowest:.1?}, {held} MB at most",
            start.elapsed()
        );
        assert!(held <= MOST_HELD, "{name}: {held} MB were in memory");
    }
}

/// The most memory of this process so far, in megabytes; 0 where the system does not tell.
fn most_held() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let kibibytes = line.and_then(|line| line.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024 / 1_000_000
}

/// Cases under watch: of time by a thread, of memory by the allocator of the tests.
struct Watched<'a> {
    name: &'a str,
    began: Instant,
    /// Seed of the case that runs, and when it began, in milliseconds.
    running: std::sync::Arc<(AtomicU64, AtomicU64)>,
    slowest: Cell<(Duration, u64)>,
    _over: mpsc::Sender<()>,
}

impl<'a> Watched<'a> {
    fn new(name: &'a str) -> Self {
        let (over, is_over) = mpsc::channel();
        let (began, running) = (
            Instant::now(),
            std::sync::Arc::<(AtomicU64, AtomicU64)>::default(),
        );
        let (watched, title) = (running.clone(), name.to_owned());
        thread::spawn(move || {
            while is_over.recv_timeout(LONGEST / 4) == Err(RecvTimeoutError::Timeout) {
                let since = Duration::from_millis(watched.1.load(Ordering::Relaxed));
                if began.elapsed() > since + LONGEST {
                    let seed = watched.0.load(Ordering::Relaxed);
                    eprintln!("{title}: seed {seed} has not come to an end after {LONGEST:?}");
                    std::process::abort();
                }
            }
        });
        Self {
            name,
            began,
            running,
            slowest: Cell::default(),
            _over: over,
        }
    }

    fn case(&self, seed: u64, look: impl FnOnce()) {
        struct SeedReport<'n>(&'n str, u64);
        impl Drop for SeedReport<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    eprintln!("{}: this was seed {}", self.0, self.1);
                }
            }
        }
        let before = self.began.elapsed();
        let millis = u64::try_from(before.as_millis()).unwrap();
        self.running.0.store(seed, Ordering::Relaxed);
        self.running.1.store(millis, Ordering::Relaxed);
        ASKED.set(0);
        let told = SeedReport(self.name, seed);
        look();
        let asked = ASKED.get();
        assert!(asked <= MOST, "{asked} bytes were asked for at a time");
        drop(told);
        let took = self.began.elapsed().saturating_sub(before);
        if took > self.slowest.get().0 {
            self.slowest.set((took, seed));
        }
    }
}

/// Bytes to insert somewhere.
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

/// Lengths and counts that are too large, or end there: of one to eight bytes, of either order of bytes, and in
/// groups of seven bits.
const HUGE: [&[u8]; 12] = [
    b"\xff",
    b"\x7f",
    b"\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\x40",
    b"\xff\xff\xff\xff\x0f",
    b"\0\0\0\x80",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\0\0\0\0\0\0\0\0",
];

/// Damages `data` in one to four places.
pub fn damage(data: &mut Vec<u8>, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..=random.below(4) {
        let at = random.below(data.len() + 1);
        let end = (at + 1 + random.below(16)).min(data.len());
        let strange = STRANGE[random.below(STRANGE.len())];
        match random.below(9) {
            0 if at < data.len() => data[at] ^= 1 << random.below(8),
            1 => drop(data.drain(at..end)),
            2 => {
                let copy = data[at..end].to_vec();
                data.splice(at..at, copy);
            }
            3 => drop(data.splice(at..at, strange.iter().copied())),
            4 => data.truncate(at),
            5 => {
                // A number from here on becomes another.
                let digits = |byte: &u8| byte.is_ascii_digit();
                if let Some(start) = data[at..].iter().position(digits).map(|found| at + found) {
                    let length = data[start..].iter().take_while(|byte| digits(byte)).count();
                    data.splice(start..start + length, strange.iter().copied());
                }
            }
            6 => {
                let huge = HUGE[random.below(HUGE.len())];
                let end = (at + huge.len()).min(data.len());
                data[at..end].copy_from_slice(&huge[..end - at]);
            }
            7 => {
                // Something from elsewhere, over what is here or between.
                let from = random.below(data.len() + 1);
                let to = (from + random.below(200)).min(data.len());
                let copy = data[from..to].to_vec();
                let over = random.below(2) * copy.len();
                let end = (at + over).min(data.len());
                data.splice(at..end, copy);
            }
            _ => {
                // A hole, as a file system leaves one after a power cut.
                let end = (at + random.below(512)).min(data.len());
                data[at..end].fill(0);
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

/// An Arrow file whose footer names no record batches, and one whose second record batch does not say what it is:
/// each lacks a byte or two, and looks complete to a reader that takes the missing part for the end.
#[must_use]
pub fn arrow_losing_batches(file: &[u8]) -> [Vec<u8>; 2] {
    let number = |at: usize| {
        let (numbers, _) = file[at..].as_chunks();
        usize::try_from(u32::from_le_bytes(numbers[0])).unwrap()
    };
    // Where a flat buffer's first table is, and the list of where in it its fields are.
    let root = |start: usize| {
        let table = start + number(start);
        (table, table - number(table))
    };
    let end = file.len() - 10;
    let footer = end - number(end);
    let (_, fields) = root(footer);
    let mut unnamed = file.to_vec();
    unnamed[fields + 10..fields + 12].fill(0);
    let blocks = root_as_footer(&file[footer..end]).unwrap();
    let block = blocks.recordBatches().unwrap().get(1);
    // Behind a mark and a length.
    let (message, fields) = root(usize::try_from(block.offset()).unwrap() + 8);
    let mut unsaid = file.to_vec();
    let kind = message + usize::from(file[fields + 6]);
    assert_eq!(unsaid[kind], 3, "a record batch");
    unsaid[kind] = 0;
    [unnamed, unsaid]
}
