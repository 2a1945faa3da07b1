//! A network whose layers are loaded one at a time, where only its exact results are wanted once.

use rayon::prelude::*;

use super::Network;
use crate::BATCH_TOKENS;
use crate::executor::Executor;
use crate::loader::Loader;
use crate::network_weights::NetworkWeights;
use crate::packed::{InputRanges, LayerWeights, OuterWeights, Product};
use crate::scratch::{Rows, Scratch, ThreadCrew};
use embedctl_common::error::{Error, Result};
use embedctl_kernels::{Arithmetic, CacheLines};

/// Rows of random ids by which 8-bit products are balanced, and their length.
const CALIBRATION: (usize, usize) = (64, 24);

impl Network {
    /// For each row, the result of `compare` on its token states here and its token states in single precision.
    pub(crate) fn compare_with_exact<'a, T: Send>(
        &self,
        weights: &NetworkWeights,
        rows: impl Iterator<Item = &'a [u32]>,
        compare: impl Fn(&[f32], &[f32]) -> T + Sync,
    ) -> Result<Vec<T>> {
        let loader = Loader::new(&self.architecture, weights, self.isa)?;
        let mut shares = share_out(rows);
        run_exactly(&loader, &self.outer, &mut shares, |_, _| {})?;
        // If the files had changed, the packed weights would be compared with other weights.
        weights.check_unchanged()?;
        let width = self.architecture.hidden;
        let results: Vec<Vec<T>> = shares
            .into_par_iter()
            .map(|mut share| {
                let executor = self.executor();
                let mut own = Scratch::default();
                let mut results = Vec::new();
                share.each(&executor, &self.outer, |rows, scratch, _| {
                    let exact = executor.finish(&self.outer, rows.ids.len(), scratch);
                    let ours = self.run(rows, &mut own, &ThreadCrew::default())?;
                    let values = rows.spans().map(|it| it.start * width..it.end * width);
                    results.extend(values.map(|it| compare(&ours[it.clone()], &exact[it])));
                    Ok(())
                })?;
                Ok(results)
            })
            .collect::<Result<_>>()?;
        Ok(results.into_iter().flatten().collect())
    }
}

/// One thread's rows, run through a network whose layers are loaded one at a time.
#[derive(Default)]
struct LayerwiseRows {
    batches: Vec<LayerwiseBatch>,
    scratch: Scratch,
    ranges: InputRanges,
}

/// Rows that run together, and their states between two layers.
#[derive(Default)]
struct LayerwiseBatch {
    texts: TextRows,
    states: CacheLines,
}

