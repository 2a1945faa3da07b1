//! Products of the widths of real models, as shares of the rate that their instruction reaches in registers.
//!
//! One thread multiplies rows by one matrix after another, as layers do: so many that together they fit no cache of the
//! core's own. The least time of several passes counts, once without and once with the conversion of the rows to the
//! product's numbers. `PRECISION` is fp32, bf16, int16 or int8.
//!
//! ```text
//! cargo bench --profile dev -p embedctl-kernels --bench products -- [PRECISION...]
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use embedctl_kernels::{
    Arithmetic, Isa, Matrix, Operand, PackedLayout, ProductFinish, linear, peak,
};

const PRECISIONS: [(&str, Arithmetic); 4] = [
    ("fp32", Arithmetic::Fp32),
    ("bf16", Arithmetic::Bf16),
    ("int16", Arithmetic::Int16),
    ("int8", Arithmetic::Int8),
];

/// Hidden and inner widths of bge-base-en-v1.5, Qwen3-Embedding-0.6B, bge-m3, gte-Qwen2-1.5B-instruct, gemma-2-2b and
/// e5-mistral-7b-instruct.
const WIDTHS: [[usize; 2]; 6] = [
    [768, 3072],
    [1024, 3072],
    [1024, 4096],
    [1536, 8960],
    [2304, 9216],
    [4096, 14_336],
];

const TOKENS: [usize; 3] = [24, 66, 256];

/// Bytes of all matrices of a measurement, at least.
const STREAMED: usize = 96 << 20;

/// A measurement makes passes for this long, and at least [`LEAST_PASSES`] of them.
const TIME: Duration = Duration::from_millis(400);
const LEAST_PASSES: usize = 4;

fn main() {
    // `cargo bench` adds its own flag.
    let asked: Vec<String> = (std::env::args().skip(1))
        .filter(|arg| arg != "--bench")
        .collect();
    let is_known = |name: &String| PRECISIONS.iter().any(|(known, _)| known == name);
    if let Some(name) = asked.iter().find(|name| !is_known(name)) {
        eprintln!("{name} is none of fp32, bf16, int16 and int8");
        return;
    }
    let isa = Isa::here().expect("a processor's instruction set");
    println!("{isa}; % of the instruction's rate without and with the conversion of rows\n");
    for (name, precision) in PRECISIONS {
        if !(asked.is_empty() || asked.iter().any(|asked| asked == name)) {
            continue;
        }
        let rate = peak_rate(isa, precision);
        println!(
            "{name}, {:.0} billion operations a second in registers\n",
            rate / 1e9
        );
        println!("| inputs x outputs | 24 tokens | 66 tokens | 256 tokens |");
        println!("|---|--:|--:|--:|");
        for [narrow, wide] in WIDTHS {
            for [inputs, outputs] in [[narrow, wide], [wide, narrow]] {
                let matrices = matrices(isa, precision, inputs, outputs);
                let cells = TOKENS.map(|tokens| {
                    let before = peak_rate(isa, precision);
                    let [product, conversion] = measure(&matrices, tokens);
                    let rate = before.max(peak_rate(isa, precision));
                    let operations = (2 * tokens * inputs * outputs * matrices.len()) as f64;
                    let share =
                        |time: Duration| 100.0 * operations / time.as_secs_f64().max(1e-9) / rate;
                    format!("{:.0} / {:.0}", share(product), share(product + conversion))
                });
                println!("| {inputs} x {outputs} | {} |", cells.join(" | "));
            }
        }
        println!();
    }
}

/// Operations a second in registers, the best of some runs.
fn peak_rate(isa: Isa, precision: Arithmetic) -> f64 {
    let run = |_| {
        let start = Instant::now();
        let operations = black_box(peak::operations(isa, precision, 100_000));
        operations as f64 / start.elapsed().as_secs_f64()
    };
    (0..8).map(run).fold(0.0, f64::max)
}

/// As many matrices as make [`STREAMED`] bytes.
fn matrices(isa: Isa, precision: Arithmetic, inputs: usize, outputs: usize) -> Vec<Matrix> {
    let mut state = 1_u64;
    let mut matrices: Vec<Matrix> = Vec::new();
    while matrices.iter().map(Matrix::bytes).sum::<usize>() < STREAMED {
        let row = |_: usize, row: &mut [f32]| row.fill_with(|| next(&mut state));
        let layout = PackedLayout {
            outputs,
            inputs,
            gated: false,
        };
        matrices.push(Matrix::pack(isa, precision, layout, row, &[], None));
    }
    matrices
}

/// The least times of a pass over all matrices: of the products, and of the conversions of their rows.
fn measure(matrices: &[Matrix], tokens: usize) -> [Duration; 2] {
    let (inputs, outputs) = (matrices[0].inputs(), matrices[0].outputs());
    let mut state = 2_u64;
    let x: Vec<f32> = (0..tokens * inputs).map(|_| next(&mut state)).collect();
    let mut out = vec![0.0; tokens * outputs];
    let mut operand = Operand::new();
    let mut least = [Duration::MAX; 2];
    let begin = Instant::now();
    let mut passes = 0;
    while passes < LEAST_PASSES || begin.elapsed() < TIME {
        let mut pass = [Duration::ZERO; 2];
        for matrix in matrices {
            let start = Instant::now();
            let rows = operand.convert(matrix, &x, inputs, tokens);
            let converted = Instant::now();
            linear(
                rows,
                0..tokens,
                matrix,
                &mut out,
                outputs,
                ProductFinish::Store,
            );
            black_box(&mut out);
            pass[0] += converted.elapsed();
            pass[1] += converted - start;
        }
        for (least, time) in least.iter_mut().zip(pass) {
            *least = (*least).min(time);
        }
        passes += 1;
    }
    least
}

/// Numbers from -1 to 1.
fn next(state: &mut u64) -> f32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
}
