//! Checks that all shards have read the same version of the input. The run that completes the output does this before
//! it marks the output as complete.
//!
//! Each shard's end names its stretches and the versions of their sources. The stretches must join without a gap. Where a
//! source has another version now than a shard read, its records may still be the same: the shard's stretches are read
//! again then, and their hash decides.

use std::fmt;

use super::Job;
use super::gaps::gaps;
use super::part::{Point, ShardEnd, SourceState};
use super::state::State;
use crate::error::{Error, Result};
use crate::position::{Position, Seek};
use crate::setting::RESUME;

/// The input of a job in shards, as this run finds it.
pub trait Inputs: fmt::Debug + Send + Sync {
    /// Every source, as it is now.
    ///
    /// # Errors
    /// If one does not exist.
    fn sources(&self) -> Result<Vec<SourceState>>;

    /// Reads the share of shard number `shard` of `job`, in windows of at most `window` records, from `start` if its
    /// first stretch can be entered there. Returns the end.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, job: &Job, shard: u32, window: u64, start: Option<Position>) -> Result<Point>;
}

/// A source as a shard has read it, and as it is now.
type Change<'a> = (&'a SourceState, &'a SourceState);

impl ShardEnd {
    /// The first of its sources that has another version `now`, or may have.
    fn change<'a>(&'a self, now: &'a [SourceState]) -> Option<Change<'a>> {
        let first = match (self.stretches.first(), self.sources.first()) {
            (Some(stretch), _) => stretch.source as usize,
            // An older build wrote it.
            (None, Some(first)) => now.iter().position(|source| source.name == first.name)?,
            (None, None) => return None,
        };
        let pairs = self.sources.iter().zip(now.get(first..)?);
        let mut changes = pairs.filter(|(then, now)| !then.is_same_version(now));
        changes.next()
    }
}

impl Job {
    /// Proves that the shards, which are all finished, have read the current version of the input.
    ///
    /// # Errors
    /// If they have not; the message names source and shards. Or if the input cannot be read.
    pub(super) fn prove(&self, state: &State) -> Result<()> {
        if state.ends.len() < 2 {
            return Ok(());
        }
        let Some(inputs) = &self.inputs else {
            return Ok(());
        };
        let now = inputs.sources()?;
        let count = u32::try_from(now.len()).expect("sources are counted in 32 bits");
        let gaps = gaps(&state.ends, Some(count));
        if !gaps.is_empty() {
            let why = format!(
                "{}: its shards have read different inputs: {}",
                self.shown,
                gaps.join("; ")
            );
            return Err(Error::usage(why).with_remedy(self.begin_anew()));
        }
        let mut has_read = false;
        for end in state.ends.values() {
            if let Some(change) = end.change(&now) {
                self.compare_again(end, change, behind(state, end))?;
                has_read = true;
            }
        }
        if has_read && inputs.sources()? != now {
            return Err(Error::usage(format!(
                "{}: the input changes while it is compared with what the shards have read",
                self.shown
            ))
            .with_remedy(format!(
                "let that end, and give the same command with {RESUME}"
            )));
        }
        Ok(())
    }

    /// Refuses an input that has changed since another shard has read its share, before anything is embedded. Compares
    /// one shard at most: [`Job::prove`] compares all.
    ///
    /// # Errors
    /// As [`Job::prove`].
    pub fn agree(&self, state: &State, now: &[SourceState]) -> Result<()> {
        let own = self.options.shard.index;
        let mut others = state.ends.values().filter(|end| end.shard != own);
        match others.find_map(|end| Some((end, end.change(now)?))) {
            Some((end, change)) => self.compare_again(end, change, None),
            None => Ok(()),
        }
    }

    /// Reads a shard's stretches of changed sources again.
    fn compare_again(
        &self,
        end: &ShardEnd,
        (then, now): Change<'_>,
        start: Option<Position>,
    ) -> Result<()> {
        let Some(inputs) = &self.inputs else {
            return Ok(());
        };
        let count = self.options.shard.count;
        if inputs.read(self, end.shard, end.window, start)? == end.end {
            return Ok(());
        }
        let (shard, own) = (end.shard, self.options.shard.index);
        let finds = match shard == own {
            true => "finds it now".to_owned(),
            false => format!("shard {own} finds it"),
        };
        Err(Error::usage(format!(
            "{}: the input changed between shards: shard {shard} of {count} read {} as of {}, {finds} as of {}, and \
             the records of shard {shard} differ now",
            self.shown,
            then.name,
            then.version(),
            now.version(),
        ))
        .with_remedy(self.begin_anew()))
    }

