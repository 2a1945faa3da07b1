//! Bias of attention scores by relative position, from the buckets that a model has learned.

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
///
/// MPNet's buckets: near keys have one each, farther ones share buckets that grow with the logarithm of the
/// distance, up to 128; keys behind the query have the second half. `table` is `[buckets, heads]`.
pub(super) fn extend(bias: &mut Vec<f32>, table: &[f32], heads: usize, longest: usize) {
    const HALF: usize = 16;
    const EXACT: usize = HALF / 2;
    if !bias.is_empty() && reach(bias, heads) + 1 >= longest {
        return;
    }
    let reach = longest.next_power_of_two();
    let bucket = |distance: usize| {
        if distance < EXACT {
            return distance;
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let grown = {
            let log =
                (distance as f32 / EXACT as f32).ln() / (128.0_f64 / EXACT as f64).ln() as f32;
            (log * (HALF - EXACT) as f32) as usize
        };
        (EXACT + grown).min(HALF - 1)
    };
    bias.clear();
    for head in 0..heads {
        for place in 0..=2 * reach {
            let bucket = if place > reach {
                HALF + bucket(place - reach)
            } else {
                bucket(reach - place)
            };
            bias.push(table[bucket * heads + head]);
        }
    }
}
