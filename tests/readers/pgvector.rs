//! A real PostgreSQL with pgvector loads what `-f pgcopy` writes, and finds the same neighbours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray, Time32SecondArray, TimestampMillisecondArray,
    UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int8Type, Int64Type};
use embedctl::output::{self, Destination, Dtype, Finish, OutputOptions, RowForm, RunFiles};
use embedctl::record::{Numbers, RowVectors, Rows};
use serde_json::{Value, json};

use crate::rows::{DIMENSIONS, component, id, provenance, rows, schema};
use crate::support;

const COUNT: usize = 300;
const NEIGHBOURS: usize = 10;
const QUERIES: [usize; 5] = [0, 1, 50, 151, 299];

/// The database's answers to each query of each file; `None` where there is none.
fn ask(test: &str, folder: &Path, files: &[(PathBuf, Vec<String>)]) -> Option<Value> {
    let packages = support::node_packages(test)?;
    let jobs: Vec<Value> = files
        .iter()
        .map(|(file, queries)| {
            let sidecar = std::fs::read(format!("{}.json", file.display())).unwrap();
            let sidecar: Value = serde_json::from_slice(&sidecar).unwrap();
            json!({"file": file, "columns": sidecar["columns"], "queries": queries})
        })
        .collect();
    let (path, answer) = (folder.join("jobs.json"), folder.join("answer.json"));
    std::fs::write(&path, json!(jobs).to_string()).unwrap();
    let output = Command::new("node")
        .arg("tests/pgvector/load.mjs")
        .args([&packages, &path, &answer])
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}:\n{problem}");
    Some(serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap())
}

fn write(path: &Path, dtype: Dtype, rows: Rows) {
    let options = OutputOptions {
        dtype: Some(dtype),
        ..OutputOptions::new(Destination::Path(path.to_path_buf()))
    };
    let (names, columns) = (["in".to_owned()].into(), rows.columns.schema());
    let all = RowForm::of_vectors().map(|form| form.of_width(rows.dimensions));
    let fits = |form: &RowForm| form.fits(&rows.vectors.parts()[0], rows.len());
    let forms = all.into_iter().find(fits).unwrap().into();
    let files = RunFiles::new();
    let mut writer =
        output::create(&options.clone().into(), &forms, names, &columns, &files).unwrap();
    writer.write(rows).unwrap();
    let finish = Finish {
        schema: columns,
        provenance: &provenance(),
        rejects: None,
    };
    writer.finish(finish).unwrap();
}

/// The rows nearest to row `query`, itself among them, by a distance.
fn nearest(query: usize, distance: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..COUNT).collect();
    let far = |row: &usize| distance(query, *row);
    // The database breaks ties by id, too.
    all.sort_by(|one, two| far(one).total_cmp(&far(two)).then(one.cmp(two)));
    all.truncate(NEIGHBOURS);
    all
}

