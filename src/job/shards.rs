//! Which shard reads what: decided from the listing alone, so that processes agree without speaking.
//!
//! The inputs are laid end to end, and cut at equal distances. A file that is small beside a shard goes whole to
//! the shard that its middle falls to; a large one of plain lines is cut, at the first line behind each cut; others
//! stay whole. So shards follow one another as the input does.

use crate::error::{Error, Result};
use crate::input::{Listed, Part, Share};

/// One shard of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl Default for Shard {
    /// The only one.
    fn default() -> Self {
        Self { index: 1, count: 1 }
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Parses `I/N`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            Some(Self {
                index: index.parse().ok()?,
                count: count.parse().ok()?,
            })
        });
        numbers
            .filter(|shard| (1..=shard.count).contains(&shard.index))
            .ok_or_else(|| "must be I/N, such as 3/8, with I from 1 to N".to_owned())
    }
}

/// What shard `shard` reads of the inputs, in order; every line of each input is in one shard.
///
/// # Errors
/// If the inputs cannot be divided among so many.
pub fn plan(inputs: &[Listed], shard: Shard) -> Result<Vec<Share>> {
    let count = u64::from(shard.count);
    let refuse = |why: &str, remedy: &str| {
        let reason = format!("--shard {}/{count}: {why}", shard.index);
        Err(Error::usage(reason).with_remedy(remedy))
    };
    if shard.count > 1 && inputs.iter().any(|input| input.bytes.is_none()) {
        return refuse(
            "a pipe cannot be divided, since nobody can say how much it will hold",
            "name files",
        );
    }
    if shard.count > 1 && inputs.len() == 1 && !inputs[0].has_lines() {
        return refuse(
            "one input that is compressed, or a table, is read by one process",
            "divide it into files first",
        );
    }
    let total: u128 = (inputs.iter())
        .map(|input| u128::from(input.bytes.unwrap_or(0)))
        .sum();
    // Where the cut before shard `number` (from 0) lies, of all bytes.
    let cut = |number: u64| total * u128::from(number) / u128::from(count);
    let own = u64::from(shard.index) - 1;
    let mut shares = Vec::new();
    let mut start = 0u128;
    for (input, source) in inputs.iter().zip(0u32..) {
        let bytes = u128::from(input.bytes.unwrap_or(0));
        let end = start + bytes;
        let is_large = bytes * u128::from(count) * 2 > total;
        let part = if input.has_lines() && is_large && shard.count > 1 {
            let first = cut(own).clamp(start, end) - start;
            let last = cut(own + 1).clamp(start, end) - start;
            let byte = |byte: u128| u64::try_from(byte).expect("a file's bytes fit");
            match (first, last) {
                _ if first == last => None,
                (0, last) if last == bytes => Some(Part::Whole),
                (first, last) => Some(Part::Bytes {
                    start: byte(first),
                    end: byte(last),
                }),
            }
        } else {
            let middle = start + bytes / 2;
            let of = (0..count).rev().find(|&number| cut(number) <= middle);
            // Nothing but empty files: all to the first.
            let of = if total == 0 { 0 } else { of.unwrap_or(0) };
            (of == own).then_some(Part::Whole)
        };
        shares.extend(part.map(|part| Share { source, part }));
        start = end;
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(bytes: Option<u64>, lines: bool) -> Listed {
        Listed {
            bytes,
            is_table: false,
            is_compressed: !lines,
        }
    }

    /// Checks that shares of all shards follow one another and give every byte of every input once; the bytes of
    /// the largest shard.
    fn check(inputs: &[Listed], count: u32) -> u64 {
        let mut read = vec![0u64; inputs.len()];
        let mut whole = vec![0u32; inputs.len()];
        let mut last = (0, 0);
        let mut largest = 0;
        for index in 1..=count {
            let mut sum = 0;
            for share in plan(inputs, Shard { index, count }).unwrap() {
                let source = share.source as usize;
                let bytes = inputs[source].bytes.unwrap();
                let (start, end) = match share.part {
                    Part::Whole => (0, bytes),
                    Part::Bytes { start, end } => {
                        assert!(inputs[source].has_lines() && start < end && end <= bytes);
                        (start, end)
                    }
                    Part::RowGroups { .. } => panic!("nobody asked"),
                };
                assert!(
                    (share.source, start) >= last,
                    "shards are in the input's order"
                );
                assert_eq!(start, read[source], "nothing between two shares");
                last = (share.source, end);
                read[source] = end;
                whole[source] += u32::from(share.part == Part::Whole);
                sum += end - start;
            }
            largest = largest.max(sum);
        }
        for (source, input) in inputs.iter().enumerate() {
            assert_eq!(read[source], input.bytes.unwrap());
            // An empty one is read too: it may be no text at all.
            assert!(whole[source] <= 1 && (read[source] > 0 || whole[source] == 1));
        }
        largest
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_shard(
            sizes in prop::collection::vec((prop_oneof![Just(0u64), 1u64..200, 1u64..1 << 50], any::<bool>()), 2..30),
            count in 1u32..40,
        ) {
            let inputs = sizes.into_iter().map(|(bytes, lines)| listed(Some(bytes), lines));
            let inputs: Vec<Listed> = inputs.collect();
            check(&inputs, count);
        }

        #[test]
        fn one_large_file_of_lines_is_divided_evenly(bytes in 1000u64..1 << 60, count in 1u32..500) {
            let largest = check(&[listed(Some(bytes), true)], count);
            prop_assert!(largest <= bytes / u64::from(count) + 1);
        }
    }

    /// 10^9 rows of 100 bytes to 1 KB in files of 0 to 2 GB, divided among 1,000 processes: each row is in one
    /// shard, and no shard has much more to do than another.
    #[test]
    fn a_thousand_shards_of_a_billion_rows() {
        let mut rows = 0u64;
        let mut inputs = Vec::new();
        let mut state = 1u64;
        while rows < 1_000_000_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let of_file = (state >> 33) % 2_000_000;
            rows += of_file;
            let bytes = of_file * (100 + (state >> 20) % 900);
            inputs.push(listed(Some(bytes), !(state >> 40).is_multiple_of(3)));
        }
        let total: u64 = inputs.iter().filter_map(|input| input.bytes).sum();
        let largest = check(&inputs, 1000);
        let whole = inputs.iter().filter(|input| !input.has_lines());
        let longest = whole.filter_map(|input| input.bytes).max().unwrap();
        assert!(largest <= total / 1000 * 3 / 2 + longest, "{largest}");
    }

    #[test]
    fn what_cannot_be_divided() {
        let one = |bytes, lines| [listed(bytes, lines)];
        for (input, why) in [
            (one(None, true), "pipe"),
            (one(Some(9), false), "compressed"),
        ] {
            assert!(plan(&input, Shard::default()).is_ok());
            let error = plan(&input, Shard { index: 2, count: 2 }).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!("3/8".parse(), Ok(Shard { index: 3, count: 8 }));
        for wrong in ["0/8", "9/8", "3", "a/b", "1/0", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
