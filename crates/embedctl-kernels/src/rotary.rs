//! Rotary position embedding.

use super::isa::{Isa, with_floats};
use super::math::lanes;

/// Turns each head of one token: channels `i` and `i + n` of the first `2 n` channels of every head by the
/// angle whose cosine and sine stand in `cosine[i]` and `sine[i]`, `n` being their length. Channels behind
/// `2 n` stay as they are.
///
/// # Panics
/// `cosine` and `sine` differ in length, a head has fewer than `2 n` channels, or `x` is not whole heads.
pub fn rotary(isa: Isa, x: &mut [f32], head: usize, cosine: &[f32], sine: &[f32]) {
    let half = cosine.len();
    assert!(
        sine.len() == half && 2 * half <= head,
        "half a head's angles"
    );
    assert!(x.len().is_multiple_of(head), "whole heads");
    with_floats!(isa, s => {
        for head in x.chunks_exact_mut(head) {
            let (a, rest) = head.split_at_mut(half);
            let pairs = a.chunks_mut(lanes(s)).zip(rest[..half].chunks_mut(lanes(s)));
            let angles = cosine.chunks(lanes(s)).zip(sine.chunks(lanes(s)));
            for ((a, b), (c, i)) in pairs.zip(angles) {
                let (x, y) = (s.load_part(a, 0.0), s.load_part(b, 0.0));
                let (c, i) = (s.load_part(c, 0.0), s.load_part(i, 0.0));
                s.store_part(a, s.sub(s.mul(x, c), s.mul(y, i)));
                s.store_part(b, s.add(s.mul(y, c), s.mul(x, i)));
            }
        }
    });
}