/// Numbers from -1 to 1 without a pattern, by which distances would be equal.
fn number(row: usize, column: usize) -> f32 {
    let mut bits = (row * DIMENSIONS + column) as u64;
    for _ in 0..3 {
        bits = (bits ^ (bits >> 29)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    (bits >> 40) as f32 / 8_388_608.0 - 1.0
}

#[test]
fn postgres_finds_the_same_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = |dtype, operator: &str, part: &str| {
        let path = folder.path().join(format!("{dtype}.pgcopy"));
        let all = (0..COUNT).flat_map(|row| (0..DIMENSIONS).map(move |column| number(row, column)));
        let rows = Rows {
            vectors: RowVectors::in_full(DIMENSIONS, all.collect()),
            ..rows(0, COUNT)
        };
        write(&path, dtype, rows);
        let neighbours = QUERIES.map(|query| {
            format!(
                "select year + 7 from n order by embedding {operator} (select embedding from n where \
                 year = {query} - 7), year limit {NEIGHBOURS}"
            )
        });
        // Every third year is missing: rows are numbered by themselves there.
        let numbered = format!(
            "create view n as select row_number() over () - 8 as year, {part} as embedding from t"
        );
        let mut queries = vec![numbered];
        queries.extend(neighbours);
        queries.push("drop view n".to_owned());
        (path, queries)
    };
    let files = [
        vectors(Dtype::F32, "<->", "embedding"),
        vectors(Dtype::F16, "<=>", "embedding"),
        vectors(Dtype::Ubinary, "<~>", "embedding"),
        vectors(Dtype::Binary, "<~>", "embedding"),
    ];
    let Some(answers) = ask("postgres_finds_the_same_neighbours", folder.path(), &files) else {
        return;
    };
    let half = |row, column| half::f16::from_f32(number(row, column)).to_f64();
    let pairs = |one: usize, two: usize, of: &dyn Fn(usize, usize) -> f64| -> Vec<(f64, f64)> {
        (0..DIMENSIONS)
            .map(|column| (of(one, column), of(two, column)))
            .collect()
    };
    let euclidean = |one, two| {
        let of = |row, column| f64::from(number(row, column));
        pairs(one, two, &of)
            .iter()
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
    };
    let cosine = |one, two| {
        let pairs = pairs(one, two, &half);
        let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        1.0 - sum(|(a, b)| a * b) / (sum(|(a, _)| a * a) * sum(|(_, b)| b * b)).sqrt()
    };
    let hamming = |one, two| {
        let of = |row, column| f64::from(u8::from(number(row, column) > 0.0));
        pairs(one, two, &of)
            .iter()
            .map(|(a, b)| (a - b).abs())
            .sum::<f64>()
    };
    let distances: [&dyn Fn(usize, usize) -> f64; 4] = [&euclidean, &cosine, &hamming, &hamming];
    for (distance, answer) in distances.iter().zip(answers.as_array().unwrap()) {
        for (query, found) in QUERIES.iter().zip(&answer.as_array().unwrap()[1..]) {
            let expected: Vec<[usize; 1]> = nearest(*query, distance)
                .into_iter()
                .map(|row| [row])
                .collect();
            assert_eq!(found, &json!(expected), "query {query}");
        }
    }
}

/// Every fifth component of a row, and of the first row none.
fn sparse(row: usize) -> Vec<(u32, f32)> {
    let all = (0..DIMENSIONS).filter(|column| row > 0 && (column + row).is_multiple_of(5));
    all.map(|column| (u32::try_from(column).unwrap(), number(row, column)))
        .collect()
}

#[test]
fn postgres_multiplies_the_same_sparse_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.pgcopy");
    let mut entries = Numbers::of_entries();
    (0..COUNT).for_each(|row| entries.push_entries(sparse(row)));
    let rows = Rows {
        vectors: entries.into(),
        ..rows(0, COUNT)
    };
    write(&path, Dtype::F32, rows);
    let queries = vec![
        "create view n as select row_number() over () - 1 as row, embedding from t".to_owned(),
        "select row, embedding::text from n where row < 8 order by row".to_owned(),
        "select (-(embedding <#> (select embedding from n where row = 5)))::float4 from n where row in (5, 10) order by row"
            .to_owned(),
        "drop view n".to_owned(),
    ];
    let test = "postgres_multiplies_the_same_sparse_vectors";
    let Some(answers) = ask(test, folder.path(), &[(path, queries)]) else {
        return;
    };
    let answers = answers[0].as_array().unwrap();
    for (row, found) in answers[1].as_array().unwrap().iter().enumerate() {
        // PostgreSQL counts from 1: {1:0.5,6:-0.25}/8
        let text = found[1].as_str().unwrap();
        let (entries, width) = text.strip_prefix('{').unwrap().split_once("}/").unwrap();
        assert_eq!(width, DIMENSIONS.to_string());
        let entries = entries.split(',').filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| {
            let (index, value) = entry.split_once(':').unwrap();
            (
                index.parse::<u32>().unwrap() - 1,
                value.parse::<f32>().unwrap(),
            )
        });
        assert_eq!(entries.collect::<Vec<_>>(), sparse(row), "row {row}");
    }
    for (found, row) in answers[2].as_array().unwrap().iter().zip([5, 10]) {
        let (one, two) = (sparse(5), sparse(row));
        let product: f32 = one
            .iter()
            .filter_map(|(index, value)| {
                let other = two.iter().find(|(other, _)| other == index)?;
                Some(value * other.1)
            })
            .sum();
        let found = found[0].as_f64().unwrap();
        assert!(
            (found - f64::from(product)).abs() < 1e-4,
            "{found}, {product}"
        );
    }
}

