//! The change to a row before it is rounded to 8 bits, and its inverse in the weights: products stay the same, and
//! rounding errors shrink.
//!
//! - *Balancing* (SmoothQuant, exponent 1/2): channels with large activations are divided by a factor that the
//!   weights are multiplied with, so that neither side has all of the outliers.
//! - *Rotation*: an orthogonal mix of channels, which spreads an outlier over many of them and so narrows the
//!   row's range. Channels are taken in groups of sixteen (or the largest power of two below it that divides
//!   the width), groups are mixed by Hadamard butterflies within blocks of the largest power of two that
//!   divides their number, and blocks by a reflection. A vector's lanes never move, so that it costs additions
//!   alone; all instruction sets share one mix.

use super::lines::CacheLines;
use super::rounding::IntegerStep;
use super::simd::{MOST_LANES, Simd};

/// A change of the row's channels.
#[derive(Debug, Clone)]
pub(super) struct Preparation {
    /// Each channel's factor; 1 where nothing is balanced.
    factors: CacheLines,
    group: usize,
    /// Groups of a block, a power of two; and the number of blocks, odd.
    block: usize,
    blocks: usize,
}

impl Preparation {
    /// For rows of `width` channels. `activations` and `weights` are the greatest magnitudes of each channel;
    /// without the former nothing is balanced.
    pub(super) fn new(width: usize, activations: Option<&[f32]>, weights: &[f32]) -> Self {
        let factor =
            |(a, w): (&f32, &f32)| 1.0 / (a.max(1e-4) / w.max(1e-5)).sqrt().clamp(1e-4, 1e4);
        let mut factors = CacheLines::zeroed(width);
        factors.floats_mut().fill(1.0);
        if let Some(activations) = activations {
            let both = activations.iter().zip(weights);
            for (to, factor) in factors.floats_mut().iter_mut().zip(both.map(factor)) {
                *to = factor;
            }
        }
        let group = 1 << width.trailing_zeros().min(4);
        let groups = width / group;
        let block = 1 << groups.trailing_zeros();
        Self {
            factors,
            group,
            block,
            blocks: groups / block,
        }
    }

    /// Whether a rotation of rows of `width` channels mixes each with many others: with a block's, at least 32.
    pub(super) fn spreads(width: usize) -> bool {
        width.is_multiple_of(2 * MOST_LANES)
    }

    /// Each channel's factor, filled up to a whole cache line.
    pub(super) fn factors(&self) -> &CacheLines {
        &self.factors
    }

    /// The same, to be filled.
    pub(super) fn factors_mut(&mut self) -> &mut CacheLines {
        &mut self.factors
    }

