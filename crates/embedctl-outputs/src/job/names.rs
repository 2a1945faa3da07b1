//! Names of a job's files. Files below [`OWN`] lie beside the folder of the parts, since some readers take every file in
//! it for a part.

use super::spool::Spool;
use crate::output::OutputFormat;

pub use crate::storage::OWN;

/// The fingerprint and the other settings of the job, written at its start.
pub const JOB: &str = "_embedctl/job.json";
/// The manifest of all parts, written at the end.
pub const MANIFEST: &str = "_embedctl/manifest.json";
/// The completion marker.
pub const SUCCESS: &str = "_SUCCESS";
/// Commits of the parts.
pub const COMMITS: &str = "_embedctl/commits";
/// Rejected records of each part that has any.
pub const REJECTS: &str = "_embedctl/rejects";
/// Hashes of each part's texts.
pub const TEXTS: &str = "_embedctl/texts";
/// Files for beside a part, on a store, until the part is published.
pub const BESIDE: &str = "_embedctl/beside";
/// All folders whose files belong to single parts.
pub const OF_PARTS: [&str; 4] = [COMMITS, REJECTS, TEXTS, BESIDE];
/// Ends of the shards: the input that each has read.
pub const SHARDS: &str = "_embedctl/shards";

/// The part of that number of that shard (from 1), without an ending.
pub fn part(shard: u32, number: u32) -> String {
    format!("part-{shard:05}-{number:05}")
}

/// The commit of the part of that number of that shard.
pub fn commit(shard: u32, number: u32) -> String {
    format!("{COMMITS}/{}.json", part(shard, number))
}

/// Shard and number in a part's name, and the rest of it.
pub fn parse(name: &str) -> Option<(u32, u32, &str)> {
    let (shard, rest) = name.strip_prefix("part-")?.split_once('-')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, ending) = rest.split_at(digits);
    let valid = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (valid(shard) && valid(number)).then_some(())?;
    Some((shard.parse().ok()?, number.parse().ok()?, ending))
}

/// The ending of the files in one of the folders of [`OF_PARTS`].
fn ending(folder: &str) -> &'static str {
    match folder {
        COMMITS => ".json",
        TEXTS => ".sha256",
        _ => ".jsonl",
    }
}

/// A list that belongs to a part, in one of the folders of [`OF_PARTS`]. It carries the part's `tag`, where no lock kept
/// other runs out.
pub fn list(folder: &str, part: &str, tag: Option<&str>) -> String {
    let dot = if tag.is_some() { "." } else { "" };
    format!(
        "{folder}/{part}{dot}{}{}",
        tag.unwrap_or_default(),
        ending(folder)
    )
}

/// Tag, hash of the part and ending of a file in [`BESIDE`], from the rest of its name behind the part's; the ending is the
/// part's and its own.
pub fn aside(rest: &str) -> Option<(&str, &str, &str)> {
    let (tag, rest) = rest.strip_prefix('.')?.split_at_checked(DIGITS)?;
    let (hash, ending) = rest.strip_prefix('.')?.split_at_checked(DIGITS)?;
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_name(tag) && is_name(hash) && ending.starts_with('.')).then_some((tag, hash, ending))
}

/// A part's name without its endings.
pub fn stem(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// The tag in the name of such a list, if it has one, from the rest of the name behind the part's; `None` if the name is
/// not that of a list.
pub fn tag_of<'n>(folder: &str, rest: &'n str) -> Option<Option<&'n str>> {
    if folder == BESIDE {
        return aside(rest).map(|(tag, ..)| Some(tag));
    }
    let tag = rest.strip_suffix(ending(folder))?;
    if tag.is_empty() {
        return Some(None);
    }
    let tag = tag.strip_prefix('.')?;
    let is_tag = tag.len() == DIGITS && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_tag.then_some(Some(tag))
}

/// Whether a job's folder holds files of this name at its top: a part of any format, a file beside one, or the marker.
pub fn is_of_job(name: &str) -> bool {
    let is_ending = |rest: &str| {
        let Some(ending) = rest.strip_prefix('.') else {
            return false;
        };
        ending == Spool::ENDING
            || OutputFormat::all().any(|format| {
                let beside = ending.strip_prefix(format.name());
                beside.is_some_and(|beside| {
                    beside.is_empty() || format.possible_sidecars().contains(&beside)
                })
            })
    };
    name == SUCCESS || parse(name).is_some_and(|(_, _, rest)| is_ending(rest))
}

/// The first digits of a hash, which a name carries.
pub fn short(mut hash: String) -> String {
    hash.truncate(DIGITS);
    hash
}

/// How many digits of a hash a name carries.
const DIGITS: usize = 16;

/// The file that records the end of a shard.
pub fn shard(shard: u32) -> String {
    format!("{SHARDS}/{shard:05}.json")
}

/// The shard whose end a file of [`SHARDS`] records; `None` where no job calls a file so.
pub fn shard_of(name: &str) -> Option<u32> {
    let of = name.strip_suffix(".json")?.parse().ok()?;
    (shard(of) == format!("{SHARDS}/{name}")).then_some(of)
}

/// The lock of a shard.
pub fn lock(shard: u32) -> String {
    format!("{OWN}/shard-{shard:05}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> String {
        format!("{:016x}", crate::atomic::random())
    }

    #[test]
    fn lists_carry_the_tag_of_their_part() {
        let tag = run();
        for folder in [COMMITS, REJECTS, TEXTS] {
            for tag in [None, Some(tag.as_str())] {
                let list = list(folder, &part(1, 2), tag);
                let name = list.strip_prefix(folder).unwrap();
                let (_, _, rest) = parse(name.strip_prefix('/').unwrap()).unwrap();
                assert_eq!(tag_of(folder, rest), Some(tag), "{list}");
            }
            for other in [
                "",
                ".bak",
                ".json.bak",
                ".0123.jsonl",
                ".x.json",
                "..sha256",
            ] {
                assert_eq!(tag_of(folder, other), None, "{other}");
            }
        }
    }

    #[test]
    fn what_is_put_aside_carries_tag_and_part() {
        let (tag, hash) = (run(), run());
        let rest = format!(".{tag}.{hash}.npy.rows.jsonl");
        assert_eq!(tag_of(BESIDE, &rest), Some(Some(tag.as_str())));
        assert_eq!(aside(&rest), Some((&*tag, &*hash, ".npy.rows.jsonl")));
        let cut = rest.len() - 20;
        for other in ["", ".jsonl", &rest[..20], &rest[..cut], &rest[1..]] {
            assert_eq!(aside(other), None, "{other}");
        }
        assert_eq!(stem("part-00001-00002.npy.json"), part(1, 2));
    }

    #[test]
    fn files_of_a_job_are_told_from_those_of_others() {
        for format in OutputFormat::all() {
            let part = format!("{}.{format}", part(1, 2));
            assert!(is_of_job(&part), "{part}");
            for sidecar in format.possible_sidecars() {
                assert!(is_of_job(&format!("{part}{sidecar}")), "{part}{sidecar}");
            }
            for other in [".bak", ".json.bak", "~", " (copy)"] {
                assert!(!is_of_job(&format!("{part}{other}")), "{part}{other}");
            }
        }
        assert!(is_of_job(SUCCESS) && is_of_job("part-00001-00002.spool"));
        for other in ["part-00001-00002", "part-00001-00002.txt", "notes.npy"] {
            assert!(!is_of_job(other), "{other}");
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