#[test]
fn postgres_reads_every_kept_field() {
    let folder = tempfile::tempdir().unwrap();
    let usual = folder.path().join("usual.pgcopy");
    write(&usual, Dtype::F32, rows(0, 4));
    let other = folder.path().join("other.pgcopy");
    write(&other, Dtype::F32, other_types());
    let files = [
        (
            usual,
            vec![
                "select id, text, year, score, ok, extra from t".to_owned(),
                "select vector_dims(embedding), embedding::text from t limit 1".to_owned(),
            ],
        ),
        (
            other,
            vec![
                "select time::text, day::text, clock::text, price::text, large::text, raw::text, \
                 kind, list, pair from t"
                    .to_owned(),
            ],
        ),
    ];
    let Some(answers) = ask("postgres_reads_every_kept_field", folder.path(), &files) else {
        return;
    };
    let text = |row: usize| format!("Zeile {row}\n«ü»");
    assert_eq!(schema().fields().len(), 6);
    assert_eq!(
        answers[0][0],
        json!([
            [id(0), text(0), -7, 0, true, {"n": [0]}],
            [id(1), null, null, null, null, null],
            [id(2), text(2), -5, 0.25, true, {"n": [2]}],
            [null, text(3), -4, 0.375, false, {"n": [3]}],
        ])
    );
    assert_eq!(answers[0][1][0][0], DIMENSIONS);
    let values: Vec<f32> = serde_json::from_str(answers[0][1][0][1].as_str().unwrap()).unwrap();
    let expected: Vec<f32> = (0..DIMENSIONS).map(|column| component(0, column)).collect();
    assert_eq!(values, expected);
    assert_eq!(
        answers[1][0],
        json!([
            [
                "2026-11-21 12:30:00.5+00", "1999-12-31", "23:59:59", "-12.34",
                "18446744073709551615", "\\x00ff", "a", [1, null], {"word": "w", "n": 1}
            ],
            [null, null, null, null, null, null, null, null, {"word": null, "n": 2}],
        ])
    );
}

/// Two rows of what JSON lacks; the second is all null.
fn other_types() -> Rows {
    let time = TimestampMillisecondArray::from(vec![Some(1_795_264_200_500), None]);
    let price = Decimal128Array::from(vec![Some(-1234), None]);
    let kind: DictionaryArray<Int8Type> = [Some("a"), None].into_iter().collect();
    let lists = vec![Some(vec![Some(1), None]), None];
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("w"), None]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let both = StructArray::from(vec![
        (Arc::new(Field::new("word", DataType::Utf8, true)), words),
        (Arc::new(Field::new("n", DataType::Int64, true)), numbers),
    ]);
    let columns = RecordBatch::try_from_iter_with_nullable([
        (
            "id",
            Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef,
            true,
        ),
        ("time", Arc::new(time.with_timezone("UTC")), true),
        (
            "day",
            Arc::new(Date32Array::from(vec![Some(10_956), None])),
            true,
        ),
        (
            "clock",
            Arc::new(Time32SecondArray::from(vec![Some(86_399), None])),
            true,
        ),
        (
            "price",
            Arc::new(price.with_precision_and_scale(9, 2).unwrap()),
            true,
        ),
        (
            "large",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])),
            true,
        ),
        (
            "raw",
            Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), None])),
            true,
        ),
        ("kind", Arc::new(kind), true),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            true,
        ),
        ("pair", Arc::new(both), true),
    ]);
    Rows {
        columns: columns.unwrap(),
        ..rows(0, 2)
    }
}
