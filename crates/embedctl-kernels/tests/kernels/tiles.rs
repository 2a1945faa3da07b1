//! Products by tiles: the same bits as by vectors where numbers are integers.

use super::products::{plain_product, published_widths, tolerance};
use super::*;

/// The instruction sets with tiles: plain code where this build has it, and the processor's where there are any.
fn tile_sets() -> Vec<Isa> {
    let all: Vec<Isa> = (Isa::all_and_emulated()
        .into_iter()
        .filter(|isa| isa.has_tiles()))
    .collect();
    let has_plain = all.iter().any(|isa| isa.name() == "portable-tiles");
    assert_eq!(has_plain, Isa::EMULATES_TILES);
    if all.is_empty() {
        eprintln!("skipped: only builds of the profile `dev` have tiles on this processor");
    }
    all
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Rows of a range that begins and ends anywhere are multiplied as all rows are.
fn assert_bits_of_vectors(
    isa: Isa,
    arithmetic: Arithmetic,
    [outputs, inputs]: [usize; 2],
    rows: usize,
    ranges: impl Iterator<Item = std::ops::Range<usize>>,
) {
    let (weights, bias) = (random(outputs * inputs, 41), random(outputs, 42));
    let mut x = random(rows * inputs, 43);
    // The greatest and the least integers.
    x[0] = 1.0;
    x[inputs - 1] = -1.0;
    let vectors = pack(
        isa.without_tiles(),
        arithmetic,
        outputs,
        inputs,
        &weights,
        &bias,
    );
    let want = bits(&product(&vectors, &x, rows));
    let tiles = pack(isa, arithmetic, outputs, inputs, &weights, &bias);
    let mut operand = Operand::new();
    let converted = operand.convert(&tiles, &x, inputs, rows);
    for range in ranges {
        let mut got = vec![0.0; range.len() * outputs];
        let finish = ProductFinish::Store;
        linear(converted, range.clone(), &tiles, &mut got, outputs, finish);
        assert!(
            bits(&got) == want[range.start * outputs..range.end * outputs],
            "{isa} {arithmetic:?} {outputs}x{inputs}, rows {range:?}"
        );
    }
}

const INTEGERS: [Arithmetic; 2] = [Arithmetic::Int8, Arithmetic::Int16];

#[test]
fn integers_by_tiles_are_the_bits_of_vectors_at_every_rest() {
    for isa in tile_sets() {
        for arithmetic in INTEGERS {
            for inputs in (1..=70).chain([96, 127, 128, 129, 160, 255, 256, 257, 320, 385]) {
                for outputs in [1, 17, 63, 64, 65, 130] {
                    // Plain code takes long.
                    let few = isa.name() == "portable-tiles" && (inputs % 5 > 0 || outputs > 65);
                    let rows = if few { 3 } else { 35 };
                    let ranges = [0..rows, 0..1, 1..rows, rows / 2..rows];
                    assert_bits_of_vectors(
                        isa,
                        arithmetic,
                        [outputs, inputs],
                        rows,
                        ranges.into_iter(),
                    );
                }
            }
        }
    }
}

#[test]
fn integers_by_tiles_are_the_bits_of_vectors_at_every_width_and_number_of_rows() {
    for isa in tile_sets() {
        for (inputs, _) in published_widths() {
            for arithmetic in INTEGERS {
                let is_plain = isa.name() == "portable-tiles";
                let (outputs, rows) = if is_plain { (17, 3) } else { (72, 70) };
                let ranges = (1..=rows).flat_map(|end| [0..end, end - 1..rows]);
                let ranges = ranges.take(if is_plain { 1 } else { usize::MAX });
                assert_bits_of_vectors(isa, arithmetic, [outputs, inputs], rows, ranges);
            }
        }
    }
}

/// Norm of the difference of two rows, of that of the second.
fn apart(got: &[f32], want: &[f32]) -> f64 {
    let squares = |values: &mut dyn Iterator<Item = f64>| -> f64 {
        values.map(|value| (value / 1e30).powi(2)).sum()
    };
    let pairs = got.iter().zip(want);
    let error = squares(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b)));
    let size = squares(&mut want.iter().map(|value| f64::from(*value)));
    (error / size).sqrt()
}

/// Rows with a channel that is louder than the others, and one with the greatest of all numbers, by weights of either kind:
/// bfloat16, and any.
#[test]
fn floats_by_tiles_are_near_those_of_vectors() {
    for isa in tile_sets() {
        for (outputs, inputs) in [
            (17, 3),
            (64, 48),
            (65, 383),
            (70, 2050),
            (40, 64),
            (70, 1152),
        ] {
            let rows = 33;
            let bias = random(outputs, 52);
            let mut x = random(rows * inputs, 53);
            for row in x.chunks_exact_mut(inputs) {
                row[inputs / 3] *= 300.0;
            }
            // By weights that keep the sums finite.
            let last = &mut x[(rows - 1) * inputs..];
            last.fill(0.0);
            last[inputs / 2] = f32::MAX;
            let any = random(outputs * inputs, 54);
            for weights in [&halves(outputs * inputs, 51), &any] {
                let of = |isa, arithmetic| {
                    let matrix = pack(isa, arithmetic, outputs, inputs, weights, &bias);
                    (product(&matrix, &x, rows), matrix)
                };
                let (want, _) = of(isa.without_tiles(), Arithmetic::Fp32);
                for (arithmetic, limit) in [(Arithmetic::Fp32, 3e-6), (Arithmetic::Bf16, 6e-3)] {
                    let (got, matrix) = of(isa, arithmetic);
                    let by_vectors = arithmetic == Arithmetic::Fp32
                        && inputs % 32 > 0
                        && std::ptr::eq(weights, &any);
                    assert_eq!(matrix.isa().has_tiles(), !by_vectors, "{isa} {inputs}");
                    let both = got.chunks_exact(outputs).zip(want.chunks_exact(outputs));
                    for (row, (got, want)) in both.enumerate() {
                        // Too large for a bfloat16.
                        if arithmetic == Arithmetic::Bf16 && row + 1 == rows {
                            continue;
                        }
                        let share = apart(got, want);
                        assert!(
                            share < limit,
                            "{isa} {arithmetic:?} {outputs}x{inputs}, row {row}: {share}"
                        );
                    }
                }
            }
        }
    }
}