impl LayerwiseRows {
    /// Runs `work` on each batch's rows, with its states in the scratch.
    fn each(
        &mut self,
        executor: &Executor<'_>,
        outer: &OuterWeights,
        mut work: impl FnMut(Rows<'_>, &mut Scratch, &mut InputRanges) -> Result<()>,
    ) -> Result<()> {
        for LayerwiseBatch { texts, states } in &mut self.batches {
            let rows = texts.rows();
            executor.make_ready(outer, rows, &mut self.scratch)?;
            std::mem::swap(&mut self.scratch.states, states);
            let done = work(rows, &mut self.scratch, &mut self.ranges);
            std::mem::swap(&mut self.scratch.states, states);
            done?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct TextRows {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl TextRows {
    fn rows(&self) -> Rows<'_> {
        Rows {
            ids: &self.ids,
            types: &[],
            ends: &self.ends,
            seen: &[],
        }
    }
}

/// Runs rows in single precision, half a layer's weights at a time (see [`runs_in_halves`]): so a model's exact vectors can
/// be had where only its reduced weights fit into memory. `after` gets each layer before the next one is loaded.
///
/// [`runs_in_halves`]: embedctl_checkpoint::architecture::Architecture::runs_in_halves
fn run_exactly(
    loader: &Loader<'_>,
    outer: &OuterWeights,
    shares: &mut [LayerwiseRows],
    mut after: impl FnMut(usize, &mut [LayerwiseRows]),
) -> Result<()> {
    let executor = Executor {
        architecture: loader.architecture,
        isa: loader.isa,
    };
    shares.par_iter_mut().try_for_each(|share| {
        let LayerwiseRows {
            batches, scratch, ..
        } = share;
        batches.iter_mut().try_for_each(|batch| {
            executor.embed(outer, batch.texts.rows(), scratch)?;
            batch.states = std::mem::take(&mut scratch.states);
            Ok::<_, Error>(())
        })
    })?;
    let precision = Arithmetic::Fp32;
    let mut held: Option<(usize, LayerWeights)> = None;
    for layer in &loader.architecture.layers {
        let set = layer.weights;
        // Freed before the next one is loaded: memory may not hold two.
        held = held.filter(|(held, _)| *held == set);
        if loader.architecture.runs_in_halves(set) {
            let small = loader.small_weights(set)?;
            let mixing = loader.products(set, &Product::ATTENTION, precision, None)?;
            run_all(&executor, outer, shares, |rows, scratch, ranges| {
                executor.attention(layer, &mixing, &small, rows, scratch, Some(ranges));
            })?;
            drop(mixing);
            let inner = loader.products(set, &Product::FEED_FORWARD, precision, None)?;
            run_all(&executor, outer, shares, |rows, scratch, ranges| {
                executor.feed_forward(&inner, &small, rows, scratch, Some(ranges));
            })?;
        } else {
            let weights = match held.take() {
                Some((_, weights)) => weights,
                None => loader.layer(set, precision, None)?,
            };
            run_all(&executor, outer, shares, |rows, scratch, ranges| {
                let alone = ThreadCrew::default();
                executor.layer(layer, &weights, rows, scratch, &alone, Some(ranges));
            })?;
            held = Some((set, weights));
        }
        after(set, shares);
    }
    Ok(())
}

/// Runs `work` on each batch of all shares, in parallel.
fn run_all(
    executor: &Executor<'_>,
    outer: &OuterWeights,
    shares: &mut [LayerwiseRows],
    work: impl Fn(Rows<'_>, &mut Scratch, &mut InputRanges) + Sync,
) -> Result<()> {
    shares.par_iter_mut().try_for_each(|share| {
        share.each(executor, outer, |rows, scratch, ranges| {
            work(rows, scratch, ranges);
            Ok(())
        })
    })
}

/// Spreads rows over as many shares as there are threads.
fn share_out<'a>(rows: impl Iterator<Item = &'a [u32]>) -> Vec<LayerwiseRows> {
    let count = rayon::current_num_threads();
    let mut shares: Vec<LayerwiseRows> = (0..count).map(|_| LayerwiseRows::default()).collect();
    for (index, row) in rows.enumerate() {
        let batches = &mut shares[index % count].batches;
        let is_full = |batch: &LayerwiseBatch| batch.texts.ids.len() >= BATCH_TOKENS;
        if batches.last().is_none_or(is_full) {
            batches.push(LayerwiseBatch::default());
        }
        let Some(LayerwiseBatch { texts, .. }) = batches.last_mut() else {
            continue;
        };
        texts.ids.extend_from_slice(row);
        texts.ends.push(texts.ids.len());
    }
    shares
}

/// The greatest magnitudes of each product's inputs over rows of random ids. Real texts gave no better ones.
pub(super) fn calibrate(loader: &Loader<'_>, outer: &OuterWeights) -> Result<Vec<InputRanges>> {
    let architecture = loader.architecture;
    let (rows, length) = CALIBRATION;
    // RoBERTa's positions begin behind the padding id.
    let length = architecture
        .embeddings
        .positions
        .map_or(length, |positions| {
            let taken = positions.after.map_or(0, |padding| padding as usize + 1);
            positions.count.saturating_sub(taken).min(length)
        });
    let length = architecture.longest.map_or(length, |most| most.min(length));
    let vocabulary = outer.word.rows() as u64;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut id = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        #[allow(clippy::cast_possible_truncation)]
        let id = (((state >> 32) * vocabulary) >> 32) as u32;
        id
    };
    let ids: Vec<u32> = (0..rows * length).map(|_| id()).collect();
    let mut shares = share_out(ids.chunks_exact(length.max(1)));
    let mut all = vec![InputRanges::default(); architecture.weight_sets.len()];
    run_exactly(loader, outer, &mut shares, |set, shares| {
        for share in shares {
            for (into, own) in all[set].iter_mut().zip(std::mem::take(&mut share.ranges)) {
                into.resize(own.len().max(into.len()), 0.0);
                into.iter_mut()
                    .zip(own)
                    .for_each(|(most, value)| *most = most.max(value));
            }
        }
    })?;
    Ok(all)
}
