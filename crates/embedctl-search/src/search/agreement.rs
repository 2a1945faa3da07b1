//! How far the nearest rows of two outputs agree, and the two vectors of a row.

use std::collections::{BTreeMap, HashSet};

use embedctl_vectors::Numbers;
use serde::Serialize;

use super::corpus::Corpus;
use super::row_fields::RowFields;
use crate::error::Result;

/// The neighbours that two outputs have in common.
#[derive(Debug, Clone, Serialize)]
pub struct NeighbourAgreement {
    /// Of the nearest rows in the reference the share that is among as many of the other's, for each depth.
    pub overlaps: Vec<Overlap>,
    /// The rows or queries whose neighbours differ most.
    pub differing: Vec<DifferingRow>,
}

/// Shared neighbours of one depth.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Overlap {
    /// How many of the nearest rows.
    pub depth: usize,
    /// The share that both have, from 0 to 1, on average over rows or queries.
    pub share: f64,
}

/// How the cosines of pairs of vectors are distributed.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cosines {
    /// The least.
    pub least: f64,
    /// One in a hundred is below it.
    pub hundredth: f64,
    /// Half of them are below it.
    pub median: f64,
    /// The mean.
    pub mean: f64,
}

/// A row or query with other neighbours in the other output.
#[derive(Debug, Clone, Serialize)]
pub struct DifferingRow {
    /// The row's number in the reference, from 0; a query's number, from 0.
    pub row: u64,
    /// The row's id and text; a query's text.
    #[serde(flatten)]
    pub fields: RowFields,
    /// How many of the nearest rows both have.
    pub shared: usize,
    /// Of how many.
    pub depth: usize,
}

impl Corpus {
    /// How far the neighbours agree: of the rows `sample`, or of queries with these texts.
    pub(super) fn agreement(
        &self,
        own: &[Vec<u64>],
        others: &[Vec<u64>],
        sample: Option<&[u64]>,
        texts: Option<&[String]>,
        depths: &[usize],
        most_differing: usize,
    ) -> Result<NeighbourAgreement> {
        let overlap = |depth: usize| {
            let shares = own.iter().zip(others).filter_map(|(own, other)| {
                let (shared, of) = shared(own, other, depth);
                (of > 0).then(|| shared as f64 / of as f64)
            });
            let shares: Vec<f64> = shares.collect();
            let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            Overlap { depth, share }
        };
        let depth = listed_depth(depths);
        let mut least: Vec<(usize, usize, usize)> = (own.iter().zip(others).enumerate())
            .map(|(place, (own, other))| {
                let (shared, of) = shared(own, other, depth);
                (shared, of, place)
            })
            .filter(|(shared, of, _)| shared < of)
            .collect();
        least.sort_by(|one, other| {
            let share = |it: &(usize, usize, usize)| it.0 as f64 / it.1 as f64;
            share(one)
                .total_cmp(&share(other))
                .then(one.2.cmp(&other.2))
        });
        least.truncate(most_differing);
        let row_of = |place: usize| sample.map_or(place as u64, |rows| rows[place]);
        let mut fields = match sample {
            Some(_) => self.fields(&least.iter().map(|it| row_of(it.2)).collect())?,
            None => BTreeMap::new(),
        };
        let differing = least.into_iter().map(|(shared, depth, place)| {
            let row = row_of(place);
            let fields = match texts {
                Some(texts) => RowFields {
                    id: None,
                    chunk: None,
                    text: texts.get(place).cloned(),
                },
                None => fields.remove(&row).unwrap_or_default(),
            };
            DifferingRow {
                row,
                fields,
                shared,
                depth,
            }
        });
        Ok(NeighbourAgreement {
            overlaps: depths.iter().map(|depth| overlap(*depth)).collect(),
            differing: differing.collect(),
        })
    }
}

/// The depth that lists of differing rows are about: 10, or the nearest to it.
#[must_use]
pub fn listed_depth(depths: &[usize]) -> usize {
    let distance = |depth: &&usize| depth.abs_diff(10);
    depths.iter().min_by_key(distance).copied().unwrap_or(10)
}

/// How many of the `depth` nearest rows two lists share, and of how many.
fn shared(own: &[u64], other: &[u64], depth: usize) -> (usize, usize) {
    let first = |rows: &[u64]| -> HashSet<u64> { rows.iter().take(depth).copied().collect() };
    let own = first(own);
    (own.intersection(&first(other)).count(), own.len())
}

/// How the cosines of vectors in the same place are distributed; `None` where widths differ, a row has not one vector in
/// full, or there is no vector.
pub(super) fn cosines(own: &Numbers, others: &Numbers) -> Option<Cosines> {
    let width = own.row_len()?;
    if others.row_len() != Some(width) {
        return None;
    }
    let mut all = Vec::with_capacity(own.len());
    for (own, other) in own.iter().zip(others.iter()) {
        let (own, other) = (own.values(), other.values());
        let dot = |one: &[f32], other: &[f32]| -> f64 {
            let pairs = one.iter().zip(other);
            pairs
                .map(|(one, other)| f64::from(*one) * f64::from(*other))
                .sum()
        };
        let lengths = (dot(own, own) * dot(other, other)).sqrt();
        if lengths > 0.0 {
            all.push(dot(own, other) / lengths);
        }
    }
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    (!all.is_empty()).then(|| Cosines {
        least: all[0],
        hundredth: at(0.01),
        median: at(0.5),
        mean: all.iter().sum::<f64>() / all.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_as_many_rows_as_there_are() {
        assert_eq!(shared(&[1, 2, 3], &[3, 1, 9], 2), (1, 2));
        assert_eq!(shared(&[1, 2, 3], &[3, 1, 9], 10), (2, 3));
        assert_eq!(shared(&[], &[3], 10), (0, 0));
        assert_eq!(listed_depth(&[1, 10, 100]), 10);
        assert_eq!(listed_depth(&[1, 5]), 5);
    }
}