    /// The row as products take it, and the range of its values.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(&self, s: S, x: &[f32], out: &mut [f32]) -> Range<S> {
        // The first butterflies take the row as it comes in.
        if self.group == MOST_LANES && self.block >= 8 {
            eights(s, Some((x, self.factors.floats())), out, 1);
            return self.mix(s, out, 8);
        }
        for ((out, x), factor) in out.iter_mut().zip(x).zip(self.factors.floats()) {
            *out = x * factor;
        }
        self.mix(s, out, 1)
    }

    /// The inverse, on a row of weights.
    #[inline(always)]
    pub(super) fn apply_to_weights<S: Simd>(&self, s: S, weights: &mut [f32]) {
        for (w, factor) in weights.iter_mut().zip(self.factors.floats()) {
            *w /= factor;
        }
        self.mix(s, weights, 1);
        // The butterflies lengthen a row by the root of the block's size, on either side.
        let gain = 1.0 / self.block as f32;
        for w in weights {
            *w *= gain;
        }
    }

    /// Butterflies from distances of `half` groups on, and reflection, in place. Three butterflies at a time stay in
    /// registers; the rest share a pass with the reflection.
    #[inline(always)]
    fn mix<S: Simd>(&self, s: S, x: &mut [f32], mut half: usize) -> Range<S> {
        if self.group < MOST_LANES {
            self.mix_plainly(x);
            return Range::of(s, x);
        }
        while half * 8 <= self.block {
            eights(s, None, x, half);
            half *= 8;
        }
        // One and three blocks, which most widths have, stay in registers.
        match (self.block / half, self.blocks) {
            (1, 1) => Range::of(s, x),
            (2, 1) => rest::<S, 2, 1>(s, x, half),
            (4, 1) => rest::<S, 4, 1>(s, x, half),
            (1, 3) => rest::<S, 1, 3>(s, x, half),
            (2, 3) => rest::<S, 2, 3>(s, x, half),
            (4, 3) => rest::<S, 4, 3>(s, x, half),
            (1, _) => rest_of_many::<S, 1>(s, x, half),
            (2, _) => rest_of_many::<S, 2>(s, x, half),
            _ => rest_of_many::<S, 4>(s, x, half),
        }
    }

    /// The same mix for groups that are smaller than a vector.
    fn mix_plainly(&self, x: &mut [f32]) {
        let size = self.block * self.group;
        for block in x.chunks_exact_mut(size) {
            let mut half = self.group;
            while half < size {
                for pair in block.chunks_exact_mut(2 * half) {
                    let (a, b) = pair.split_at_mut(half);
                    for (a, b) in a.iter_mut().zip(b) {
                        (*a, *b) = (*a + *b, *a - *b);
                    }
                }
                half *= 2;
            }
        }
        self.reflect(x);
    }

    /// The reflection across blocks: from every value, twice the mean of those at its place in each block.
    fn reflect(&self, x: &mut [f32]) {
        let size = self.block * self.group;
        let share = 2.0 / self.blocks as f32;
        for i in 0..if self.blocks > 1 { size } else { 0 } {
            let sum: f32 = x[i..].iter().step_by(size).sum();
            x[i..]
                .iter_mut()
                .step_by(size)
                .for_each(|x| *x -= share * sum);
        }
    }
}

/// Butterflies over distances `half`, `2 half` and `4 half` groups of `x`, or of the product of two rows.
#[inline(always)]
fn eights<S: Simd>(s: S, of: Option<(&[f32], &[f32])>, x: &mut [f32], half: usize) {
    let distance = half * MOST_LANES;
    for (block, x) in x.chunks_exact_mut(8 * distance).enumerate() {
        let of = of.map(|(a, b)| {
            let block = block * 8 * distance..(block + 1) * 8 * distance;
            (&a[block.clone()], &b[block])
        });
        for at in (0..distance).step_by(S::LANES) {
            let mut v = [s.splat(0.0); 8];
            for (j, v) in v.iter_mut().enumerate() {
                let at = at + j * distance;
                *v = match of {
                    Some((a, b)) => s.mul(s.load(&a[at..]), s.load(&b[at..])),
                    None => s.load(&x[at..]),
                };
            }
            butterflies(s, &mut v);
            for j in 0..8 {
                s.store(&mut x[at + j * distance..], v[j]);
            }
        }
    }
}

/// The butterflies that are left, over distances from `half` groups on, `N` groups of each block, and the
/// reflection across the row's `BLOCKS` blocks.
#[inline(always)]
fn rest<S: Simd, const N: usize, const BLOCKS: usize>(
    s: S,
    x: &mut [f32],
    half: usize,
) -> Range<S> {
    let distance = half * MOST_LANES;
    let size = N * distance;
    let mut range = Range::new(s, x[0]);
    let share = s.splat(2.0 / BLOCKS as f32);
    for at in (0..distance).step_by(S::LANES) {
        let mut v = [[s.splat(0.0); N]; BLOCKS];
        for (b, v) in v.iter_mut().enumerate() {
            for j in 0..N {
                v[j] = s.load(&x[b * size + j * distance + at..]);
            }
            butterflies(s, v);
        }
        if BLOCKS > 1 {
            for j in 0..N {
                let mut sum = v[0][j];
                for v in &v[1..] {
                    sum = s.add(sum, v[j]);
                }
                sum = s.mul(sum, share);
                for v in &mut v {
                    v[j] = s.sub(v[j], sum);
                }
            }
        }
        for b in 0..BLOCKS {
            for j in 0..N {
                range.add(s, (b + j) % 2, v[b][j]);
                // Every value has gone into all those of its lane: a group tells of them all.
                if b == 0 && j == 0 && at < MOST_LANES {
                    range.see(s, 0, v[b][j]);
                }
                s.store(&mut x[b * size + j * distance + at..], v[b][j]);
            }
        }
    }
    range
}

