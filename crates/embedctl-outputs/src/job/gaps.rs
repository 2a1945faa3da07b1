//! Whether the stretches that shards have read join.

use std::collections::BTreeMap;

use super::part::ShardEnd;
use super::shards::{ShardRange, Unit};

/// Where the stretches of shards that are all at their ends don't join, in sentences. `inputs` is how many inputs there
/// are, where that is known. Nothing is known of shards that an older build has ended.
pub(super) fn gaps(ends: &BTreeMap<u32, ShardEnd>, inputs: Option<u32>) -> Vec<String> {
    let mut gaps = Vec::new();
    let mut last: Option<ReadRange<'_>> = None;
    let stretches = ends.values().flat_map(|end| {
        let stretches = end.stretches.iter();
        stretches.map(move |stretch| ReadRange { end, stretch })
    });
    for read in stretches {
        let ShardRange { source, start, .. } = *read.stretch;
        let next = last.as_ref().map_or((0, 0), |last| last.stretch.next());
        let has_same =
            |last: &ReadRange<'_>| last.stretch.source != source || last.input() == read.input();
        if next != (source, start) || !last.as_ref().is_none_or(has_same) {
            let begins = read.at("begins", start);
            gaps.push(match &last {
                None => format!("{begins}, and no shard reads the input before it"),
                Some(last) => format!("{begins}, and {}", last.at("ends", last.stretch.end)),
            });
        }
        last = Some(read);
    }
    let Some(last) = last else {
        return gaps;
    };
    let (source, at) = last.stretch.next();
    if at != 0 || inputs.is_some_and(|inputs| inputs != source) {
        let ends = last.at("ends", last.stretch.end);
        gaps.push(format!("{ends}, and no shard reads the input after it"));
    }
    gaps
}

/// A stretch that a shard has read.
struct ReadRange<'a> {
    end: &'a ShardEnd,
    stretch: &'a ShardRange,
}

impl ReadRange<'_> {
    /// The facts of an input on which all of its shards must agree.
    fn input(&self) -> (Unit, u64, Option<(&str, Option<u64>)>) {
        let ShardRange { unit, of, .. } = *self.stretch;
        let source = self.end.source(self.stretch);
        (unit, of, source.map(|it| (it.name.as_str(), it.size)))
    }

    /// Where its shard begins or ends, for messages.
    fn at(&self, verb: &str, at: u64) -> String {
        let ShardRange { unit, of, .. } = self.stretch;
        let source = self.end.source(self.stretch);
        let name = source.map_or("an input", |source| &source.name);
        let unit = match unit {
            Unit::Bytes => "byte",
            Unit::Rows => "row",
        };
        let shard = self.end.shard;
        format!("shard {shard} {verb} at {unit} {at} of {of} of {name}")
    }
}
