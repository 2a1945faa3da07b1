//! Writers alone: rows of random vectors to a file, with nothing before them and nothing beside them.
//!
//! Prints, for each format and width, rows a second of elapsed time and processor time a row; and what it costs to hash, to
//! compress and to hand to the system as many bytes as the vectors have. The costs go into the model of the pipeline
//! (`pipeline_model.py`).
//!
//! ```text
//! cargo bench --profile dev --bench writing -- [WIDTH,...] [FORMAT,...] [ROWS] [ROUNDS]
//! ```

#[allow(dead_code)] // whole runs are for the other benchmarks
mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use common::processor_seconds;
use embedctl::arrow::array::{RecordBatch, StringArray};
use embedctl::output::{self, Destination, Finish, Forms, OutputOptions, RunFiles};
use embedctl::record::{Origin, RowRef, RowVectors, Rows, SourceNames};
use sha2::{Digest, Sha256};

/// Rows that a window of the pipeline has.
const WINDOW: usize = 8192;

/// Numbers of a page.
const PAGE: usize = (1 << 20) / size_of::<f32>();

fn main() {
    // `cargo bench` adds its own flag.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let mut next = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let (widths, formats) = (next("384,1024"), next("parquet,npy"));
    let rows: usize = next("131072").parse().expect("a number of rows");
    let rounds: usize = next("5").parse().expect("a number of rounds");
    let folder = tempfile::tempdir().expect("a folder");
    for width in widths.split(',').map(|it| it.parse().expect("a width")) {
        let windows: Vec<Rows> = (0..rows / WINDOW).map(|it| window(it, width)).collect();
        let rows = windows.len() * WINDOW;
        let bytes = vec![7_u8; WINDOW * width * size_of::<f32>()];
        report(&format!("sha256 {width}"), rows, rounds, || {
            let mut hash = Sha256::new();
            timed(|| windows.iter().for_each(|_| hash.update(&bytes)))
        });
        // As Parquet's pages were before vectors were written as they are.
        let mut zstd = zstd::bulk::Compressor::new(1).expect("a compressor");
        report(&format!("zstd {width}"), rows, rounds, || {
            timed(|| {
                for page in windows.iter().flat_map(|rows| values(rows).chunks(PAGE)) {
                    let bytes: Vec<u8> = page.iter().flat_map(|it| it.to_le_bytes()).collect();
                    std::hint::black_box(zstd.compress(&bytes).expect("a page"));
                }
            })
        });
        report(&format!("file {width}"), rows, rounds, || {
            let mut file = File::create(folder.path().join("plain")).expect("a file");
            timed(|| {
                for part in windows.iter().flat_map(|_| bytes.chunks(1 << 20)) {
                    file.write_all(part).expect("written");
                }
            })
        });
        for format in formats.split(',') {
            let path = folder.path().join(format!("out.{format}"));
            report(&format!("{format} {width}"), rows, rounds, || {
                write(&path, width, &windows)
            });
        }
    }
}

/// Elapsed time and processor time.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let (start, spent) = (Instant::now(), processor_seconds());
    work();
    (start.elapsed().as_secs_f64(), processor_seconds() - spent)
}

/// Medians of elapsed and of processor time.
fn report(what: &str, rows: usize, rounds: usize, mut work: impl FnMut() -> (f64, f64)) {
    work();
    let (mut elapsed, mut spent): (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| work()).unzip();
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] / rows as f64
    };
    let (elapsed, spent) = (median(&mut elapsed), median(&mut spent));
    println!(
        "{what:>14}: {:>9.0} rows/s, {:>5.2} us elapsed and {:>5.2} us of processor time a row",
        1.0 / elapsed,
        elapsed * 1e6,
        spent * 1e6
    );
}

/// Writes all windows; elapsed time and processor time without the copies of vectors that the writer takes.
fn write(path: &Path, width: usize, windows: &[Rows]) -> (f64, f64) {
    let options = OutputOptions {
        force: true,
        ..OutputOptions::new(Destination::Path(path.to_path_buf()))
    };
    let names: SourceNames = ["rows".to_owned()].into_iter().collect();
    let schema = windows[0].columns.schema();
    let files = RunFiles::new();
    let writer = output::create(
        &options.into(),
        &Forms::dense(&[width]),
        names,
        &schema,
        &files,
    );
    let mut writer = writer.expect("an output");
    let copies: Vec<Rows> = windows.iter().map(copy).collect();
    timed(|| {
        for rows in copies {
            writer.write(rows).expect("written");
        }
        let finish = Finish {
            schema,
            provenance: &serde_json::json!({}),
            rejects: None,
        };
        writer.finish(finish).expect("published");
    })
}

fn values(rows: &Rows) -> &[f32] {
    rows.vectors.parts()[0].values()
}

fn copy(rows: &Rows) -> Rows {
    Rows {
        columns: rows.columns.clone(),
        origins: rows.origins.clone(),
        refs: rows.refs.clone(),
        vectors: RowVectors::in_full(rows.dimensions, values(rows).to_vec()),
        dimensions: rows.dimensions,
        missing: None,
    }
}

/// Rows with numbers as ids, and values that compress as badly as a model's do.
fn window(number: usize, width: usize) -> Rows {
    let first = number * WINDOW;
    let ids: StringArray = (first..first + WINDOW)
        .map(|it| Some(it.to_string()))
        .collect();
    let mut state = u32::try_from(number).expect("few windows") + 1;
    let mut value = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let number = |row: usize| u64::try_from(first + row).expect("few rows");
    Rows {
        columns: RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).expect("a column"),
        origins: (0..WINDOW)
            .map(|row| Origin {
                source: 0,
                line: number(row) + 1,
                offset: 0,
            })
            .collect(),
        refs: (0..WINDOW)
            .map(|row| RowRef {
                record: number(row),
                part: 0,
            })
            .collect(),
        vectors: RowVectors::in_full(width, (0..WINDOW * width).map(|_| value()).collect()),
        dimensions: width,
        missing: None,
    }
}
