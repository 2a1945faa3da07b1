//! Every type of component: the reference's values, in every format, and back.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::output::tests::support::*;
use crate::output::{
    Calibration, Compression, Destination, Forms, OutputFormat, OutputOptions, RunFiles, RunOutput,
    VectorType, create, read_vectors,
};
use arrow::buffer::NullBuffer;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use embedctl_records::quantize::Dtype;
use embedctl_records::record::{RowVectors, Rows};
use embedctl_storage::Readable;

/// Made by `quantize.py`, which lies beside it.
const REFERENCE: &str = "../../fixtures/parity/quantize";

fn reference(name: &str) -> PathBuf {
    Path::new(REFERENCE).join(name).with_extension("npy")
}

/// The bytes of an NPY file's values.
fn values(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].to_vec()
}

/// All vectors of a file.
fn read(path: &Path) -> Vec<Vec<f32>> {
    let mut vectors = Vec::new();
    read_vectors(&Readable::file(path).unwrap(), &mut |vector| {
        vectors.push(vector.values.to_vec());
        Ok(())
    })
    .unwrap();
    vectors
}

fn write_reference(options: &OutputOptions) -> Result<()> {
    let vectors = read(&reference("vectors"));
    let (count, width) = (vectors.len(), vectors[0].len());
    let files = RunFiles::new();
    let mut writer = create(
        &options.clone().into(),
        &Forms::dense(&[width]),
        names(),
        &id_schema(),
        &files,
    )?;
    for first in [0, count / 2] {
        let some = Rows {
            vectors: RowVectors::in_full(width, vectors[first..first + count / 2].concat()),
            ..id_rows(first, count / 2, width)
        };
        writer.write(some)?;
    }
    finish(writer, id_schema())
}

/// What is read of a file of ranges or vectors.
fn calibration(path: &Path) -> Result<Calibration> {
    Calibration::read(&Readable::file(path)?, &CancelToken::new())
}

fn of_dtype(path: &Path, dtype: Dtype) -> OutputOptions {
    OutputOptions {
        dtype: Some(dtype),
        calibration: (dtype.needs_ranges())
            .then(|| calibration(&reference("calibration")).unwrap()),
        ..options(path)
    }
}

#[test]
fn every_value_is_the_references() {
    let folder = tempfile::tempdir().unwrap();
    for dtype in Dtype::ALL {
        let expected = match dtype {
            Dtype::F32 => reference("vectors"),
            _ => reference(dtype.name()),
        };
        let path = at(&folder, &format!("{dtype}.npy"));
        write_reference(&of_dtype(&path, dtype)).unwrap();
        assert_eq!(values(&path), values(&expected), "{dtype}");
        let header = |path: &Path| {
            let bytes = std::fs::read(path).unwrap();
            let text = String::from_utf8_lossy(&bytes[10..128]).into_owned();
            text.trim_end().to_owned()
        };
        assert_eq!(header(&path), header(&expected));
    }
}

#[test]
fn every_format_holds_the_same_values_and_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let widened = [Dtype::F32, Dtype::F16, Dtype::Int8, Dtype::Uint8];
    for dtype in widened.into_iter().chain([Dtype::Binary, Dtype::Ubinary]) {
        let npy = at(&folder, &format!("{dtype}.npy"));
        write_reference(&of_dtype(&npy, dtype)).unwrap();
        let expected = read(&npy);
        assert_eq!(expected.len(), 60);
        for ending in [
            "parquet",
            "arrow",
            "arrows",
            "jsonl",
            "jsonl.gz",
            "jsonl.zst",
        ] {
            let path = at(&folder, &format!("{dtype}.{ending}"));
            write_reference(&of_dtype(&path, dtype)).unwrap();
            assert_eq!(read(&path), expected, "{dtype} {ending}");
        }
        for (ending, held) in [
            ("fbin", vec![Dtype::F32]),
            ("i8bin", vec![Dtype::Int8, Dtype::Binary]),
            ("u8bin", vec![Dtype::Uint8, Dtype::Ubinary]),
        ] {
            let path = at(&folder, &format!("{dtype}.{ending}"));
            let written = write_reference(&of_dtype(&path, dtype));
            assert_eq!(written.is_ok(), held.contains(&dtype), "{dtype} {ending}");
            if held.contains(&dtype) {
                assert_eq!(read(&path), expected, "{dtype} {ending}");
                assert!(at(&folder, &format!("{dtype}.{ending}.rows.jsonl")).exists());
            }
        }
        let path = at(&folder, &format!("{dtype}.pgcopy"));
        let written = write_reference(&of_dtype(&path, dtype));
        assert_eq!(written.is_err(), dtype.needs_ranges());
        if matches!(dtype, Dtype::F32 | Dtype::F16) {
            assert_eq!(read(&path), expected, "{dtype} pgcopy");
        }
    }
}