/// Numbers from -1 to 1 that are bfloat16.
fn halves(count: usize, seed: u64) -> Vec<f32> {
    let upper = |x: f32| f32::from_bits(x.to_bits() & 0xffff_0000);
    random(count, seed).into_iter().map(upper).collect()
}

/// The numbers that tiles multiply are decided by the weights and their width, not by the rows.
#[test]
fn weights_choose_the_numbers_of_single_precision_on_tiles() {
    let outputs = 70;
    for isa in tile_sets() {
        for (inputs, has_tiles) in [(50, false), (64, true), (48, false), (96, true)] {
            let of = |weights: &[f32]| pack(isa, Arithmetic::Fp32, outputs, inputs, weights, &[]);
            let mut weights = halves(outputs * inputs, 61);
            let by_halves = of(&weights);
            assert!(by_halves.isa().has_tiles() && !by_halves.is_exact());
            *weights.last_mut().unwrap() = 1.0 + f32::EPSILON;
            let matrix = of(&weights);
            assert_eq!(matrix.isa().has_tiles(), has_tiles, "{isa} {inputs}");
            assert_eq!(matrix.is_exact(), !has_tiles, "{isa} {inputs}");
            if has_tiles {
                let bytes = |matrix: &Matrix| matrix.parts().next().unwrap().len();
                let planes = [inputs.div_ceil(32), 3 * inputs.div_ceil(64)];
                let shares = [&by_halves, &matrix].map(bytes);
                assert_eq!(shares[0] * planes[1], shares[1] * planes[0], "{inputs}");
                continue;
            }
            let x = random(3 * inputs, 62);
            let vectors = isa.without_tiles();
            let other = pack(vectors, Arithmetic::Fp32, outputs, inputs, &weights, &[]);
            assert_eq!(
                bits(&product(&matrix, &x, 3)),
                bits(&product(&other, &x, 3))
            );
        }
    }
}

#[test]
fn single_precision_by_tiles_is_as_exact_as_by_vectors_and_a_row_is_the_same_bits_in_any_company() {
    for isa in tile_sets() {
        let by_halves = [(1, 1), (17, 3), (64, 32), (65, 383), (130, 514), (70, 2050)];
        let by_bytes = [
            (1, 32),
            (17, 64),
            (64, 96),
            (65, 384),
            (130, 544),
            (70, 2048),
        ];
        let cases = by_halves.map(|size| (size, true)).into_iter();
        for ((outputs, inputs), halved) in cases.chain(by_bytes.map(|size| (size, false))) {
            let rows = if isa.name() == "portable-tiles" {
                19
            } else {
                70
            };
            let weights = match halved {
                true => halves(outputs * inputs, 71),
                false => random(outputs * inputs, 71),
            };
            let bias = random(outputs, 72);
            let x = random(rows * inputs, 73);
            let matrix = pack(isa, Arithmetic::Fp32, outputs, inputs, &weights, &bias);
            assert!(matrix.isa().has_tiles());
            let got = product(&matrix, &x, rows);
            let want = plain_product(&x, &weights, &bias, inputs);
            for (place, (got, want)) in got.iter().zip(&want).enumerate() {
                let error = (f64::from(*got) - want).abs();
                let limit = tolerance(Arithmetic::Fp32, inputs);
                assert!(error <= limit, "{isa} {outputs}x{inputs}, {place}: {error}");
            }
            for row in 0..rows {
                let alone = product(&matrix, &x[row * inputs..][..inputs], 1);
                let same = bits(&alone) == bits(&got[row * outputs..][..outputs]);
                assert!(same, "{isa} {outputs}x{inputs}, row {row}");
            }
        }
    }
}

#[test]
fn what_is_not_a_number_stays_so_in_single_precision_by_tiles() {
    let outputs = 20;
    for isa in tile_sets() {
        for (inputs, halved) in [(37, true), (64, false), (96, false)] {
            let mut weights = match halved {
                true => halves(outputs * inputs, 81),
                false => random(outputs * inputs, 81),
            };
            let matrix = pack(isa, Arithmetic::Fp32, outputs, inputs, &weights, &[]);
            assert!(matrix.isa().has_tiles());
            for place in [0, 15, 20, 36] {
                // The last one's bits would overflow if they were rounded.
                let nan = f32::from_bits(0x7fff_ffff);
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, nan] {
                    let mut x = random(3 * inputs, 82);
                    x[inputs + place] = bad;
                    let y = product(&matrix, &x, 3);
                    let finite: Vec<bool> = y.iter().map(|y| y.is_finite()).collect();
                    let want = (0..3 * outputs).map(|at| at / outputs != 1);
                    assert!(finite.into_iter().eq(want), "{isa} {bad} at {place}");
                }
            }
            weights[inputs * 3 + 5] = f32::NAN;
            let matrix = pack(isa, Arithmetic::Fp32, outputs, inputs, &weights, &[]);
            assert!(matrix.isa().has_tiles());
            let y = product(&matrix, &random(inputs, 83), 1);
            let nans: Vec<_> = (0..outputs).filter(|o| y[*o].is_nan()).collect();
            assert_eq!(nans, [3], "{isa} {inputs}");
        }
    }
}
