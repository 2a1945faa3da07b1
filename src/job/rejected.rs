//! Which records of a job are rejected: what its parts say, less what was embedded since.
//!
//! Nothing of it is ever rewritten. A part lists its rejects; a part of records that were tried again lists those
//! that it holds, and gives newer reasons for others. So a part that is lost gives its records back.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::part::Part;
use super::seal::encode;
use super::state::State;
use crate::error::{Error, Result};
use crate::hash;
use crate::record::Origin;
use crate::setting::{FORCE, RESUME, RETRY_REJECTS};
use crate::storage::SharedFolder;

/// Where a record stands: by this it is known again when it is mended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordPlace {
    /// Name of its source.
    pub file: String,
    /// Its first line there, from 1; in a table its row.
    pub line: u64,
}

impl RecordPlace {
    /// Where a record was read, of sources with these names.
    #[must_use]
    pub fn of(names: &[String], origin: &Origin) -> Self {
        let file = names.get(origin.source as usize);
        Self {
            file: file.cloned().unwrap_or_default(),
            line: origin.line,
        }
    }

    /// As a line of JSON, with its end.
    ///
    /// # Errors
    /// Never, in practice.
    pub fn to_line(&self) -> Result<Vec<u8>> {
        Ok(format!("{}\n", encode(self)?).into_bytes())
    }
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
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
    /// Those of them that no part lists as rejected: that part is gone.
    pub unlisted: Places,
}

impl Rejected {
    /// What the parts of shard `shard` say, or of all shards.
    ///
    /// # Errors
    /// If a list is missing or cannot be read.
    pub fn read(storage: &dyn SharedFolder, state: &State, shard: Option<u32>) -> Result<Self> {
        let mut all = Self::default();
        let mut at: HashMap<RecordPlace, Vec<usize>> = HashMap::new();
        let parts = || {
            let parts = state.parts.values();
            parts.filter(move |part| shard.is_none_or(|shard| shard == part.info.shard))
        };
        for part in parts().filter(|part| !part.info.retry) {
            for (place, line) in part.rejected(storage)? {
                at.entry(place.clone()).or_default().push(all.lines.len());
                all.lines.push(Some((place, line)));
            }
        }
        for part in parts().filter(|part| part.info.retry) {
            for (place, line) in part.rejected(storage)? {
                if let Some(&index) = at.get(&place).and_then(|indices| indices.first()) {
                    all.lines[index] = Some((place, line));
                }
            }
            for (place, _) in part.retried(storage)? {
                match at.get_mut(&place).filter(|indices| !indices.is_empty()) {
                    Some(indices) => all.lines[indices.remove(0)] = None,
                    None => all.unlisted.add(place.clone()),
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

/// Lines of a list, with the places that they name.
pub type Lines = Vec<(RecordPlace, Vec<u8>)>;

impl Part {
    /// Its rejected records, as they were listed.
    ///
    /// # Errors
    /// If the list is not there, or another; the message names it.
    pub fn rejected(&self, storage: &dyn SharedFolder) -> Result<Lines> {
        let info = &self.info;
        let sum = info.rejects_sha256.as_ref();
        self.list(storage, info.rejects(), sum, info.rejected)
    }

    /// The records that it holds, if it is one of records that were tried again.
    pub(super) fn retried(&self, storage: &dyn SharedFolder) -> Result<Lines> {
        let info = &self.info;
        let held = if info.retry { info.embedded } else { 0 };
        self.list(storage, info.retried(), info.retried_sha256.as_ref(), held)
    }

    /// What was written under `name`, of that hash; nothing where nothing was, which is so of no records only.
    fn list(
        &self,
        storage: &dyn SharedFolder,
        name: String,
        sum: Option<&String>,
        records: u64,
    ) -> Result<Lines> {
        let Some(sum) = sum else {
            if records == 0 {
                return Ok(Lines::new());
            }
            let why = format!("an older build made it, which kept no hash of {name}");
            return Err(Error::input(storage.place(&self.file), why)
                .with_remedy(format!("write the output anew, with {FORCE}")));
        };
        let lines = match storage.read(&name)? {
            None => Err("is not there, and was written with its part"),
            Some(bytes) if hash::of(&bytes) != *sum => Err("is not what was written with its part"),
            Some(bytes) => (bytes.split_inclusive(|&byte| byte == b'\n'))
                .map(|line| Ok((serde_json::from_slice(line)?, line.to_vec())))
                .collect::<Result<_, serde_json::Error>>()
                .map_err(|_| "does not name records"),
        };
        lines.map_err(|why| {
            let option = if self.info.retry {
                RETRY_REJECTS
            } else {
                RESUME
            };
            Error::input(storage.place(&name), why).with_remedy(format!(
                "put it back as it was, or remove {} and give the same command with {option}, which makes both anew",
                storage.place(&self.file)
            ))
        })
    }
}
