//! Whether two outputs find the same rows: for some rows or queries the nearest rows in each, and how many they share.
//!
//! The other output is a second file over the same ids, or a form of the first one that nobody has written yet:
//! its vectors in another type, or cut to fewer components ([`DerivedForm`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use embedctl_common::vectors::{RowVector, RowVectors};
use serde::Serialize;

use super::corpus::Corpus;
use super::decoder::Decoder;
use super::derived::{DerivedForm, cut};
use super::hits::RowFields;
use super::nearest::{Neighbour, TakeStored, nearest};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::output::Ranges;
use crate::setting::VECTORS;

/// What is compared, and how much of it.
#[derive(Debug, Clone)]
pub struct ComparisonOptions {
    /// Rows whose neighbours are compared, where no queries are given.
    pub sample: usize,
    /// Numbers of nearest rows that are compared.
    pub depths: Vec<usize>,
    /// Rows to list whose neighbours differ most.
    pub differing: usize,
}

/// How two or more outputs of the same texts differ.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The first output.
    pub reference: ComparedOutput,
    /// Rows that have a vector in both.
    pub rows: u64,
    /// Rows or queries whose neighbours were compared.
    pub queries: usize,
    /// Whether these are rows of the outputs, and no queries from outside.
    pub queries_are_rows: bool,
    /// Each other output or form.
    pub others: Vec<ComparedWith>,
}

/// One of the outputs.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedOutput {
    /// Its path, or the form's name.
    pub name: String,
    /// The type of its vectors' components.
    pub dtype: String,
    /// Components of a vector; of sparse vectors there is no such number.
    pub dimensions: Option<usize>,
    /// Rows that have a vector.
    pub rows: u64,
    /// Bytes of a row's vectors on average, without the format's own.
    pub bytes_per_row: f64,
}

/// What the reference and another output have in common.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedWith {
    /// The other output.
    #[serde(flatten)]
    pub output: ComparedOutput,
    /// Of the nearest rows in the reference the share that is among as many of the other's, for each depth.
    pub overlaps: Vec<Overlap>,
    /// The cosines of each row's two vectors, where these have one width.
    pub cosines: Option<Cosines>,
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

/// Queries that come from outside: their texts, and their vectors by the model of each output.
#[derive(Debug)]
pub struct ComparisonQueries {
    /// The texts.
    pub texts: Vec<String>,
    /// Their vectors by the reference's model.
    pub reference: RowVectors,
    /// Their vectors by the other output's model.
    pub other: Option<RowVectors>,
}

/// Neighbours of each query, best first.
type Neighbours = Vec<Vec<u64>>;

/// What a pass over an output finds.
#[derive(Debug, Default)]
struct Inventory {
    /// The rows that have a vector.
    rows: Vec<u64>,
    /// Bytes of all vectors.
    bytes: u64,
}

