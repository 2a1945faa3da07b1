//! Which rows of two outputs belong together, which of them are compared, and their vectors.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use ahash::{HashMap, HashSet};
use embedctl_vectors::Numbers;
use serde::Serialize;

use super::corpus::Corpus;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};

impl Corpus {
    /// The row of `other` for each row of this output: that of the same id, of several (chunks, say) the one in the same
    /// place; without ids that of the same number.
    pub(super) fn pairs(
        &self,
        other: &Self,
        own: &[u64],
        others: &[u64],
    ) -> Result<BTreeMap<u64, u64>> {
        let (own_ids, other_ids) = (self.ids()?, other.ids()?);
        if own_ids.is_empty() || other_ids.is_empty() {
            if own.len() != others.len() {
                return Err(Error::usage(format!(
                    "{} has {} rows with a vector and {} has {}, and without ids in both nobody knows which belong \
                     together",
                    self.name,
                    own.len(),
                    other.name,
                    others.len()
                ))
                .with_remedy("compare outputs of the same texts, or with ids"));
            }
            return Ok(own.iter().copied().zip(others.iter().copied()).collect());
        }
        let has_vector: HashSet<u64> = others.iter().copied().collect();
        let mut by_id: HashMap<&str, Vec<u64>> = HashMap::default();
        for (row, id) in &other_ids {
            by_id.entry(id).or_default().push(*row);
        }
        let with_vector: HashSet<u64> = own.iter().copied().collect();
        let mut seen: HashMap<&str, usize> = HashMap::default();
        let mut pairs = BTreeMap::new();
        for (row, id) in &own_ids {
            let place = seen.entry(id).or_default();
            let partner = by_id.get(id.as_str()).and_then(|rows| rows.get(*place));
            *place += 1;
            if let Some(partner) = partner.filter(|row| has_vector.contains(row))
                && with_vector.contains(row)
            {
                pairs.insert(*row, *partner);
            }
        }
        if pairs.is_empty() {
            return Err(Error::usage(format!(
                "{} and {} share no id, so no row can be compared",
                self.name, other.name
            ))
            .with_remedy("name outputs of the same records"));
        }
        Ok(pairs)
    }

    /// Whether the first rows of `pairs` have the same text in both; `None` where one does not hold texts.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn text_agreement(
        &self,
        other: &Self,
        pairs: &BTreeMap<u64, u64>,
    ) -> Result<Option<TextAgreement>> {
        let some = || pairs.iter().take(COMPARED_TEXTS);
        let own = self.fields(&some().map(|(own, _)| *own).collect())?;
        let others = other.fields(&some().map(|(_, other)| *other).collect())?;
        let texts = some().filter_map(|(row, partner)| {
            let text = own.get(row)?.text.as_ref()?;
            Some(text == others.get(partner)?.text.as_ref()?)
        });
        let same: Vec<bool> = texts.collect();
        Ok((!same.is_empty()).then(|| TextAgreement {
            compared: same.len(),
            different: same.iter().filter(|same| !**same).count(),
        }))
    }

    /// The numbers of these rows' vectors, in the order of the output.
    pub(super) fn gather(&self, rows: &BTreeSet<u64>, cancel: &CancelToken) -> Result<Numbers> {
        let mut found: Option<Numbers> = None;
        self.for_each(cancel, &mut |number, row| {
            if rows.contains(&number) {
                let decoded = self.decoded(row);
                match &mut found {
                    Some(found) => found.append(decoded),
                    None => found = Some(decoded),
                }
            }
            Ok(())
        })?;
        found.ok_or_else(|| self.is_empty())
    }

    /// The same in the order of `rows`.
    pub(super) fn gather_in_order(
        &self,
        rows: impl Iterator<Item = u64>,
        cancel: &CancelToken,
    ) -> Result<Numbers> {
        let rows: Vec<u64> = rows.collect();
        let wanted: BTreeSet<u64> = rows.iter().copied().collect();
        let gathered = self.gather(&wanted, cancel)?;
        let places: HashMap<u64, usize> = wanted.iter().copied().zip(0..).collect();
        let mut ordered = gathered.same();
        for row in rows {
            ordered.push(gathered.get(places[&row]));
        }
        Ok(ordered)
    }
}

/// Rows whose texts are compared: so many are read one by one.
const COMPARED_TEXTS: usize = 64;

/// Whether rows of the same id have the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TextAgreement {
    /// Rows whose texts were compared.
    pub compared: usize,
    /// Those with two texts.
    pub different: usize,
}

/// So many of the rows, the same ones each time, spread over all of them whatever their order means.
pub(super) fn sampled(rows: &[u64], most: usize) -> BTreeSet<u64> {
    let mut chosen = BinaryHeap::with_capacity(most + 1);
    for row in rows {
        chosen.push((Reverse(scattered(*row)), *row));
        if chosen.len() > most {
            // The greatest of the heap has the least number.
            let _ = chosen.pop();
        }
    }
    chosen.into_iter().map(|(_, row)| row).collect()
}

/// A number that depends on all bits of another one (`SplitMix64`).
fn scattered(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_same_each_time_and_all_rows_where_there_are_few() {
        let rows: Vec<u64> = (0..1000).collect();
        let chosen = sampled(&rows, 10);
        assert_eq!(chosen.len(), 10);
        let backwards: Vec<u64> = (0..1000).rev().collect();
        assert_eq!(chosen, sampled(&backwards, 10));
        assert!(chosen.iter().any(|row| *row < 500) && chosen.iter().any(|row| *row >= 500));
        assert_eq!(sampled(&rows[..7], 10).len(), 7);
    }
}