#[test]
fn bits_are_the_same_under_both_names_in_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let of = |dtype| {
        let path = at(&folder, &format!("{dtype}.pgcopy"));
        write_reference(&of_dtype(&path, dtype)).unwrap();
        std::fs::read(path).unwrap()
    };
    assert_eq!(of(Dtype::Binary), of(Dtype::Ubinary));
}

/// The ranges that a provenance states.
fn ranges(npy: &Path) -> Value {
    let path = format!("{}.json", npy.display());
    let mut provenance: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    provenance["calibration"]["ranges"].take()
}

#[test]
fn ranges_come_from_vectors_in_any_format_and_from_what_states_them() {
    let folder = tempfile::tempdir().unwrap();
    let expected = values(&reference("int8"));
    let first = at(&folder, "first.npy");
    write_reference(&of_dtype(&first, Dtype::Int8)).unwrap();
    let stated = ranges(&first);
    assert_eq!(stated["embedding"]["min"].as_array().unwrap().len(), 19);
    let mut sources = vec![at(&folder, "first.npy.json")];
    for (name, value) in [
        ("alone.json", &stated["embedding"]),
        ("named.json", &stated),
    ] {
        std::fs::write(at(&folder, name), value.to_string()).unwrap();
        sources.push(at(&folder, name));
    }
    let vectors = read(&reference("calibration"));
    for ending in ["parquet", "arrow", "arrows", "jsonl.gz", "fbin", "pgcopy"] {
        let path = at(&folder, &format!("calibration.{ending}"));
        let mut writer = create(
            &options(&path).into(),
            &Forms::dense(&[19]),
            names(),
            &id_schema(),
            &RunFiles::new(),
        );
        let some = Rows {
            vectors: RowVectors::in_full(19, vectors.concat()),
            ..id_rows(0, vectors.len(), 19)
        };
        writer.as_mut().unwrap().write(some).unwrap();
        finish(writer.unwrap(), id_schema()).unwrap();
        sources.push(path);
    }
    for source in sources {
        let path = at(&folder, "again.npy");
        let options = OutputOptions {
            dtype: Some(Dtype::Int8),
            calibration: Some(calibration(&source).unwrap()),
            ..forced(&path)
        };
        write_reference(&options).unwrap();
        assert_eq!(values(&path), expected, "{}", source.display());
        assert_eq!(ranges(&path), stated, "{}", source.display());
    }
}

