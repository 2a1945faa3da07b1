//! What the files of a job are called. Names that begin with `_` are passed over by whoever reads a folder
//! of parts: pyarrow, Spark, DuckDB's globs, polars' globs.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::SystemTime;

use crate::hash;

/// Folder of what is no part.
pub const OWN: &str = "_embedctl";
/// The fingerprint, and what else was settled when the job began.
pub const JOB: &str = "_embedctl/job.json";
/// What all parts hold, written at the end.
pub const MANIFEST: &str = "_embedctl/manifest.json";
/// Says that the output is complete.
pub const SUCCESS: &str = "_SUCCESS";
/// What each part holds.
pub const COMMITS: &str = "_embedctl/commits";
/// Rejected records of each part that has any.
pub const REJECTS: &str = "_embedctl/rejects";
/// Of a part of records that had been rejected: which it holds.
pub const RETRIED: &str = "_embedctl/retried";
/// Which records are rejected still, once some were tried again.
pub const REJECTED: &str = "_embedctl/rejected.jsonl";
/// Hashes of each part's texts.
pub const TEXTS: &str = "_embedctl/texts";
/// All folders of what belongs to single parts.
pub const OF_PARTS: [&str; 4] = [COMMITS, REJECTS, RETRIED, TEXTS];
/// What each shard has read, once it is at its end.
pub const SHARDS: &str = "_embedctl/shards";

/// The part of that number of that shard (from 1), without an ending.
pub fn part(shard: u32, number: u32) -> String {
    format!("part-{shard:05}-{number:05}")
}

/// What the part of that number of that shard holds.
pub fn commit(shard: u32, number: u32) -> String {
    format!("{COMMITS}/{}.json", part(shard, number))
}

/// Shard, number and what follows of a part's name.
pub fn parse(name: &str) -> Option<(u32, u32, &str)> {
    let (shard, rest) = name.strip_prefix("part-")?.split_once('-')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, ending) = rest.split_at(digits);
    let valid = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (valid(shard) && valid(number)).then_some(())?;
    Some((shard.parse().ok()?, number.parse().ok()?, ending))
}

/// The ending of what stands in one of the folders of [`OF_PARTS`].
fn ending(folder: &str) -> &'static str {
    match folder {
        COMMITS => ".json",
        TEXTS => ".sha256",
        _ => ".jsonl",
    }
}

/// A list that belongs to a part, in one of the folders of [`OF_PARTS`]. It carries the name of the `run` that wrote it,
/// where no lock kept others out.
pub fn list(folder: &str, part: &str, run: Option<&str>) -> String {
    let dot = if run.is_some() { "." } else { "" };
    format!(
        "{folder}/{part}{dot}{}{}",
        run.unwrap_or_default(),
        ending(folder)
    )
}

/// The run that such a list carries the name of, if it does, by what follows the part's name; `None` where no job calls
/// a list so.
pub fn run_of<'n>(folder: &str, rest: &'n str) -> Option<Option<&'n str>> {
    let run = rest.strip_suffix(ending(folder))?;
    if run.is_empty() {
        return Some(None);
    }
    let run = run.strip_prefix('.')?;
    let is_run = run.len() == RUN && run.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_run.then_some(Some(run))
}

/// Digits of a run's name.
const RUN: usize = 16;

/// A name for a run, which no other has.
pub fn run() -> String {
    let random = RandomState::new().build_hasher().finish();
    let name = format!("{random} {} {:?}", std::process::id(), SystemTime::now());
    let mut name = hash::of(name);
    name.truncate(RUN);
    name
}

/// The file that says that a shard is at its end.
pub fn shard(shard: u32) -> String {
    format!("{SHARDS}/{shard:05}.json")
}

/// The lock of a shard.
pub fn lock(shard: u32) -> String {
    format!("{OWN}/shard-{shard:05}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_carry_the_run_that_wrote_them() {
        let run = run();
        for folder in OF_PARTS {
            for run in [None, Some(run.as_str())] {
                let list = list(folder, &part(1, 2), run);
                let name = list
                    .strip_prefix(folder)
                    .unwrap()
                    .strip_prefix('/')
                    .unwrap();
                let (_, _, rest) = parse(name).unwrap();
                assert_eq!(run_of(folder, rest), Some(run), "{list}");
            }
            for other in [
                "",
                ".bak",
                ".json.bak",
                ".0123.jsonl",
                ".x.json",
                "..sha256",
            ] {
                assert_eq!(run_of(folder, other), None, "{other}");
            }
        }
    }

    #[test]
    fn names_of_parts_parse() {
        assert_eq!(part(1, 2), "part-00001-00002");
        assert_eq!(
            parse("part-00001-00002.npy.json"),
            Some((1, 2, ".npy.json"))
        );
        assert_eq!(parse(&part(123_456, 99_999)), Some((123_456, 99_999, "")));
        for other in [
            "part-1-2",
            "part-00001.parquet",
            "parts-00001-00002.npy",
            "part-00001-0000x",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