/// The same for rows of any number of blocks. The groups at one place of every block are gone over twice, for their
/// sum and to subtract it: they stay in the first level of cache.
#[inline(always)]
fn rest_of_many<S: Simd, const N: usize>(s: S, x: &mut [f32], half: usize) -> Range<S> {
    let distance = half * MOST_LANES;
    let size = N * distance;
    let mut range = Range::new(s, x[0]);
    let share = s.splat(2.0 / (x.len() / size) as f32);
    for at in (0..distance).step_by(S::LANES) {
        let mut sums = [s.splat(0.0); N];
        for block in x.chunks_exact_mut(size) {
            let mut v = [s.splat(0.0); N];
            for j in 0..N {
                v[j] = s.load(&block[j * distance + at..]);
            }
            butterflies(s, &mut v);
            for j in 0..N {
                sums[j] = s.add(sums[j], v[j]);
                s.store(&mut block[j * distance + at..], v[j]);
            }
        }
        // Every value has gone into the sums of its lane: those of the first group tell of them all.
        if at < MOST_LANES {
            range.see(s, 0, sums[0]);
        }
        for sum in &mut sums {
            *sum = s.mul(*sum, share);
        }
        for (b, block) in x.chunks_exact_mut(size).enumerate() {
            for (j, &sum) in sums.iter().enumerate() {
                let at = j * distance + at;
                let v = s.sub(s.load(&block[at..]), sum);
                range.add(s, (b + j) % 2, v);
                s.store(&mut block[at..], v);
            }
        }
    }
    range
}

#[inline(always)]
fn butterflies<S: Simd, const N: usize>(s: S, v: &mut [S::F; N]) {
    let mut half = 1;
    while half < N {
        for j in 0..N {
            if j & half == 0 {
                (v[j], v[j | half]) = (s.add(v[j], v[j | half]), s.sub(v[j], v[j | half]));
            }
        }
        half *= 2;
    }
}

/// Least and greatest value, and whether one is NaN or infinite: comparisons may lose a NaN.
pub(super) struct Range<S: Simd> {
    low: [S::F; 2],
    high: [S::F; 2],
    /// 0 for each finite value.
    nan: [S::F; 2],
}

impl<S: Simd> Range<S> {
    /// Of rows that hold `any` value.
    #[inline(always)]
    pub(super) fn new(s: S, any: f32) -> Self {
        let any = s.splat(any);
        Self {
            low: [any; 2],
            high: [any; 2],
            nan: [s.splat(0.0); 2],
        }
    }

    #[inline(always)]
    fn add(&mut self, s: S, i: usize, v: S::F) {
        self.low[i] = s.min(self.low[i], v);
        self.high[i] = s.max(self.high[i], v);
    }

    /// Tells whether one is NaN or infinite.
    #[inline(always)]
    fn see(&mut self, s: S, i: usize, v: S::F) {
        self.nan[i] = s.fma(v, s.splat(0.0), self.nan[i]);
    }

    /// Of the values of a row.
    #[inline(always)]
    pub(super) fn of(s: S, x: &[f32]) -> Self {
        let mut range = Self::new(s, x[0]);
        for (i, part) in x.chunks(S::LANES).enumerate() {
            let v = s.load_part(part, x[0]);
            range.add(s, i % 2, v);
            range.see(s, i % 2, v);
        }
        range
    }

    /// The step by which the greatest magnitude becomes `most`.
    #[inline(always)]
    pub(super) fn step(&self, s: S, most: f32) -> IntegerStep {
        let (low, high, nan) = self.ends(s);
        IntegerStep::reaching(high.max(-low) + nan, most)
    }

    /// Least and greatest value, and 0, or NaN if a value is NaN or infinite.
    #[inline(always)]
    pub(super) fn ends(&self, s: S) -> (f32, f32, f32) {
        (
            s.least(s.min(self.low[0], self.low[1])),
            s.greatest(s.max(self.high[0], self.high[1])),
            s.sum(s.add(self.nan[0], self.nan[1])),
        )
    }
}
