//! Division of the input among shards. It depends on the listing alone, so that processes agree without communicating.
//!
//! The inputs are laid end to end and cut at equal distances. A file much smaller than a shard goes whole to the shard
//! that contains its middle. A large file of text or JSONL is cut at the first line after each cut. A large table is
//! cut between two rows, by the row groups or record batches that its footer lists; a group much smaller than a shard
//! stays whole. Every other file stays whole. Shards therefore follow one another in the order of the input.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::input::ListedInput;
use crate::setting::SHARD;
use embedctl_records::options::{Part, Share};

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

/// The unit of a stretch of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes, in which lines begin.
    Bytes,
    /// Rows of a table.
    Rows,
}

/// A shard's stretch of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRange {
    /// Index into the list of inputs.
    pub source: u32,
    /// The unit of `start`, `end` and `of`.
    pub unit: Unit,
    /// Where it starts.
    pub start: u64,
    /// Where it ends: the stretch behind it starts there.
    pub end: u64,
    /// How many the input has.
    pub of: u64,
}

impl ShardRange {
    /// All of an input of so many bytes.
    fn whole(source: u32, bytes: u64) -> Self {
        Self {
            source,
            unit: Unit::Bytes,
            start: 0,
            end: bytes,
            of: bytes,
        }
    }

    /// The stretch in the form that a reader takes.
    #[must_use]
    pub fn share(&self) -> Share {
        let Self { start, end, .. } = *self;
        let part = match self.unit {
            _ if (start, end) == (0, self.of) => Part::Whole,
            Unit::Bytes => Part::Bytes { start, end },
            Unit::Rows => Part::Rows { start, end },
        };
        Share {
            source: self.source,
            part,
        }
    }

    /// Where the stretch behind it starts: input, and byte or row.
    pub(super) fn next(&self) -> (u32, u64) {
        match self.end == self.of {
            true => (self.source + 1, 0),
            false => (self.source, self.end),
        }
    }
}

/// The stretches of the inputs that shard `shard` reads, in order; every record of each input is in one shard.
/// `stretches` gives the
/// rows of an input's row groups or record batches, as [`crate::input::RecordReader::stretches`].
///
/// # Errors
/// If the inputs cannot be divided among so many, or a footer cannot be read.
pub fn plan(
    inputs: &[ListedInput],
    shard: Shard,
    stretches: &dyn Fn(usize) -> Result<Option<Vec<u64>>>,
) -> Result<Vec<ShardRange>> {
    let count = u64::from(shard.count);
    let refuse = |why: &str, remedy: &str| {
        let reason = format!("{SHARD} {}/{count}: {why}", shard.index);
        Err(Error::usage(reason).with_remedy(remedy))
    };
    if shard.count > 1 && inputs.iter().any(|input| input.bytes.is_none()) {
        return refuse(
            "a pipe cannot be divided, because its length is unknown",
            "name files",
        );
    }
    if shard.count > 1
        && let [one] = inputs
        && (one.is_whole || one.is_table && stretches(0)?.is_none())
    {
        return refuse(
            "one input that is compressed, CSV or an Arrow stream can only be read from its beginning, by one process",
            "divide it into files first, or write it as Parquet or as JSONL",
        );
    }
    let total: u128 = (inputs.iter())
        .map(|input| u128::from(input.bytes.unwrap_or(0)))
        .sum();
    // Where the cut before shard `number` (from 0) lies, of all bytes.
    let cut = |number: u64| total * u128::from(number) / u128::from(count);
    let own = u64::from(shard.index) - 1;
    let mut all = Vec::new();
    let mut start = 0u128;
    for (input, source) in inputs.iter().zip(0u32..) {
        let bytes = u128::from(input.bytes.unwrap_or(0));
        let end = start + bytes;
        let is_large = bytes * u128::from(count) * 2 > total;
        let rows = match is_large && input.is_table && shard.count > 1 {
            true => stretches(source as usize)?.filter(|rows| rows.iter().any(|rows| *rows > 0)),
            false => None,
        };
        let first = cut(own).clamp(start, end) - start;
        let last = cut(own + 1).clamp(start, end) - start;
        let stretch = if let Some(rows) = rows {
            let table = Table::new(&rows, bytes);
            // A stretch counts as large as a file does.
            let large = total / (u128::from(count) * 2);
            let (start, end) = (table.row(first, large), table.row(last, large));
            (start < end).then_some(ShardRange {
                source,
                unit: Unit::Rows,
                start,
                end,
                of: table.rows,
            })
        } else if input.has_lines() && is_large && shard.count > 1 {
            let byte = |byte: u128| u64::try_from(byte).expect("a file's bytes fit");
            (first < last).then(|| ShardRange {
                start: byte(first),
                end: byte(last),
                ..ShardRange::whole(source, byte(bytes))
            })
        } else {
            let middle = start + bytes / 2;
            // The last shard whose cut lies before it. Nothing but empty files: all to the first.
            let of = ((middle + 1) * u128::from(count) - 1).checked_div(total);
            let of = of.map_or(0, |of| of.min(u128::from(count) - 1));
            (of == u128::from(own)).then(|| ShardRange::whole(source, input.bytes.unwrap_or(0)))
        };
        all.extend(stretch);
        start = end;
    }
    Ok(all)
}