impl Corpus {
    /// Compares this output with another one over the same ids, or, where neither has ids, over as many rows.
    ///
    /// # Errors
    /// If one cannot be read, they share no row, or have vectors of different kinds.
    pub fn compare(
        &self,
        other: &Self,
        queries: Option<&ComparisonQueries>,
        options: &ComparisonOptions,
        cancel: &CancelToken,
    ) -> Result<Comparison> {
        if self.kind != other.kind {
            return Err(Error::usage(format!(
                "{} has {} vectors, and {} has {} ones: their scores have different meanings",
                self.name, self.kind, other.name, other.kind
            ))
            .with_remedy(format!("choose the same kind of both with {VECTORS}")));
        }
        let (own_rows, other_rows) = (self.inventory(cancel)?, other.inventory(cancel)?);
        let pairs = self.pairs(other, &own_rows.rows, &other_rows.rows)?;
        let back: HashMap<u64, u64> = pairs.iter().map(|(own, other)| (*other, *own)).collect();
        let common: Vec<u64> = pairs.keys().copied().collect();
        let (sample, own, others);
        if let Some(queries) = queries {
            sample = None;
            own = queries.reference.clone();
            others = (queries.other.clone())
                .ok_or_else(|| Error::internal("queries without the other model's vectors"))?;
        } else {
            let chosen = sampled(&common, options.sample);
            own = self.gather(&chosen, cancel)?;
            others = other.gather_in_order(chosen.iter().map(|row| pairs[row]), cancel)?;
            sample = Some(chosen.into_iter().collect::<Vec<u64>>());
        }
        let cosines = sample.as_ref().and_then(|_| cosines(&own, &others));
        // As a query in float32 would meet the other output.
        let asked = match sample.is_some() && self.is_finer_form_of(other) {
            true => cut(&own, other.dimensions),
            false => others,
        };
        let most = options.depths.iter().copied().max().unwrap_or(1);
        let is_common = |row: u64| pairs.contains_key(&row);
        let own_found = self.neighbours(&own, most, sample.as_deref(), &is_common, cancel)?;
        let other_sample: Option<Vec<u64>> =
            (sample.as_ref()).map(|rows| rows.iter().map(|row| pairs[row]).collect());
        let is_known = |row: u64| back.contains_key(&row);
        let found = other.neighbours(&asked, most, other_sample.as_deref(), &is_known, cancel)?;
        let found: Neighbours = (found.into_iter())
            .map(|rows| rows.iter().map(|row| back[row]).collect())
            .collect();
        let with = ComparedWith {
            output: other.described(&other_rows),
            cosines,
            ..self.agreement(&own_found, &found, sample.as_deref(), queries, options)?
        };
        Ok(Comparison {
            reference: self.described(&own_rows),
            rows: pairs.len() as u64,
            queries: own.len(),
            queries_are_rows: sample.is_some(),
            others: vec![with],
        })
    }

    /// Compares this output with other forms of it, which are made here row by row and never written.
    ///
    /// # Errors
    /// If its components are no floats, a form is wider than they are, or it cannot be read.
    pub fn compare_forms(
        &self,
        forms: &[DerivedForm],
        queries: Option<&ComparisonQueries>,
        options: &ComparisonOptions,
        cancel: &CancelToken,
    ) -> Result<Comparison> {
        let width = match (&self.decoder, self.dimensions) {
            (Decoder::Floats, Some(width)) if self.is_dense() => width,
            _ => {
                return Err(Error::usage(format!(
                    "{}: other forms are made of dense vectors in f32 or f16, and its vectors are {} in {}",
                    self.name,
                    self.kind,
                    self.dtype()
                ))
                .with_remedy("name an output in f32, or compare two outputs"));
            }
        };
        for form in forms {
            form.check(width)?;
        }
        let inventory = self.inventory(cancel)?;
        let sample = queries.is_none().then(|| {
            let chosen = sampled(&inventory.rows, options.sample);
            chosen.into_iter().collect::<Vec<u64>>()
        });
        let own = match (queries, &sample) {
            (Some(queries), _) => queries.reference.clone(),
            (None, Some(rows)) => self.gather(&rows.iter().copied().collect(), cancel)?,
            (None, None) => return Err(Error::internal("neither queries nor rows")),
        };
        let most = options.depths.iter().copied().max().unwrap_or(1);
        let own_found = self.neighbours(&own, most, sample.as_deref(), &|_| true, cancel)?;
        let is_normalized = self.identity.settings.normalized == Some(true);
        let mut others = Vec::with_capacity(forms.len());
        for form in forms {
            let own_width = form.dimensions.unwrap_or(width);
            let ranges = match form.dtype.needs_ranges() {
                true => Some(self.ranges(own_width, is_normalized, cancel)?),
                false => None,
            };
            let maker = form.maker(own_width, is_normalized, ranges);
            let asked = cut(&own, Some(own_width));
            let found = without_own(&asked, most, sample.as_deref(), &maker.decoder(), |take| {
                let mut stored = Vec::new();
                self.for_each(cancel, &mut |row, vector| {
                    let RowVector::Dense(numbers) = vector else {
                        return Err(Error::internal("a row without a dense vector"));
                    };
                    maker.make(numbers, &mut stored);
                    take(row, RowVector::Dense(&stored))
                })
            })?;
            let cosines = match (&sample, own_width == width) {
                (Some(_), true) => cosines(&own, &maker.made(&own)),
                _ => None,
            };
            others.push(ComparedWith {
                output: ComparedOutput {
                    name: form.to_string(),
                    dtype: form.dtype.to_string(),
                    dimensions: Some(own_width),
                    rows: inventory.rows.len() as u64,
                    bytes_per_row: form.dtype.vector_bytes(own_width) as f64,
                },
                cosines,
                ..self.agreement(&own_found, &found, sample.as_deref(), queries, options)?
            });
        }
        Ok(Comparison {
            reference: self.described(&inventory),
            rows: inventory.rows.len() as u64,
            queries: own.len(),
            queries_are_rows: sample.is_some(),
            others,
        })
    }

