//! Attention.

use super::*;

struct Case {
    shape: Attention,
    len: usize,
    reach: Option<usize>,
}

/// Attention in double precision.
fn plain_attention(case: &Case, q: &[f32], k: &[f32], v: &[f32], bias: &[f32]) -> Vec<f64> {
    let Attention {
        heads,
        kv_heads,
        head_width: width,
        scale,
        sight,
    } = case.shape;
    let mut out = vec![0.0; case.len * heads * width];
    for head in 0..heads {
        let kv = head / (heads / kv_heads);
        for i in 0..case.len {
            let query = &q[(i * heads + head) * width..][..width];
            let sees = |j: usize| {
                j + sight.before.min(case.len) >= i && j <= i.saturating_add(sight.after)
            };
            let weight = |j: usize| {
                let key = &k[(j * kv_heads + kv) * width..][..width];
                let mut score: f64 = query
                    .iter()
                    .zip(key)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum();
                score *= f64::from(scale);
                if let Some(reach) = case.reach {
                    score += f64::from(bias[head * (2 * reach + 1) + j + reach - i]);
                }
                score.exp()
            };
            let weights: Vec<f64> = (0..case.len)
                .map(|j| if sees(j) { weight(j) } else { 0.0 })
                .collect();
            let total: f64 = weights.iter().sum();
            for (j, weight) in weights.iter().enumerate() {
                for d in 0..width {
                    let value = f64::from(v[(j * kv_heads + kv) * width + d]);
                    out[(i * heads + head) * width + d] += weight / total * value;
                }
            }
        }
    }
    out
}

fn attend(
    isa: Isa,
    arithmetic: Arithmetic,
    case: &Case,
    (q, k, v): (&[f32], &[f32], &[f32]),
    bias: &[f32],
) -> Vec<f32> {
    let Attention {
        heads,
        kv_heads,
        head_width: width,
        ..
    } = case.shape;
    let mut out = vec![0.0; case.len * heads * width];
    let input = |data, heads| Input {
        data,
        stride: heads * width,
    };
    let inputs = (input(q, heads), input(k, kv_heads), input(v, kv_heads));
    let bias = case.reach.map(|reach| RelativeBias { table: bias, reach });
    let mut scratch = AttentionScratch::default();
    case.shape.run(
        isa,
        arithmetic,
        &mut scratch,
        inputs,
        case.len,
        bias,
        &mut out,
        heads * width,
    );
    out
}

fn attention_cases() -> Vec<Case> {
    let shape = |heads, kv_heads, head_width| Attention {
        heads,
        kv_heads,
        head_width,
        scale: 1.5 / (head_width as f32).sqrt(),
        sight: Sight::ALL,
    };
    let mut cases = Vec::new();
    // The edges of vectors and panels.
    for len in [
        1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 49, 63, 64, 65, 71, 79, 80, 81, 96, 97,
    ] {
        cases.push(Case {
            shape: shape(2, 2, 32),
            len,
            reach: None,
        });
        cases.push(Case {
            shape: Attention {
                sight: Sight {
                    before: usize::MAX,
                    after: 0,
                },
                ..shape(4, 2, 16)
            },
            len,
            reach: None,
        });
        let sight = Sight {
            before: 5,
            after: 9,
        };
        cases.push(Case {
            shape: Attention {
                sight,
                ..shape(1, 1, 20)
            },
            len,
            reach: Some(len + 3),
        });
        let sight = Sight {
            before: 30,
            after: 0,
        };
        cases.push(Case {
            shape: Attention {
                sight,
                ..shape(3, 1, 7)
            },
            len,
            reach: None,
        });
    }
    cases.push(Case {
        shape: shape(1, 1, 64),
        len: 600,
        reach: Some(599),
    });
    cases.push(Case {
        shape: Attention {
            sight: Sight {
                before: 40,
                after: 40,
            },
            ..shape(1, 1, 80)
        },
        len: 1100,
        reach: None,
    });
    cases
}

#[test]
fn attention_agrees_with_plain_code() {
    for case in attention_cases() {
        let Attention {
            heads,
            kv_heads,
            head_width: width,
            ..
        } = case.shape;
        let q: Vec<f32> = random(case.len * heads * width, 10)
            .iter()
            .map(|x| x * 3.0)
            .collect();
        let (k, v) = (
            random(case.len * kv_heads * width, 11),
            random(case.len * kv_heads * width, 12),
        );
        let bias = case
            .reach
            .map(|reach| random(heads * (2 * reach + 1), 13))
            .unwrap_or_default();
        let want = plain_attention(&case, &q, &k, &v, &bias);
        for isa in Isa::all() {
            for (arithmetic, limit) in [(Arithmetic::F32, 2e-6), (Arithmetic::I16, 2e-3)] {
                let got = attend(isa, arithmetic, &case, (&q, &k, &v), &bias);
                let worst = got
                    .iter()
                    .zip(&want)
                    .map(|(a, b)| (f64::from(*a) - b).abs())
                    .max_by(f64::total_cmp)
                    .unwrap();
                assert!(
                    worst < limit,
                    "{isa} {arithmetic:?} {:?} of {}: {worst}",
                    case.shape,
                    case.len
                );
            }
        }
    }
}

#[test]
fn attention_lets_nothing_that_is_not_a_number_vanish() {
    let shape = Attention {
        heads: 2,
        kv_heads: 2,
        head_width: 8,
        scale: 0.3,
        sight: Sight::ALL,
    };
    for (arithmetic, len) in [(Arithmetic::F32, 21), (Arithmetic::I16, 69)] {
        let case = Case {
            shape,
            len,
            reach: None,
        };
        let size = case.len * 16;
        for isa in Isa::all() {
            for which in 0..3 {
                let mut inputs = [random(size, 26), random(size, 27), random(size, 28)];
                // Token 20's second head: beyond a full vector of keys.
                inputs[which][20 * 16 + 9] = f32::NAN;
                let [q, k, v] = &inputs;
                let out = attend(isa, arithmetic, &case, (q, k, v), &[]);
                for (place, value) in out.iter().enumerate() {
                    let (token, head) = (place / 16, place % 16 / 8);
                    // In 16 bits a head's numbers share their step.
                    let shared = which > 0 || arithmetic == Arithmetic::I16;
                    let reached = head == 1 && (shared || token == 20);
                    assert!(
                        value.is_nan() || !reached || (which == 2 && place % 8 != 1),
                        "{isa} {arithmetic:?} {which} {place}"
                    );
                    assert!(
                        !value.is_nan() || reached,
                        "{isa} {arithmetic:?} {which} {place}: from nowhere"
                    );
                }
            }
        }
    }
}
