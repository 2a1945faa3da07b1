//! Matrix products and their finishing operations.

use super::*;

pub(super) fn plain_product(x: &[f32], weights: &[f32], bias: &[f32], inputs: usize) -> Vec<f64> {
    let dot = |x: &[f32], w: &[f32]| -> f64 {
        x.iter()
            .zip(w)
            .map(|(x, w)| f64::from(*x) * f64::from(*w))
            .sum()
    };
    let outputs = weights.len() / inputs;
    x.chunks_exact(inputs)
        .flat_map(|x| {
            (0..outputs)
                .map(|o| dot(x, &weights[o * inputs..][..inputs]) + f64::from(bias[o]))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Error that rounding may leave in a sum of `inputs` products of numbers up to 1.
pub(super) fn tolerance(arithmetic: Arithmetic, inputs: usize) -> f64 {
    let root = (inputs as f64).sqrt();
    match arithmetic {
        Arithmetic::Fp32 => 1e-6 * root + 1e-6,
        Arithmetic::Bf16 => 6e-3 * root,
        Arithmetic::Int16 => 4e-4 * root,
        Arithmetic::Int8 => 2e-2 * root,
    }
}

#[test]
fn products_agree_with_plain_code_at_every_edge_of_the_tiles() {
    for isa in Isa::all_and_emulated() {
        for arithmetic in ARITHMETICS {
            for (outputs, inputs) in [
                (1, 1),
                (7, 3),
                (15, 16),
                (16, 17),
                (17, 31),
                (33, 64),
                (63, 48),
                (64, 5),
                (65, 96),
                (130, 40),
                (65, 383),
                (20, 385),
                (130, 514),
            ] {
                let weights = random(outputs * inputs, 1);
                let bias = random(outputs, 2);
                let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &bias);
                for rows in [1, 2, 5, 6, 7, 11, 12, 13, 25] {
                    let x = random(rows * inputs, 3);
                    let got = product(&matrix, &x, rows);
                    let want = plain_product(&x, &weights, &bias, inputs);
                    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                        let error = (f64::from(*got) - want).abs();
                        assert!(
                            error <= tolerance(arithmetic, inputs),
                            "{isa} {arithmetic:?} {outputs}x{inputs}, {rows} rows, {i}: {got} for {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_packed_matrix_of_single_precision_gives_its_rows_back() {
    let (outputs, inputs) = (130, 64);
    let mut weights = random(outputs * inputs, 11);
    weights[3] = -0.0;
    for isa in Isa::all_and_emulated().into_iter().map(Isa::without_tiles) {
        let matrix = pack(isa, Arithmetic::Fp32, outputs, inputs, &weights, &[]);
        assert!(matrix.is_exact());
        let mut row = vec![f32::NAN; inputs];
        for (number, want) in weights.chunks_exact(inputs).enumerate() {
            matrix.row(number, &mut row);
            let same = row
                .iter()
                .zip(want)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{isa} {number}");
        }
    }
}

/// By an instruction or widened: both are exact but for the rounding of sums.
#[test]
fn products_of_bfloat16_are_the_same_bits_on_every_instruction_set() {
    for (outputs, inputs) in [(1, 1), (17, 3), (64, 48), (65, 383), (20, 1024)] {
        let (weights, bias) = (random(outputs * inputs, 21), random(outputs, 22));
        let mut x = random(7 * inputs, 23);
        // Far beyond each other, and a tie of rounding to even.
        x[0] = 3.0e30;
        x[inputs - 1] *= 1.0e-20;
        x[inputs] = f32::from_bits(0x3f80_8000);
        let nearest = |value: &f32| {
            let bits = value.to_bits();
            let even = (bits >> 16) & 1;
            f32::from_bits((bits + 0x7fff + even) & 0xffff_0000)
        };
        let [rounded, near] =
            [&weights, &x].map(|list| list.iter().map(nearest).collect::<Vec<f32>>());
        let want = plain_product(&near, &rounded, &bias, inputs);
        // Tiles sum even and odd inputs apart.
        let mut firsts: [Option<Vec<u32>>; 2] = [None, None];
        for isa in Isa::all_and_emulated() {
            let matrix = pack(isa, Arithmetic::Bf16, outputs, inputs, &weights, &bias);
            let got = product(&matrix, &x, 7);
            for (place, (got, want)) in got.iter().zip(&want).enumerate().skip(outputs) {
                let error = (f64::from(*got) - want).abs();
                let limit = tolerance(Arithmetic::Fp32, inputs);
                assert!(error <= limit, "{isa} {outputs}x{inputs}, {place}");
            }
            let bits: Vec<u32> = got.iter().map(|value| value.to_bits()).collect();
            let first = &mut firsts[usize::from(isa.has_tiles())];
            let first = first.get_or_insert_with(|| bits.clone());
            assert!(*first == bits, "{isa} {outputs}x{inputs}");
        }
    }
}

/// On ARM: by blocks of two rows and two columns, of which the last may be halves, or quad by quad.
#[test]
fn products_of_8_bits_are_the_same_bits_by_blocks_and_by_quads() {
    let (Ok(blocks), Ok(quads)) = (Isa::named("neon-i8mm"), Isa::named("neon-dot")) else {
        return;
    };
    for inputs in (1..=40).chain([63, 64, 65, 71, 383, 385, 1024]) {
        for outputs in [1, 15, 16, 17, 40] {
            let (weights, bias) = (random(outputs * inputs, 31), random(outputs, 32));
            let [by_blocks, by_quads] = [blocks, quads]
                .map(|isa| pack(isa, Arithmetic::Int8, outputs, inputs, &weights, &bias));
            for rows in 1..=13 {
                let x = random(rows * inputs, 33);
                let [got, want] = [&by_blocks, &by_quads].map(|matrix| -> Vec<u32> {
                    let values = product(matrix, &x, rows);
                    values.iter().map(|value| value.to_bits()).collect()
                });
                assert_eq!(got, want, "{outputs}x{inputs}, {rows} rows");
            }
        }
    }
}

#[test]
fn a_row_is_bit_identical_alone_and_in_company() {
    let (outputs, rows) = (70, 29);
    // The second is several blocks of inputs long.
    for (inputs, isa) in [50, 1000].into_iter().flat_map(|inputs| {
        Isa::all_and_emulated()
            .into_iter()
            .map(move |isa| (inputs, isa))
    }) {
        let (weights, bias, x) = (
            random(outputs * inputs, 4),
            random(outputs, 5),
            random(rows * inputs, 6),
        );
        for arithmetic in ARITHMETICS {
            let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &bias);
            let together = product(&matrix, &x, rows);
            for row in 0..rows {
                let alone = product(&matrix, &x[row * inputs..][..inputs], 1);
                let same = alone
                    .iter()
                    .zip(&together[row * outputs..])
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{isa} {arithmetic:?} row {row}");
            }
        }
    }
}

#[test]
fn balanced_and_rotated_products_stay_what_they_were() {
    // Widths with every kind of block: powers of two, three blocks, odd groups, and less than a vector.
    for inputs in [5, 24, 48, 64, 80, 96, 128, 192, 384, 512, 1536] {
        let (outputs, rows) = (20, 7);
        let (weights, bias) = (random(outputs * inputs, 14), random(outputs, 15));
        let mut x = random(rows * inputs, 16);
        // An outlier channel, as language models have them.
        x.iter_mut()
            .skip(inputs / 2)
            .step_by(inputs)
            .for_each(|x| *x = *x * 5.0 + 40.0);
        let mut ranges = vec![0.0_f32; inputs];
        for row in x.chunks_exact(inputs) {
            ranges
                .iter_mut()
                .zip(row)
                .for_each(|(range, x)| *range = range.max(x.abs()));
        }
        let want = plain_product(&x, &weights, &bias, inputs);
        let norm = want.iter().map(|x| x * x).sum::<f64>().sqrt();
        for isa in Isa::all_and_emulated() {
            let error = |ranges: Option<&[f32]>| {
                let layout = PackedLayout {
                    outputs,
                    inputs,
                    gated: false,
                };
                let matrix = Matrix::pack(
                    isa,
                    Arithmetic::Int8,
                    layout,
                    rows_of(&weights, inputs),
                    &bias,
                    ranges,
                );
                let got = product(&matrix, &x, rows);
                got.iter()
                    .zip(&want)
                    .map(|(a, b)| (f64::from(*a) - b).powi(2))
                    .sum::<f64>()
                    .sqrt()
                    / norm
            };
            assert!(error(None) < 0.02, "{isa} {inputs}: {}", error(None));
            assert!(
                error(Some(&ranges)) < 0.02,
                "{isa} {inputs}, balanced: {}",
                error(Some(&ranges))
            );
        }
    }
}

/// Published embedders and models that embedders are made of: hidden width, inner width of the feed-forward, heads of
/// queries and their width. They were compared with configurations that public code states, and with the defaults of
/// transformers' classes. These were not found again: the two small BERTs, the three smaller Ettin, Jina's small model,
/// the three mT5 and T5 of base size and below and `mt5-xl`, SmolLM2-135M, gemma-3-270m, the inner widths of ESM 2.
const MODELS: &[(&str, [usize; 4])] = &[
    ("prajjwal1/bert-tiny", [128, 512, 2, 64]),
    ("prajjwal1/bert-mini", [256, 1024, 4, 64]),
    ("jhu-clsp/ettin-encoder-17m", [256, 384, 4, 64]),
    ("huawei-noah/TinyBERT_General_4L_312D", [312, 1200, 12, 26]),
    ("facebook/esm2_t6_8M_UR50D", [320, 1280, 20, 16]),
    (
        "sentence-transformers/all-MiniLM-L6-v2",
        [384, 1536, 12, 32],
    ),
    ("jhu-clsp/ettin-encoder-32m", [384, 576, 6, 64]),
    ("facebook/esm2_t12_35M_UR50D", [480, 1920, 20, 24]),
    ("jinaai/jina-embeddings-v2-small-en", [512, 2048, 8, 64]),
    ("jhu-clsp/ettin-encoder-68m", [512, 768, 8, 64]),
    ("google/mt5-small", [512, 1024, 6, 64]),
    ("HuggingFaceTB/SmolLM2-135M", [576, 1536, 9, 64]),
    ("facebook/esm2_t30_150M_UR50D", [640, 2560, 20, 32]),
    ("google/gemma-3-270m", [640, 2048, 4, 256]),
    ("BAAI/bge-base-en-v1.5", [768, 3072, 12, 64]),
    ("Alibaba-NLP/gte-modernbert-base", [768, 1152, 12, 64]),
    ("google/embeddinggemma-300m", [768, 1152, 3, 256]),
    ("google/t5-v1_1-base", [768, 2048, 12, 64]),
    ("Qwen/Qwen2.5-0.5B", [896, 4864, 14, 64]),
    ("HuggingFaceTB/SmolLM2-360M", [960, 2560, 15, 64]),
    ("BAAI/bge-m3", [1024, 4096, 16, 64]),
    ("Qwen/Qwen3-Embedding-0.6B", [1024, 3072, 16, 128]),
    ("answerdotai/ModernBERT-large", [1024, 2624, 16, 64]),
    ("google/t5-v1_1-large", [1024, 2816, 16, 64]),
    ("sentence-transformers/gtr-t5-xl", [1024, 16384, 32, 128]),
    ("google/gemma-3-1b", [1152, 6912, 4, 256]),
    ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", [1536, 8960, 12, 128]),
    ("microsoft/deberta-v2-xlarge", [1536, 6144, 24, 64]),
    ("jhu-clsp/ettin-encoder-1b", [1792, 3840, 28, 64]),
    ("meta-llama/Llama-3.2-1B", [2048, 8192, 32, 64]),
    ("Qwen/Qwen3-1.7B", [2048, 6144, 16, 128]),
    ("Qwen/Qwen2.5-3B", [2048, 11008, 16, 128]),
    ("google/mt5-xl", [2048, 5120, 32, 64]),
    ("openbmb/MiniCPM-Embedding", [2304, 5760, 36, 64]),
    ("google/gemma-2-2b", [2304, 9216, 8, 256]),
    ("Qwen/Qwen3-Embedding-4B", [2560, 9728, 32, 128]),
    ("facebook/xlm-roberta-xl", [2560, 10240, 32, 80]),
    ("meta-llama/Llama-3.2-3B", [3072, 8192, 24, 128]),
    ("Alibaba-NLP/gte-Qwen2-7B-instruct", [3584, 18944, 28, 128]),
    ("BAAI/bge-multilingual-gemma2", [3584, 14336, 16, 256]),
    ("google/gemma-3-12b", [3840, 15360, 16, 256]),
    ("intfloat/e5-mistral-7b-instruct", [4096, 14336, 32, 128]),
    ("Qwen/Qwen3-Embedding-8B", [4096, 12288, 32, 128]),
    ("meta-llama/Llama-2-7b", [4096, 11008, 32, 128]),
];

/// Every width of a published model, once.
pub(super) fn published_widths() -> Vec<(usize, &'static str)> {
    let mut widths: Vec<(usize, &'static str)> = MODELS
        .iter()
        .flat_map(|&(model, [hidden, inner, heads, head])| {
            [hidden, inner, head, heads * head].map(|width| (width, model))
        })
        .collect();
    widths.sort_unstable();
    widths.dedup_by_key(|(width, _)| *width);
    widths
}

#[test]
fn products_are_right_at_every_width_of_published_models() {
    let (outputs, rows) = (17, 3);
    for (inputs, model) in published_widths() {
        // Sums of four are nearly normal, as weights and activations are.
        let normal = |count: usize, seed: u64| -> Vec<f32> {
            let values = random(4 * count, seed);
            values
                .chunks_exact(4)
                .map(|four| four.iter().sum())
                .collect()
        };
        let (weights, x) = (normal(outputs * inputs, 61), normal(rows * inputs, 62));
        let want = plain_product(&x, &weights, &vec![0.0; outputs], inputs);
        for isa in Isa::all_and_emulated() {
            for (arithmetic, limit) in [(Arithmetic::Int8, 0.02), (Arithmetic::Int16, 2e-4)] {
                let matrix = pack(isa, arithmetic, outputs, inputs, &weights, &[]);
                let error = relative(&product(&matrix, &x, rows), &want);
                assert!(
                    error <= limit,
                    "{isa} {arithmetic:?}, {inputs} wide as in {model}: {error}"
                );
            }
        }
    }
}

/// The length of the difference, as a share of `want`'s.
fn relative(got: &[f32], want: &[f64]) -> f64 {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let error = squares(&mut got.iter().zip(want).map(|(a, b)| f64::from(*a) - b));
    (error / squares(&mut want.iter().copied())).sqrt()
}

#[test]
fn sums_of_16_bits_leave_them_for_no_row() {
    // Rows and weights that are alike give the greatest sums; magnitudes up to those whose squares no float holds.
    for inputs in [64, 384, 385, 1000, 2560] {
        let base = random(inputs, 63);
        let flat = vec![1.0; inputs];
        let mut peak = vec![1e-3; inputs];
        peak[inputs / 2] = 1.0;
        for values in [base, flat, peak] {
            for size in [1e-28_f32, 1e-19, 1e-12, 1.0, 1e9, 1e16, 1e18] {
                let x: Vec<f32> = values.iter().map(|x| x * size).collect();
                let want = plain_product(&x, &values, &[0.0], inputs);
                for isa in Isa::all_and_emulated() {
                    let matrix = pack(isa, Arithmetic::Int16, 1, inputs, &values, &[]);
                    let error = relative(&product(&matrix, &x, 1), &want);
                    assert!(error < 1e-3, "{isa}, {inputs} inputs of {size}: {error}");
                }
            }
        }
    }
}

#[test]
fn every_finish_does_what_it_says() {
    // Tiles multiply single precision where there are 64 inputs, and vectors where there are 33.
    let rows = 8;
    for (outputs, inputs) in [
        (5, 33),
        (16, 33),
        (40, 33),
        (64, 33),
        (100, 33),
        (40, 64),
        (100, 64),
    ] {
        let (weights, bias) = (random(2 * outputs * inputs, 17), random(2 * outputs, 18));
        let (x, residual) = (random(rows * inputs, 19), random(rows * (outputs + 3), 20));
        let half = outputs * inputs;
        for isa in Isa::all_and_emulated() {
            for arithmetic in ARITHMETICS {
                let plain = pack(
                    isa,
                    arithmetic,
                    outputs,
                    inputs,
                    &weights[..half],
                    &bias[..outputs],
                );
                let ups = pack(
                    isa,
                    arithmetic,
                    outputs,
                    inputs,
                    &weights[half..],
                    &bias[outputs..],
                );
                let layout = PackedLayout {
                    outputs,
                    inputs,
                    gated: true,
                };
                let gated = Matrix::pack(
                    isa,
                    arithmetic,
                    layout,
                    rows_of(&weights, inputs),
                    &bias,
                    None,
                );
                let [y, up] = [&plain, &ups].map(|matrix| product(matrix, &x, rows));
                let run = |matrix: &Matrix, finish| {
                    let mut operand = Operand::new();
                    let mut out = residual.clone();
                    // The second half of the rows alone, with gaps between the results.
                    linear(
                        operand.convert(matrix, &x, inputs, rows),
                        rows / 2..rows,
                        matrix,
                        &mut out,
                        outputs + 3,
                        finish,
                    );
                    out
                };
                let check = |got: &[f32], want: &dyn Fn(usize, f32) -> f32| {
                    for (place, got) in got.iter().enumerate() {
                        let (row, column) = (place / (outputs + 3), place % (outputs + 3));
                        if row >= rows / 2 || column >= outputs {
                            assert_eq!(
                                got.to_bits(),
                                residual[place].to_bits(),
                                "{isa}: a value out of bounds"
                            );
                            continue;
                        }
                        let want = want((row + rows / 2) * outputs + column, residual[place]);
                        let limit = match arithmetic {
                            Arithmetic::Fp32 => 1e-5,
                            _ => 5e-5,
                        };
                        assert!(
                            (got - want).abs() < limit,
                            "{isa} {arithmetic:?}: {got} for {want}"
                        );
                    }
                };
                check(&run(&plain, ProductFinish::Store), &|i, _| y[i]);
                check(&run(&plain, ProductFinish::Add), &|i, before| before + y[i]);
                for activation in ACTIVATIONS {
                    let act = |x: f32| plain_activation(activation, f64::from(x)) as f32;
                    check(
                        &run(&plain, ProductFinish::Activate(activation)),
                        &|i, _| act(y[i]),
                    );
                    check(&run(&gated, ProductFinish::Gate(activation)), &|i, _| {
                        act(y[i]) * up[i]
                    });
                }
            }
        }
    }
}