    fn begin_anew(&self) -> String {
        format!(
            "put the input back as it was and give {RESUME}, or {}",
            self.anew()
        )
    }
}

/// Where the first stretch of a shard can be entered: the shard before it, which read the same, ends there.
fn behind(state: &State, end: &ShardEnd) -> Option<Position> {
    let first = end.stretches.first().filter(|first| first.start > 0)?;
    let last = state.of_shard(end.shard.checked_sub(1)?).last()?;
    let position = last.info.position?;
    let is_there = position.source == first.source && matches!(position.seek, Seek::Byte { .. });
    is_there.then_some(position)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::collections::BTreeMap;

    use super::*;
    use crate::input::ListedInput;
    use crate::job::shards::ShardRange;
    use crate::job::{Shard, plan};

    fn source(name: String, size: u64) -> SourceState {
        SourceState {
            name,
            size: Some(size),
            modified: Some(1),
            etag: None,
        }
    }

    /// The ends of all shards of inputs of these sizes; of a table, its rows.
    fn ends(inputs: &[(u64, Option<u64>)], count: u32) -> BTreeMap<u32, ShardEnd> {
        let listed: Vec<ListedInput> = (inputs.iter())
            .map(|(bytes, rows)| ListedInput {
                bytes: Some(*bytes),
                is_table: rows.is_some(),
                is_whole: false,
            })
            .collect();
        let rows = |source: usize| Ok(inputs[source].1.map(|rows| vec![rows]));
        let end = |index: u32| {
            let stretches = plan(&listed, Shard { index, count }, &rows).unwrap();
            let range = match (stretches.first(), stretches.last()) {
                (Some(first), Some(last)) => first.source..last.source + 1,
                _ => 0..0,
            };
            let sources = range.map(|index| source(index.to_string(), inputs[index as usize].0));
            let end = ShardEnd {
                shard: index,
                end: Point::default(),
                parts: 0,
                rows: 0,
                rejected: 0,
                window: 1,
                sources: sources.collect(),
                stretches,
            };
            (index, end)
        };
        (1..=count).map(end).collect()
    }

    fn inputs() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
        let input = (12u64..1000, prop::option::of(1u64..100));
        prop::collection::vec(input, 2..12)
    }

    proptest! {
        #[test]
        fn what_shards_read_of_one_listing_joins(inputs in inputs(), count in 2u32..9) {
            let ends = ends(&inputs, count);
            let sources = u32::try_from(inputs.len()).unwrap();
            prop_assert_eq!(gaps(&ends, Some(sources)), Vec::<String>::new());
            prop_assert!(!gaps(&ends, Some(sources + 1)).is_empty());
        }

        /// A missing or moved stretch, or another input of that name.
        #[test]
        fn any_gap_is_found(
            inputs in inputs(),
            count in 2u32..9,
            which in any::<prop::sample::Index>(),
            how in 0..5,
        ) {
            let mut ends = ends(&inputs, count);
            let sources = u32::try_from(inputs.len()).unwrap();
            let all: Vec<_> = ends.values().filter(|end| !end.stretches.is_empty()).collect();
            let shard = which.get(&all).shard;
            let end = ends.get_mut(&shard).unwrap();
            let last = end.stretches.len() - 1;
            let is_shared = |stretch: &ShardRange| (stretch.start, stretch.end) != (0, stretch.of);
            match how {
                0 => {
                    end.stretches.remove(last);
                }
                1 => end.stretches[last].end -= 1,
                2 => end.stretches[0].start += 1,
                3 if is_shared(&end.stretches[last]) => end.stretches[last].of += 1,
                4 if is_shared(&end.stretches[last]) => {
                    end.sources.last_mut().unwrap().size = Some(1);
                }
                _ => end.stretches[last].source += 1,
            }
            let is_empty = ends.values().all(|end| end.stretches.is_empty());
            prop_assert!(is_empty || !gaps(&ends, Some(sources)).is_empty());
        }
    }

    #[test]
    fn a_version_is_known_by_its_time_or_its_strong_etag() {
        let of = |modified, etag: Option<&str>| SourceState {
            modified,
            etag: etag.map(str::to_owned),
            ..source("a".to_owned(), 1)
        };
        for same in [of(Some(1), None), of(None, Some("\"x\""))] {
            assert!(same.is_same_version(&same));
        }
        for unknown in [of(None, None), of(None, Some("W/\"x\""))] {
            assert!(!unknown.is_same_version(&unknown));
        }
        assert!(!of(Some(1), None).is_same_version(&of(Some(2), None)));
        assert!(!of(None, Some("\"x\"")).is_same_version(&of(None, Some("\"y\""))));
    }
}
