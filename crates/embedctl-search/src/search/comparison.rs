//! Whether two outputs find the same rows: for some rows or queries the nearest rows in each, and how many they share.
//!
//! The other output is a second file over the same ids, or a form of the first one that nobody has written yet:
//! its vectors in another type, or cut to fewer components ([`DerivedForm`]).

use ahash::HashMap;
use embedctl_records::quantize::Ranges;
use embedctl_vectors::{Numbers, RowVector};
use serde::Serialize;

use super::agreement::{Cosines, NeighbourAgreement, cosines};
use super::corpus::Corpus;
use super::decoder::Decoder;
use super::derived::{DerivedForm, cut};
use super::matching::{TextAgreement, sampled};
use super::nearest::{TakeStored, nearest};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
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

impl ComparisonOptions {
    /// The depths that leave a row out of `rows`, and those that do not: the nearest of a depth that takes all rows are the
    /// same ones in every output. `by_rows`: queries are rows, which do not find themselves.
    fn depths_below(&self, rows: usize, by_rows: bool) -> Result<(Vec<usize>, Vec<usize>)> {
        let found = rows - usize::from(by_rows && rows > 0);
        let (below, of_all): (Vec<usize>, Vec<usize>) =
            self.depths.iter().partition(|depth| **depth < found);
        if found == 0 {
            return Err(Error::usage(
                "one row alone can be compared, and it has no neighbour to find",
            )
            .with_remedy("compare outputs with more rows of the same ids"));
        }
        match below.is_empty() {
            true => Err(Error::usage(format!(
                "there {} to find, and -k {} takes all of them in any output",
                match found {
                    1 => "is 1 row".to_owned(),
                    _ => format!("are {found} rows"),
                },
                self.depths.iter().min().copied().unwrap_or(1)
            ))
            .with_remedy("compare more rows, or fewer of the nearest with -k")),
            false => Ok((below, of_all)),
        }
    }
}

/// How two or more outputs of the same texts differ.
#[derive(Debug, Clone, Serialize)]
pub struct OutputComparison {
    /// The first output.
    pub reference: ComparedOutput,
    /// Rows that have a vector in both.
    pub rows: u64,
    /// Rows or queries whose neighbours were compared.
    pub queries: usize,
    /// Whether these are rows of the outputs, and no queries from outside.
    pub queries_are_rows: bool,
    /// Numbers of nearest rows that were asked for and not compared: no fewer than all that can be found.
    pub depths_of_all: Vec<usize>,
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
    /// The neighbours that both have.
    #[serde(flatten)]
    pub neighbours: NeighbourAgreement,
    /// The cosines of each row's two vectors, where these have one width.
    pub cosines: Option<Cosines>,
    /// Whether rows of the same id have the same text, where both outputs hold their texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextAgreement>,
}

/// Queries that come from outside: their texts, and their vectors by the model of each output.
#[derive(Debug)]
pub struct ComparisonQueries {
    /// The texts.
    pub texts: Vec<String>,
    /// Their vectors by the reference's model.
    pub reference: Numbers,
    /// Their vectors by the other output's model.
    pub other: Option<Numbers>,
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
    ) -> Result<OutputComparison> {
        if self.form != other.form {
            let remedy = match self.has_several || other.has_several {
                true => format!("choose the same kind of both with {VECTORS}"),
                false => "compare outputs with one kind of vectors".to_owned(),
            };
            return Err(Error::usage(format!(
                "{} has {} vectors, and {} has {} ones: their scores have different meanings",
                self.name,
                self.form.name(),
                other.name,
                other.form.name()
            ))
            .with_remedy(remedy));
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
        let (depths, depths_of_all) = options.depths_below(pairs.len(), sample.is_some())?;
        let most = depths.iter().copied().max().unwrap_or(1);
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
            neighbours: self.agreement(
                &own_found,
                &found,
                sample.as_deref(),
                queries.map(|queries| &queries.texts[..]),
                &depths,
                options.differing,
            )?,
            texts: self.text_agreement(other, &pairs)?,
        };
        Ok(OutputComparison {
            reference: self.described(&own_rows),
            rows: pairs.len() as u64,
            queries: own.len(),
            queries_are_rows: sample.is_some(),
            depths_of_all,
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
    ) -> Result<OutputComparison> {
        let width = match (&self.decoder, self.dimensions) {
            (Decoder::Floats, Some(width)) if self.is_dense() => width,
            _ => {
                return Err(Error::usage(format!(
                    "{}: other forms are made of dense vectors in f32 or f16, and its vectors are {} in {}",
                    self.name,
                    self.form.name(),
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
        let (depths, depths_of_all) =
            options.depths_below(inventory.rows.len(), sample.is_some())?;
        let most = depths.iter().copied().max().unwrap_or(1);
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
                    maker.make(vector.values(), &mut stored);
                    take(row, RowVector::of_vector(&stored))
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
                neighbours: self.agreement(
                    &own_found,
                    &found,
                    sample.as_deref(),
                    queries.map(|queries| &queries.texts[..]),
                    &depths,
                    options.differing,
                )?,
                texts: None,
            });
        }
        Ok(OutputComparison {
            reference: self.described(&inventory),
            rows: inventory.rows.len() as u64,
            queries: own.len(),
            queries_are_rows: sample.is_some(),
            depths_of_all,
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

    /// The nearest rows to each query among those that `may` be found; a query that is a row of `sample` does not find
    /// itself.
    fn neighbours(
        &self,
        queries: &Numbers,
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
            super::derived::first_components(row.values(), width, normalize, &mut room);
            ranges.add(&room);
            Ok(())
        })?;
        Ok(ranges)
    }
}

/// The nearest rows; a query that is a row of `sample` does not find itself.
fn without_own(
    queries: &Numbers,
    most: usize,
    sample: Option<&[u64]>,
    decoder: &Decoder,
    read: impl FnOnce(&mut TakeStored<'_>) -> Result<()>,
) -> Result<Neighbours> {
    let wanted = most + usize::from(sample.is_some());
    let (found, _) = nearest(queries, decoder, wanted, None, |feed| {
        read(&mut |number, row| feed.row(number, row))
    })?;
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
