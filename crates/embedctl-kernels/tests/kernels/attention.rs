//! Attention.

use super::*;
use embedctl_testing::stride;

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
        softcap,
        sight,
    } = case.shape;
    let mut out = vec![0.0; case.len * heads * width];
    for head in 0..heads {
        let kv = head / (heads / kv_heads);
        for i in 0..case.len {
            let query = &q[(i * heads + head) * width..][..width];
            let sees = |j: usize| {
                j + sight.before.min(case.len) >= i
                    && j <= i.saturating_add(sight.after)
                    && j < sight.keys
            };
            let weight = |j: usize| {
                let key = &k[(j * kv_heads + kv) * width..][..width];
                let mut score: f64 = query
                    .iter()
                    .zip(key)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum();
                score *= f64::from(scale);
                if let Some(cap) = softcap.map(f64::from) {
                    score = cap * (score / cap).tanh();
                }
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

/// Attention of all queries, in about `parts` parts.
fn attend_in_parts(
    isa: Isa,
    arithmetic: Arithmetic,
    case: &Case,
    (q, k, v): (&[f32], &[f32], &[f32]),
    bias: &[f32],
    parts: usize,
) -> Vec<f32> {
    let Attention {
        heads,
        kv_heads,
        head_width: width,
        ..
    } = case.shape;
    let mut out = vec![0.0; case.len * heads * width];
    let input = |data, heads| HeadsInput {
        data,
        stride: heads * width,
    };
    let inputs = (input(q, heads), input(k, kv_heads), input(v, kv_heads));
    let bias = case.reach.map(|reach| ScoreBias::by_distance(bias, reach));
    let mut scratch = AttentionScratch::default();
    let (mut rest, mut next) = (&mut out[..], 0);
    for part in Attention::parts(isa, arithmetic, case.len, parts) {
        assert_eq!(std::mem::replace(&mut next, part.end), part.start);
        let (own, others) = rest.split_at_mut(part.len() * heads * width);
        rest = others;
        case.shape.run(
            isa,
            arithmetic,
            &mut scratch,
            inputs,
            case.len,
            part,
            bias,
            own,
            heads * width,
        );
    }
    assert_eq!(next, case.len);
    out
}

fn attend(
    isa: Isa,
    arithmetic: Arithmetic,
    case: &Case,
    inputs: (&[f32], &[f32], &[f32]),
    bias: &[f32],
) -> Vec<f32> {
    attend_in_parts(isa, arithmetic, case, inputs, bias, 1)
}

fn attention_cases() -> Vec<Case> {
    let shape = |heads, kv_heads, head_width| Attention {
        heads,
        kv_heads,
        head_width,
        scale: 1.5 / (head_width as f32).sqrt(),
        softcap: None,
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
                    keys: usize::MAX,
                },
                ..shape(4, 2, 16)
            },
            len,
            reach: None,
        });
        // The first tokens alone are seen, by all.
        for keys in [1, 2, 7, 8, 9, 15, 17, 31, 33] {
            cases.push(Case {
                shape: Attention {
                    sight: Sight { keys, ..Sight::ALL },
                    ..shape(2, 1, 24)
                },
                len,
                reach: None,
            });
        }
        let sight = Sight {
            before: 5,
            after: 9,
            keys: usize::MAX,
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
            keys: usize::MAX,
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
    for (len, cap, reach) in [
        (1, 2.0, None),
        (33, 0.5, Some(40)),
        (97, 5.0, None),
        (600, 50.0, Some(599)),
    ] {
        cases.push(Case {
            shape: Attention {
                softcap: Some(cap),
                ..shape(2, 1, 24)
            },
            len,
            reach,
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
                keys: usize::MAX,
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
    for case in attention_cases().into_iter().step_by(stride(3)) {
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
        for isa in Isa::all_and_emulated() {
            for (arithmetic, limit) in [
                (Arithmetic::Fp32, 2e-6),
                (Arithmetic::Bf16, 2e-2),
                (Arithmetic::Int16, 2e-3),
            ] {
                let got = attend(isa, arithmetic, &case, (&q, &k, &v), &bias);
                for parts in [2, 3, 7, case.len] {
                    let inputs = (&q[..], &k[..], &v[..]);
                    let same = attend_in_parts(isa, arithmetic, &case, inputs, &bias, parts);
                    assert!(
                        got == same,
                        "{isa} {arithmetic:?}, {parts} parts of {}",
                        case.len
                    );
                }
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
        softcap: None,
        sight: Sight::ALL,
    };
    for (arithmetic, len) in [(Arithmetic::Fp32, 21), (Arithmetic::Int16, 69)] {
        let case = Case {
            shape,
            len,
            reach: None,
        };
        let size = case.len * 16;
        for isa in Isa::all_and_emulated() {
            for which in 0..3 {
                let mut inputs = [random(size, 26), random(size, 27), random(size, 28)];
                // Token 20's second head: beyond a full vector of keys.
                inputs[which][20 * 16 + 9] = f32::NAN;
                let [q, k, v] = &inputs;
                let out = attend(isa, arithmetic, &case, (q, k, v), &[]);
                for (place, value) in out.iter().enumerate() {
                    let (token, head) = (place / 16, place % 16 / 8);
                    // In 16 bits a head's numbers share their step.
                    let shared = which > 0 || arithmetic == Arithmetic::Int16;
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

/// How far two results lie apart, as a share of the second; and the least cosine of a token's.
fn apart(got: &[f32], want: &[f64], width: usize) -> (f64, f64) {
    let (mut error, mut norm, mut least) = (0.0, 0.0, 1.0_f64);
    for (got, want) in got.chunks_exact(width).zip(want.chunks_exact(width)) {
        let [mut ab, mut aa, mut bb] = [0.0; 3];
        for (a, b) in got.iter().map(|a| f64::from(*a)).zip(want) {
            (ab, aa, bb) = (ab + a * b, aa + a * a, bb + b * b);
            error += (a - b).powi(2);
        }
        norm += bb;
        least = least.min(ab / (aa * bb).sqrt());
    }
    ((error / norm).sqrt(), least)
}

/// The first key stands above the crowd by `sink` powers of e for every query, and its value is hardly anything: all
/// of the text is in the others.
#[test]
fn an_attention_sink_takes_nothing_from_the_others() {
    let (width, mut tried) = (16, 0);
    for len in [64, 500, 512, 513, 1024, 2048, 4096, 8192] {
        // Time grows with the square of the length.
        let strengths = match len {
            ..=1024 => &[0.0, 4.0, 8.0, 11.0, 16.0, 30.0][..],
            _ => &[8.0, 11.0, 16.0],
        };
        // Some of the queries: double precision takes its time.
        let some = 24.min(len);
        for sinks in [&[0][..], &[0, 1], &[len / 2], &[0, len - 1, len / 3]] {
            for &strength in strengths {
                for causal in [false, true] {
                    if len > 2048 && (causal || sinks.len() == 2) {
                        continue;
                    }
                    tried += 1;
                    if tried % stride(3) != 0 {
                        continue;
                    }
                    // Emulated, each of these takes half a minute.
                    let is_arm = cfg!(target_arch = "aarch64");
                    if is_arm && len > 2048 && (sinks != [0] || strength != 11.0) {
                        continue;
                    }
                    let shape = Attention {
                        heads: 1,
                        kv_heads: 1,
                        head_width: width,
                        scale: 1.0,
                        softcap: None,
                        sight: Sight {
                            before: usize::MAX,
                            after: if causal { 0 } else { usize::MAX },
                            keys: usize::MAX,
                        },
                    };
                    let mut q: Vec<f32> = random(len * width, 70).iter().map(|x| x * 0.5).collect();
                    let mut k = random(len * width, 71);
                    let mut v: Vec<f32> = random(len * width, 72).iter().map(|x| x + 0.5).collect();
                    q.iter_mut().step_by(width).for_each(|x| *x = 1.0);
                    k.iter_mut().step_by(width).for_each(|x| *x = 0.0);
                    for &sink in sinks {
                        k[sink * width..][..width].fill(0.0);
                        k[sink * width] = strength;
                        v[sink * width..][..width]
                            .iter_mut()
                            .for_each(|x| *x *= 0.01);
                    }
                    // Causal ones see some other keys, too.
                    let first = if causal { len / 4 } else { 0 };
                    let queries: Vec<usize> = (0..some)
                        .map(|i| first + (i + 1) * (len - first) / some - 1)
                        .collect();
                    let want = plain_rows(&queries, causal, (&q, &k, &v), width);
                    let case = Case {
                        shape,
                        len,
                        reach: None,
                    };
                    for isa in Isa::all_and_emulated() {
                        let is_usual = [8.0, 11.0, 16.0].contains(&strength) && sinks[0] == 0;
                        if isa.name().starts_with("portable")
                            && (len > 513 || len > 64 && !is_usual)
                        {
                            continue; // it takes long, and shares all but single instructions
                        }
                        if is_arm && len > 1024 && isa.name() != "neon" {
                            continue; // attention has the same instructions on all of them
                        }
                        let all = attend(isa, Arithmetic::Int16, &case, (&q, &k, &v), &[]);
                        let got: Vec<f32> = queries
                            .iter()
                            .flat_map(|query| all[query * width..][..width].iter().copied())
                            .collect();
                        let (error, cosine) = apart(&got, &want, width);
                        assert!(
                            error < 5e-3 && cosine > 0.9999,
                            "{isa}, {len} tokens, {sinks:?} above by {strength}, causal {causal}: {error} {cosine}"
                        );
                    }
                }
            }
        }
    }
}

/// Attention of these queries of one head in double precision.
fn plain_rows(
    queries: &[usize],
    causal: bool,
    (q, k, v): (&[f32], &[f32], &[f32]),
    width: usize,
) -> Vec<f64> {
    let mut out = Vec::new();
    for &query in queries {
        let seen = if causal { query + 1 } else { k.len() / width };
        let score = |key: usize| -> f64 {
            let pairs = q[query * width..][..width].iter().zip(&k[key * width..]);
            pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let weights: Vec<f64> = (0..seen).map(|key| score(key).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut row = vec![0.0; width];
        for (weight, value) in weights.iter().zip(v.chunks_exact(width)) {
            for (sum, value) in row.iter_mut().zip(value) {
                *sum += weight / total * f64::from(*value);
            }
        }
        out.extend(row);
    }
    out
}
