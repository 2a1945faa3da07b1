//! Bias of attention scores by relative position: from the buckets that a model has learned, or by slopes.

use embedctl_checkpoint::architecture::PositionBias;

/// How far the bias of `heads` heads reaches, to either side.
pub(super) fn reach(bias: &[f32], heads: usize) -> usize {
    bias.len() / heads / 2
}

/// Floats of a bias for rows of up to `longest` tokens: its reach is a power of two, so that it seldom grows.
pub(super) fn floats(heads: usize, longest: usize) -> usize {
    longest
        .next_power_of_two()
        .saturating_mul(2)
        .saturating_add(1)
        .saturating_mul(heads)
}

/// Makes `bias` reach over `longest` tokens, unless it already does: `2 * reach + 1` values for each head, by distance.
/// `table` is `[rows, heads]`, and empty where nothing is learned.
pub(super) fn extend(
    bias: &mut Vec<f32>,
    kind: PositionBias,
    table: &[f32],
    heads: usize,
    longest: usize,
) {
    if !bias.is_empty() && reach(bias, heads) + 1 >= longest {
        return;
    }
    let reach = longest.next_power_of_two();
    bias.clear();
    for head in 0..heads {
        let slope = slope(head, heads);
        for place in 0..=2 * reach {
            let (distance, is_behind) = (place.abs_diff(reach), place > reach);
            bias.push(match kind {
                PositionBias::Buckets {
                    count,
                    reach: farthest,
                    ..
                } => {
                    let half = count / 2;
                    let first = if is_behind { half } else { 0 };
                    table[(first + bucket(distance, half, farthest)) * heads + head]
                }
                #[allow(clippy::cast_precision_loss)]
                PositionBias::Rising if is_behind => slope * distance as f32,
                #[allow(clippy::cast_precision_loss)]
                PositionBias::Slopes | PositionBias::Rising => -slope * distance as f32,
            });
        }
    }
}

/// T5's and MPNet's buckets: near keys have one each, farther ones share buckets that grow with the logarithm of the
/// distance, up to `farthest`; keys behind the query have the second half of the table.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn bucket(distance: usize, half: usize, farthest: usize) -> usize {
    let exact = half / 2;
    if distance < exact {
        return distance;
    }
    let log = (distance as f32 / exact as f32).ln() / (farthest as f64 / exact as f64).ln() as f32;
    let grown = (log * (half - exact) as f32) as usize;
    (exact + grown).min(half - 1)
}

/// `ALiBi`'s slope of a head, as its authors give it for any number of heads.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn slope(head: usize, heads: usize) -> f32 {
    // The greatest power of two, and every other slope of twice as many for the heads beyond it.
    let power = (heads + 1).next_power_of_two() / 2;
    let of = |count: usize, number: usize| {
        let start = 2_f64.powf(-(2_f64.powf(-((count as f64).log2() - 3.0))));
        start * start.powi(i32::try_from(number).unwrap_or(i32::MAX))
    };
    let slope = match head.checked_sub(power) {
        None => of(power, head),
        Some(beyond) => of(2 * power, 2 * beyond),
    };
    slope as f32
}
