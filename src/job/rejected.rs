//! Which records of a job are rejected: what its parts say, less what was embedded since.
//!
//! Nothing of it is ever rewritten. A part lists its rejects; a part of records that were tried again lists those
//! that it holds, and gives newer reasons for others. So a part that is lost gives its records back.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::names;
use super::part::Part;
use super::seal::encode;
use super::state::State;
use super::storage::Storage;
use crate::error::{Error, Place, Result};

/// Where a record stands: by this it is known again when it is mended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordPlace {
    /// Name of its source.
    pub file: String,
    /// Its first line there, from 1; in a table its row.
    pub line: u64,
}

impl RecordPlace {
    /// As a line of JSON, with its end.
    ///
    /// # Errors
    /// Never, in practice.
    pub fn to_line(&self) -> Result<Vec<u8>> {
        Ok(format!("{}\n", encode(self)?).into_bytes())
    }
}

/// Places of records. A source may be named twice, so a place may be there twice.
#[derive(Debug, Clone, Default)]
pub struct Places(HashMap<RecordPlace, u32>);

impl Places {
    /// Adds one.
    pub fn add(&mut self, place: RecordPlace) {
        *self.0.entry(place).or_default() += 1;
    }

    /// Adds all of `others`.
    pub fn add_all(&mut self, others: &Self) {
        for (place, count) in &others.0 {
            *self.0.entry(place.clone()).or_default() += count;
        }
    }

    /// Takes one out; whether it was there.
    pub fn take(&mut self, place: &RecordPlace) -> bool {
        let Some(count) = self.0.get_mut(place) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.0.remove(place);
        }
        true
    }

    /// One of them.
    #[must_use]
    pub fn any(&self) -> Option<&RecordPlace> {
        self.0.keys().min_by_key(|place| (&place.file, place.line))
    }

    /// Names of the sources that they are in.
    #[must_use]
    pub fn files(&self) -> BTreeSet<&str> {
        self.0.keys().map(|place| place.file.as_str()).collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rejected records of a job, or of one of its shards.
#[derive(Debug, Default)]
pub struct Rejected {
    /// Those that still are, with their lines in the lists, in the order in which they were first rejected.
    lines: Vec<Option<(RecordPlace, Vec<u8>)>>,
    /// Those that have been embedded since.
    pub embedded: Places,
}

impl Rejected {
    /// What the parts of shard `shard` say, or of all shards.
    ///
    /// # Errors
    /// If a list is missing or cannot be read.
    pub fn read(storage: &dyn Storage, state: &State, shard: Option<u32>) -> Result<Self> {
        let mut all = Self::default();
        let mut at: HashMap<RecordPlace, Vec<usize>> = HashMap::new();
        let parts = || {
            let parts = state.parts.values();
            parts.filter(move |part| shard.is_none_or(|shard| shard == part.info.shard))
        };
        for part in parts().filter(|part| !part.info.retry && part.info.rejected > 0) {
            for (place, line) in list(storage, &part.rejects())? {
                at.entry(place.clone()).or_default().push(all.lines.len());
                all.lines.push(Some((place, line)));
            }
        }
        for part in parts().filter(|part| part.info.retry) {
            if part.info.rejected > 0 {
                for (place, line) in list(storage, &part.rejects())? {
                    if let Some(&index) = at.get(&place).and_then(|indices| indices.first()) {
                        all.lines[index] = Some((place, line));
                    }
                }
            }
            for (place, _) in list(storage, &part.retried())? {
                if let Some(indices) = at.get_mut(&place).filter(|indices| !indices.is_empty()) {
                    all.lines[indices.remove(0)] = None;
                }
                all.embedded.add(place);
            }
        }
        Ok(all)
    }

    /// Their places.
    #[must_use]
    pub fn places(&self) -> Places {
        let mut places = Places::default();
        for (place, _) in self.lines.iter().flatten() {
            places.add(place.clone());
        }
        places
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.iter().flatten().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.iter().flatten().next().is_none()
    }

    /// Their lines, as they were written.
    #[must_use]
    pub fn lines(&self) -> Vec<u8> {
        let lines = self.lines.iter().flatten();
        lines.flat_map(|(_, line)| line).copied().collect()
    }
}

/// The lines of a list, with the places that they name.
fn list(storage: &dyn Storage, name: &str) -> Result<Vec<(RecordPlace, Vec<u8>)>> {
    let damaged = |why: &str| {
        Error::input(Place::file(name), why).with_remedy(
            "write the output anew; --retry-rejects cannot know which records were rejected",
        )
    };
    let bytes = storage
        .read(name)?
        .ok_or_else(|| damaged("is not there, and its part names rejected records"))?;
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines
        .map(|line| {
            let place = serde_json::from_slice(line);
            let place = place.map_err(|_| damaged("is not what a job writes there"))?;
            Ok((place, line.to_vec()))
        })
        .collect()
}

impl Part {
    /// Where the records are listed that it holds, if it is one of records that were tried again.
    #[must_use]
    pub fn retried(&self) -> String {
        let part = names::part(self.info.shard, self.info.number);
        format!("{}/{part}.jsonl", names::RETRIED)
    }
}