#[test]
fn a_calibration_that_cannot_be_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let write_text = |name: &str, text: &str| {
        std::fs::write(at(&folder, name), text).unwrap();
        at(&folder, name)
    };
    let of_ints = at(&folder, "ints.i8bin");
    write_reference(&of_dtype(&of_ints, Dtype::Int8)).unwrap();
    let narrow = at(&folder, "narrow.npy");
    write(&options(&narrow), 3).unwrap();
    let nan = json!({"min": [0.0], "max": [f32::NAN]}).to_string();
    let cases: Vec<(Option<PathBuf>, &str)> = vec![
        (None, "needs --calibration FILE"),
        (Some(at(&folder, "missing.npy")), "missing.npy"),
        (Some(of_ints), "neither a vector of float32"),
        (
            Some(narrow),
            "embedding has 19 components, but the file has 2 components",
        ),
        (
            Some(write_text("a.csv", "1,2")),
            "neither its first bytes nor its ending",
        ),
        (
            Some(write_text("b.json", "{}")),
            "neither a vector of float32",
        ),
        (Some(write_text("c.json", &nan)), "invalid type: null"),
        (
            Some(write_text("d.json", r#"{"min": [1], "max": [0]}"#)),
            "a min is above its max",
        ),
        (
            Some(write_text("e.npy", "no matrix")),
            "ends in the middle of a vector",
        ),
        (Some(write_text("f.parquet", "no table")), "f.parquet"),
        (
            Some(write_text("g.jsonl", "{\"embedding\": [1, 2]\n")),
            "g.jsonl: line 1 is not a JSON object",
        ),
    ];
    for (file, expected) in cases {
        let path = at(&folder, "out.npy");
        let written = || {
            write_reference(&OutputOptions {
                dtype: Some(Dtype::Uint8),
                calibration: file.as_deref().map(calibration).transpose()?,
                ..options(&path)
            })
        };
        let message = chain(&written().unwrap_err());
        assert!(message.contains(expected), "{message}");
        assert!(!path.exists());
    }
    let idle = OutputOptions {
        calibration: Some(calibration(&reference("calibration")).unwrap()),
        ..options(&at(&folder, "out.npy"))
    };
    assert!(chain(&write_reference(&idle).unwrap_err()).contains("dtype int8"));
}

#[test]
fn what_float16_cannot_hold_is_an_error_and_no_infinity() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.npy");
    let options = of_dtype(&path, Dtype::F16);
    let mut writer = create(
        &options.clone().into(),
        &Forms::dense(&[2]),
        names(),
        &id_schema(),
        &RunFiles::new(),
    )
    .unwrap();
    let some = Rows {
        vectors: RowVectors::in_full(2, vec![1.0, 65_504.0, 3.0, -65_520.0]),
        ..id_rows(0, 2, 2)
    };
    let message = chain(&writer.write(some).unwrap_err());
    assert!(
        message.contains("record 2") && message.contains("dtype f32"),
        "{message}"
    );
}

#[test]
fn missing_vectors_are_null_where_there_are_nulls() {
    let folder = tempfile::tempdir().unwrap();
    let all = [
        OutputFormat::Parquet,
        OutputFormat::Arrow,
        OutputFormat::Jsonl(Compression::None),
        OutputFormat::Pgcopy,
        OutputFormat::Npy,
        OutputFormat::Fbin,
    ];
    for format in all {
        let path = at(&folder, &format!("out.{format}"));
        let output = RunOutput {
            nullable: true,
            ..options(&path).into()
        };
        let writer = create(
            &output,
            &Forms::dense(&[2]),
            names(),
            &id_schema(),
            &RunFiles::new(),
        );
        if format.is_matrix() {
            let message = chain(&writer.err().unwrap());
            assert!(message.contains("has no nulls"), "{message}");
            continue;
        }
        let mut writer = writer.unwrap();
        let some = Rows {
            missing: Some(NullBuffer::from(vec![true, false, true])),
            ..id_rows(0, 3, 2)
        };
        writer.write(some).unwrap();
        finish(writer, id_schema()).unwrap();
        assert_eq!(read(&path), [vector(0, 2), vector(2, 2)], "{format}");
    }
    let lines = std::fs::read_to_string(at(&folder, "out.jsonl")).unwrap();
    let missing = lines.lines().nth(1).unwrap();
    assert_eq!(missing, r#"{"id":"1","embedding":null}"#);
}

/// Readers of Parquet before pyarrow 26 refuse lists of fixed size that are null.
#[test]
fn nullable_vectors_are_lists_of_variable_length_in_parquet_alone() {
    use crate::output::VectorEncoding;
    use crate::output::VectorType::{Fixed, List};
    use arrow::datatypes::DataType;

    for (format, nullable, named, expected) in [
        (OutputFormat::Parquet, false, None, Fixed),
        (OutputFormat::Parquet, true, None, List),
        (OutputFormat::Parquet, true, Some(Fixed), Fixed),
        (OutputFormat::Parquet, false, Some(List), List),
        (OutputFormat::Arrow, true, None, Fixed),
        (OutputFormat::Arrow, true, Some(List), List),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder, &format!("out.{format}"));
        let options = OutputOptions {
            vector_type: named,
            ..options(&path)
        };
        assert_eq!(options.resolved_vector_type(nullable), expected);
        let output = RunOutput {
            nullable,
            ..options.into()
        };
        let encoding = VectorEncoding::new(&output, &Forms::dense(&[2])).unwrap();
        let field = encoding.fields().next().unwrap();
        let is_fixed = matches!(field.data_type(), DataType::FixedSizeList(..));
        assert_eq!(is_fixed, expected == Fixed, "{format} {nullable} {named:?}");
    }
}