    fn inventory(&self, cancel: &CancelToken) -> Result<Inventory> {
        let mut found = Inventory::default();
        self.for_each(cancel, &mut |row, vector| {
            found.rows.push(row);
            found.bytes += self.stored_bytes(vector);
            Ok(())
        })?;
        match found.rows.is_empty() {
            true => Err(self.is_empty()),
            false => Ok(found),
        }
    }

    fn described(&self, inventory: &Inventory) -> ComparedOutput {
        let rows = inventory.rows.len() as u64;
        ComparedOutput {
            name: self.name.clone(),
            dtype: self.dtype().to_string(),
            dimensions: self.dimensions,
            rows,
            bytes_per_row: inventory.bytes as f64 / rows as f64,
        }
    }

    /// The row of `other` for each row of this output: that of the same id, of several (chunks, say) the one in the same
    /// place; without ids that of the same number.
    fn pairs(&self, other: &Self, own: &[u64], others: &[u64]) -> Result<BTreeMap<u64, u64>> {
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
        let mut by_id: HashMap<&str, Vec<u64>> = HashMap::new();
        for (row, id) in &other_ids {
            by_id.entry(id).or_default().push(*row);
        }
        let with_vector: HashSet<u64> = own.iter().copied().collect();
        let mut seen: HashMap<&str, usize> = HashMap::new();
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

    /// The numbers of these rows' vectors, in the order of the output.
    fn gather(&self, rows: &BTreeSet<u64>, cancel: &CancelToken) -> Result<RowVectors> {
        let mut found: Option<RowVectors> = None;
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
    fn gather_in_order(
        &self,
        rows: impl Iterator<Item = u64>,
        cancel: &CancelToken,
    ) -> Result<RowVectors> {
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

    /// The nearest rows to each query among those that `may` be found; a query that is a row of `sample` does not find
    /// itself.
    fn neighbours(
        &self,
        queries: &RowVectors,
        most: usize,
        sample: Option<&[u64]>,
        may: &dyn Fn(u64) -> bool,
        cancel: &CancelToken,
    ) -> Result<Neighbours> {
        without_own(queries, most, sample, &self.decoder, |take| {
            self.for_each(cancel, &mut |number, row| match may(number) {
                true => take(number, row),
                false => Ok(()),
            })
        })
    }

    /// Least and greatest value of each of the first `width` components.
    fn ranges(&self, width: usize, normalize: bool, cancel: &CancelToken) -> Result<Ranges> {
        let mut ranges = Ranges::new(width);
        let mut room = Vec::new();
        self.for_each(cancel, &mut |_, row| {
            if let RowVector::Dense(numbers) = row {
                super::derived::first_components(numbers, width, normalize, &mut room);
                ranges.add(&room);
            }
            Ok(())
        })?;
        Ok(ranges)
    }

    /// How far neighbours agree. The output, and what else is known of it, are the caller's.
    fn agreement(
        &self,
        own: &Neighbours,
        others: &Neighbours,
        sample: Option<&[u64]>,
        queries: Option<&ComparisonQueries>,
        options: &ComparisonOptions,
    ) -> Result<ComparedWith> {
        let overlap = |depth: usize| {
            let shares = own.iter().zip(others).filter_map(|(own, other)| {
                let (shared, of) = shared(own, other, depth);
                (of > 0).then(|| shared as f64 / of as f64)
            });
            let shares: Vec<f64> = shares.collect();
            let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            Overlap { depth, share }
        };
        let depth = listed_depth(&options.depths);
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
        least.truncate(options.differing);
        let row_of = |place: usize| sample.map_or(place as u64, |rows| rows[place]);
        let mut fields = match sample {
            Some(_) => self.fields(&least.iter().map(|it| row_of(it.2)).collect())?,
            None => BTreeMap::new(),
        };
        let differing = least.into_iter().map(|(shared, depth, place)| {
            let row = row_of(place);
            let fields = match queries {
                Some(queries) => RowFields {
                    id: None,
                    text: queries.texts.get(place).cloned(),
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
        Ok(ComparedWith {
            output: ComparedOutput {
                name: String::new(),
                dtype: String::new(),
                dimensions: None,
                rows: 0,
                bytes_per_row: 0.0,
            },
            overlaps: options.depths.iter().map(|depth| overlap(*depth)).collect(),
            cosines: None,
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

/// The nearest rows; a query that is a row of `sample` does not find itself.
fn without_own(
    queries: &RowVectors,
    most: usize,
    sample: Option<&[u64]>,
    decoder: &Decoder,
    read: impl FnOnce(&mut TakeStored<'_>) -> Result<()>,
) -> Result<Neighbours> {
    let wanted = most + usize::from(sample.is_some());
    let found: Vec<Vec<Neighbour>> = nearest(queries, decoder, wanted, read)?;
    let rows = found.into_iter().enumerate().map(|(place, found)| {
        let own = sample.map(|rows| rows[place]);
        let others = found
            .iter()
            .map(|it| it.row)
            .filter(|row| own != Some(*row));
        others.take(most).collect()
    });
    Ok(rows.collect())
}

/// So many of the rows, the same ones each time, spread over all of them whatever their order means.
fn sampled(rows: &[u64], most: usize) -> BTreeSet<u64> {
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

/// How the cosines of vectors in the same place are distributed; `None` where widths differ or there is no vector.
fn cosines(own: &RowVectors, others: &RowVectors) -> Option<Cosines> {
    let mut all = Vec::with_capacity(own.len());
    for (own, other) in own.iter().zip(others.iter()) {
        let (RowVector::Dense(own), RowVector::Dense(other)) = (own, other) else {
            return None;
        };
        if own.len() != other.len() {
            return None;
        }
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
    fn a_sample_is_the_same_each_time_and_all_rows_where_there_are_few() {
        let rows: Vec<u64> = (0..1000).collect();
        let chosen = sampled(&rows, 10);
        assert_eq!(chosen.len(), 10);
        let backwards: Vec<u64> = (0..1000).rev().collect();
        assert_eq!(chosen, sampled(&backwards, 10));
        assert!(chosen.iter().any(|row| *row < 500) && chosen.iter().any(|row| *row >= 500));
        assert_eq!(sampled(&rows[..7], 10).len(), 7);
    }

    #[test]
    fn shares_are_of_as_many_rows_as_there_are() {
        assert_eq!(shared(&[1, 2, 3], &[3, 1, 9], 2), (1, 2));
        assert_eq!(shared(&[1, 2, 3], &[3, 1, 9], 10), (2, 3));
        assert_eq!(shared(&[], &[3], 10), (0, 0));
        assert_eq!(listed_depth(&[1, 10, 100]), 10);
        assert_eq!(listed_depth(&[1, 5]), 5);
    }
}