/// A table, its rows laid out evenly over its bytes.
struct Table<'r> {
    stretches: &'r [u64],
    rows: u64,
    bytes: u128,
}

impl<'r> Table<'r> {
    fn new(stretches: &'r [u64], bytes: u128) -> Self {
        Self {
            stretches,
            rows: stretches.iter().sum(),
            bytes,
        }
    }

    /// The row before which a cut at `byte` falls: at the nearer end of the stretch there, unless that holds more
    /// than `large` bytes. A later byte never gives an earlier row.
    fn row(&self, byte: u128, large: u128) -> u64 {
        let rows = u128::from(self.rows);
        let row = byte * rows / self.bytes;
        let row = u64::try_from(row).expect("no more rows than there are");
        let mut before = 0;
        for &stretch in self.stretches {
            let behind = before + stretch;
            if row < behind {
                let is_large = u128::from(stretch) * self.bytes > large * rows;
                return match row - before < behind - row {
                    _ if is_large => row,
                    true => before,
                    false => behind,
                };
            }
            before = behind;
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An input: bytes, and of a table the rows of its stretches.
    #[derive(Debug, Clone)]
    enum Input {
        Lines(u64),
        Compressed(u64),
        Table(u64, Vec<u64>),
    }

    impl Input {
        fn bytes(&self) -> u64 {
            let (Self::Lines(bytes) | Self::Compressed(bytes) | Self::Table(bytes, _)) = self;
            *bytes
        }

        /// Its size in units that shards divide: bytes of lines, rows of tables.
        fn units(&self) -> u64 {
            match self {
                Self::Table(_, rows) => rows.iter().sum(),
                other => other.bytes(),
            }
        }

        fn listed(&self) -> ListedInput {
            ListedInput {
                bytes: Some(self.bytes()),
                is_table: matches!(self, Self::Table(..)),
                is_whole: matches!(self, Self::Compressed(_)),
            }
        }
    }

    /// Checks that shares of all shards follow one another and give every unit of every input once; the bytes of
    /// the largest shard.
    fn check(inputs: &[Input], count: u32) -> u64 {
        let listed: Vec<ListedInput> = inputs.iter().map(Input::listed).collect();
        let stretches = |source: usize| match &inputs[source] {
            Input::Table(_, rows) => Ok(Some(rows.clone())),
            _ => Ok(None),
        };
        let mut read = vec![0u64; inputs.len()];
        let mut whole = vec![0u32; inputs.len()];
        let mut last = (0, 0);
        let mut next = (0, 0);
        let mut largest = 0;
        for index in 1..=count {
            let mut sum = 0u128;
            for stretch in plan(&listed, Shard { index, count }, &stretches).unwrap() {
                let share = stretch.share();
                assert_eq!((stretch.source, stretch.start), next, "no gap");
                next = stretch.next();
                let source = share.source as usize;
                let (input, units) = (&inputs[source], inputs[source].units());
                let (start, end) = match (share.part, input) {
                    (Part::Whole, _) => (0, units),
                    (Part::Bytes { start, end }, Input::Lines(_))
                    | (Part::Rows { start, end }, Input::Table(..)) => {
                        assert!(start < end && end <= units);
                        (start, end)
                    }
                    (part, input) => panic!("{part:?} of {input:?}"),
                };
                assert!(
                    (share.source, start) >= last,
                    "shards are in the input's order"
                );
                assert_eq!(start, read[source], "nothing between two shares");
                last = (share.source, end);
                read[source] = end;
                whole[source] += u32::from(share.part == Part::Whole);
                sum +=
                    u128::from(end - start) * u128::from(input.bytes()) / u128::from(units.max(1));
            }
            largest = largest.max(u64::try_from(sum).unwrap());
        }
        assert_eq!(next, (u32::try_from(inputs.len()).unwrap(), 0));
        for (source, input) in inputs.iter().enumerate() {
            assert_eq!(read[source], input.units());
            // An empty one is read too: it may be no text at all.
            assert!(whole[source] <= 1 && (read[source] > 0 || whole[source] == 1));
        }
        largest
    }

    fn input() -> impl Strategy<Value = Input> {
        let bytes = prop_oneof![Just(0u64), 1u64..200, 1u64..1 << 50];
        let rows = prop::collection::vec(prop_oneof![Just(0u64), 1u64..20, 1u64..1 << 40], 0..12);
        (bytes, rows, 0..3).prop_map(|(bytes, rows, kind)| match kind {
            0 => Input::Lines(bytes),
            1 => Input::Compressed(bytes),
            // A table has a footer at least.
            _ => Input::Table(bytes + 12, rows),
        })
    }

    proptest! {
        #[test]
        fn every_record_is_in_one_shard(inputs in prop::collection::vec(input(), 2..30), count in 1u32..40) {
            check(&inputs, count);
        }

        #[test]
        fn one_large_file_of_lines_is_divided_evenly(bytes in 1000u64..1 << 60, count in 1u32..500) {
            let largest = check(&[Input::Lines(bytes)], count);
            prop_assert!(largest <= bytes / u64::from(count) + 1);
        }

        /// Be it one row group or thousands.
        #[test]
        fn one_table_is_divided_evenly(
            rows in prop::collection::vec(1u64..100_000, 1..300),
            of_row in 1u64..10_000,
            count in 1u32..200,
        ) {
            let units: u64 = rows.iter().sum();
            let (bytes, count) = (units * of_row, count.min(u32::try_from(units).unwrap()));
            let largest = check(&[Input::Table(bytes, rows)], count);
            // A cut moves by half of a stretch that is half of a shard.
            prop_assert!(largest <= bytes / u64::from(count) * 3 / 2 + 2 * of_row);
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
            inputs.push(match (state >> 40) % 3 {
                0 => Input::Compressed(bytes),
                1 => Input::Lines(bytes),
                _ => {
                    let groups = vec![122_880; usize::try_from(of_file / 122_880).unwrap()];
                    Input::Table(bytes + 12, [groups, vec![of_file % 122_880]].concat())
                }
            });
        }
        let total: u64 = inputs.iter().map(Input::bytes).sum();
        let largest = check(&inputs, 1000);
        let whole = inputs
            .iter()
            .filter(|input| matches!(input, Input::Compressed(_)));
        let longest = whole.map(Input::bytes).max().unwrap();
        assert!(largest <= total / 1000 * 3 / 2 + longest, "{largest}");

        // The same rows in one file.
        for group in [65_536, 122_880, 1 << 20, 1_000_000_000] {
            let groups = vec![group; usize::try_from(1_000_000_000 / group).unwrap()];
            let all = [groups, vec![1_000_000_000 % group]].concat();
            let largest = check(&[Input::Table(500_000_000_000, all)], 1000);
            assert!(largest <= 750_000_000, "{largest}");
        }
    }

    #[test]
    fn what_cannot_be_divided() {
        let none = |_| Ok(None);
        let pipe = ListedInput {
            bytes: None,
            ..Input::Lines(0).listed()
        };
        for (input, why) in [
            (pipe, "pipe"),
            (Input::Compressed(9).listed(), "compressed"),
            (Input::Table(900, vec![9]).listed(), "Arrow stream"),
        ] {
            assert!(plan(&[input], Shard::default(), &none).is_ok());
            let error = plan(&[input], Shard { index: 2, count: 2 }, &none).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!("3/8".parse(), Ok(Shard { index: 3, count: 8 }));
        for wrong in ["0/8", "9/8", "3", "a/b", "1/0", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