#[test]
fn several_widths_are_columns_of_their_own_and_no_matrix() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["parquet", "arrow", "jsonl", "pgcopy", "npy", "fbin"] {
        let path = at(&folder, &format!("out.{format}"));
        let options = OutputOptions {
            embedding_field: (!format.contains("bin") && format != "npy").then(|| "v".to_owned()),
            ..options(&path)
        };
        let writer = create(
            &options.clone().into(),
            &Forms::dense(&[1, 3]),
            names(),
            &id_schema(),
            &RunFiles::new(),
        );
        if ["npy", "fbin"].contains(&format) {
            let message = chain(&writer.err().unwrap());
            assert!(message.contains("dimensions"), "{message}");
            continue;
        }
        let mut writer = writer.unwrap();
        writer.write(id_rows(0, 2, 4)).unwrap();
        finish(writer, id_schema()).unwrap();
        let mut columns = Vec::new();
        read_vectors(&Readable::file(&path).unwrap(), &mut |vector| {
            columns.push((vector.column.to_owned(), vector.values.to_vec()));
            Ok(())
        })
        .unwrap();
        columns.sort_by(|(one, a), (two, b)| (one, a[0]).partial_cmp(&(two, b[0])).unwrap());
        let expected = |name: &str, part: std::ops::Range<usize>| {
            let mut vectors = [0, 1].map(|row| vector(row, 4)[part.clone()].to_vec());
            vectors.sort_by(|a, b| a[0].total_cmp(&b[0]));
            vectors.map(|vector| (name.to_owned(), vector))
        };
        let expected = [expected("v_1", 0..1), expected("v_3", 1..4)].concat();
        assert_eq!(columns, expected, "{format}");
    }
}

#[test]
fn options_that_mean_nothing_in_a_format_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: OutputOptions, word: &str| {
        let writer = create(
            &options.clone().into(),
            &Forms::dense(&[2]),
            names(),
            &id_schema(),
            &RunFiles::new(),
        );
        let message = chain(&writer.err().unwrap());
        assert!(message.contains(word), "{message}");
    };
    let to = |name: &str| OutputOptions::new(Destination::Path(at(&folder, name)));
    let vector_type = Some(VectorType::List);
    for name in ["o.jsonl", "o.npy", "o.pgcopy"] {
        refused(
            OutputOptions {
                vector_type,
                ..to(name)
            },
            "--vector-type",
        );
    }
    let embedding_field = Some("v".to_owned());
    refused(
        OutputOptions {
            embedding_field,
            ..to("o.u8bin")
        },
        "calibration",
    );
    let embedding_field = Some("v".to_owned());
    refused(
        OutputOptions {
            embedding_field,
            ..to("o.fbin")
        },
        "--embedding-field",
    );
    assert_eq!(listing(folder.path()), Vec::<String>::new());
}
