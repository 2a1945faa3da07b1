//! Activations, norms and rotary positions.

use super::*;

#[test]
fn activations_are_exact_within_single_precision() {
    let mut x: Vec<f32> = (-12_000..12_000).map(|i| i as f32 / 1000.0).collect();
    x.extend([
        0.0, -0.0, 1e-40, -1e-40, 1e-20, 88.0, -88.0, 1e10, -1e10, 1e30, -1e30,
    ]);
    for isa in Isa::all_and_emulated() {
        for activation in ACTIVATIONS {
            let mut got = x.clone();
            activate_all(activation, isa, &mut got);
            for (x, got) in x.iter().zip(got) {
                let want = plain_activation(activation, f64::from(*x));
                let error = (f64::from(got) - want).abs();
                let limit = match activation {
                    Activation::Tanh => 3e-7 * want.abs(),
                    _ => 2.5e-7 * f64::from(x.abs()).min(8.0).max(want.abs()),
                };
                assert!(
                    error <= limit + 1e-37,
                    "{isa} {activation:?}({x}) = {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn norms_and_rotary_agree_with_plain_code() {
    for isa in Isa::all_and_emulated() {
        for width in [1, 3, 8, 16, 17, 64, 65, 100, 384] {
            let (x, weight, bias) = (random(3 * width, 21), random(width, 22), random(width, 23));
            for layer in [true, false] {
                let norm = match layer {
                    true => Norm::layer(weight.clone(), bias.clone(), 1e-5),
                    false => Norm::rms(weight.clone(), 1e-5),
                };
                let (mut same, mut other) = (x.clone(), vec![0.0; x.len()]);
                norm.apply(isa, &mut same);
                norm.apply_to(isa, &x, &mut other);
                assert_eq!(same, other);
                for (row, got) in x.chunks_exact(width).zip(same.chunks_exact(width)) {
                    let mean = |f: &dyn Fn(f64) -> f64| {
                        row.iter().map(|x| f(f64::from(*x))).sum::<f64>() / width as f64
                    };
                    let center = if layer { mean(&|x| x) } else { 0.0 };
                    let root = (mean(&|x| (x - center).powi(2)) + 1e-5).sqrt();
                    for i in 0..width {
                        let shift = if layer { f64::from(bias[i]) } else { 0.0 };
                        let want =
                            (f64::from(row[i]) - center) / root * f64::from(weight[i]) + shift;
                        assert!(
                            (f64::from(got[i]) - want).abs() < 3e-6,
                            "{isa} {width}: {} for {want}",
                            got[i]
                        );
                    }
                }
            }
        }
        for (head, half) in [(8, 4), (20, 7), (64, 32), (40, 16)] {
            let x = random(3 * head, 24);
            let angles = random(half, 25);
            let (cosine, sine): (Vec<f32>, Vec<f32>) =
                angles.iter().map(|a| (a.cos(), a.sin())).unzip();
            let mut got = x.clone();
            rotary(isa, &mut got, head, &cosine, &sine);
            for (x, got) in x.chunks_exact(head).zip(got.chunks_exact(head)) {
                for (i, got) in got.iter().enumerate() {
                    let want = match i {
                        i if i < half => x[i] * cosine[i] - x[i + half] * sine[i],
                        i if i < 2 * half => x[i] * cosine[i - half] + x[i - half] * sine[i - half],
                        i => x[i],
                    };
                    assert!(
                        (got - want).abs() < 1e-6,
                        "{isa} {head} {half}: {got} for {want}"
                    );
                }
            }
        }
    }
}
