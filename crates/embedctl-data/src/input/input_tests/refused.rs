//! Tables that are not what was asked for, damaged, or at odds with each other.

use parquet::basic::Compression;

use super::columns::read;
use super::tables::{arrow_file, arrow_stream, batch, parquet, windows_of};
use super::*;
use arrow::array::RecordBatch;
use arrow::array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, NullArray, StringArray};
use embedctl_common::error::ErrorKind;
use embedctl_records::record::Reject;

#[test]
fn a_table_without_what_was_asked_for_is_refused() {
    let files = Files::new().with("a.parquet", parquet(&[batch(0, 2)], 9, Compression::SNAPPY));
    let id_type = |name: &str, id_type| InputOptions {
        id_field: Some(name.to_owned()),
        id_type,
        ..options()
    };
    let text = |name: &str| InputOptions {
        text_field: name.to_owned(),
        ..options()
    };
    for (options, expected) in [
        (
            text("body"),
            "no column is called `body`; the columns are `unused`, `id`, `text`, `when`, `price`, `list`, `meta`, \
             `tag`; name one of them with `--text-field`",
        ),
        (text("meta.month"), "no column is called `meta.month`"),
        (
            text("price"),
            "the column `price` has the type Decimal128(20, 2), but texts are strings",
        ),
        (text("price"), "(strings are in `unused`, `text`, `tag`)"),
        (
            id_type("nope", IdType::String),
            "name one of them with `--id-field`",
        ),
        (
            id_type("list", IdType::String),
            "the id `list` has the type List(Int32), but ids are",
        ),
        (id_type("unused", IdType::Int), "use `--id-type string`"),
        (keeping(&["lang"]), "name one of them with `--keep`"),
        (
            keeping(&["list:int"]),
            "which `--keep list:int` does not take",
        ),
        (keeping(&["price:json"]), "leave the type out"),
    ] {
        let error = files.open(options).unwrap().next_window().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(texts(&files.read(text("tag"))), ["even", "odd"]);
}

#[test]
fn declared_types_are_cast_and_misfits_rejected() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let values: ArrayRef = Arc::new(StringArray::from(vec!["1", "x", "2"]));
    let batch = RecordBatch::try_from_iter([("text", texts), ("k", values)]).unwrap();
    let files = Files::new().with("a.arrow", arrow_file(&[batch]));
    let window = files.window(keeping(&["k:int"]));
    assert_eq!(
        window.columns["k"].as_ref(),
        &Int64Array::from(vec![1, 2]) as &dyn Array
    );
    let reason = window.rejects().next().unwrap().cause.to_string();
    assert!(
        reason.contains("is no Int64 (x); use `--keep k:string`"),
        "{reason}"
    );
    let window = files.window(keeping(&["k:json"]));
    assert_eq!((window.texts.len(), window.rejects().count()), (2, 1));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let values: ArrayRef = Arc::new(StringArray::from(vec!["1", "1e400"]));
    let floats = RecordBatch::try_from_iter([("text", texts), ("k", values)]).unwrap();
    let floats = Files::new().with("a.arrow", arrow_file(&[floats]));
    assert_eq!(floats.window(keeping(&["k:float"])).rejects().count(), 1);
    assert_eq!(window.columns.schema().field(1).metadata().len(), 1);
}

#[test]
fn a_text_in_a_table_is_a_number_or_a_truth_value_only_as_it_stands() {
    for (kind, values, expected) in [
        (
            "int",
            [
                "-7",
                "9223372036854775807",
                "9223372036854775808",
                " 5",
                "1.0",
            ],
            ["-7", "9223372036854775807"].as_slice(),
        ),
        (
            "float",
            ["1e-5", "inf", "nan", " 5", ".5"],
            &["1e-5", "0.5"],
        ),
        ("bool", ["Yes", "0", "tru", "of", ""], &["true", "false"]),
    ] {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"; 5]));
        let values: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let batch = RecordBatch::try_from_iter([("text", texts), ("k", values)]).unwrap();
        let files = Files::new().with("a.arrow", arrow_file(&[batch]));
        let (found, rejects) = read(&files, "k", keeping(&[&format!("k:{kind}")]));
        assert_eq!(found, expected, "{kind}");
        assert_eq!(rejects.len(), 5 - expected.len(), "{kind}");
    }
}

#[test]
fn types_of_several_tables_must_agree() {
    let with = |values: ArrayRef| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        arrow_file(&[RecordBatch::try_from_iter([("text", texts), ("k", values)]).unwrap()])
    };
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![2]));
    let null: ArrayRef = Arc::new(NullArray::new(1));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let files = Files::new()
        .with("a.arrow", with(Arc::clone(&wide)))
        .with("b.arrow", with(narrow))
        .with("c.arrow", with(null));
    let window = files.window(keeping(&["k"]));
    assert_eq!(
        window.columns["k"].as_ref(),
        &Int64Array::from(vec![Some(1), Some(2), None]) as &dyn Array
    );
    let integer: ArrayRef = Arc::new(Int64Array::from(vec![9_007_199_254_740_993]));
    let float: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    let mixed = Files::new()
        .with("a.arrow", with(float))
        .with("b.arrow", with(integer));
    for (keep, expected) in [("k", 1), ("k:float", 0)] {
        let windows = windows_of(&mixed, keeping(&[keep])).unwrap();
        let rejects: Vec<_> = windows.iter().flat_map(Window::rejects).collect();
        assert_eq!(rejects.len(), expected, "{keep}");
        let digits = |it: &&Reject| it.cause.to_string().contains("(9007199254740993)");
        assert!(rejects.iter().all(digits), "{rejects:?}");
    }
    let files = files.with("d.arrow", with(text));
    let error = failure(windows_of(&files, keeping(&["k"])));
    assert!(
        error.contains(
            "d.arrow: the column `k` has the type Utf8, but what was read before made it Int64"
        ),
        "{error}"
    );
}

#[test]
fn what_is_no_table_or_cut_is_told() {
    let batches = [batch(0, 30)];
    let whole = parquet(&batches, 10, Compression::SNAPPY);
    let mut torn = whole.clone();
    torn[4..whole.len() / 4].fill(0xa5);
    let file = arrow_file(&batches);
    let stream = arrow_stream(&batches);
    let second = {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let reader = SerializedFileReader::new(bytes::Bytes::from(whole.clone())).unwrap();
        let group = reader.metadata().row_group(1);
        let column = |index: usize| group.column(index).byte_range();
        let (start, _) = column(0);
        let (last, length) = column(group.num_columns() - 1);
        let mut torn = whole.clone();
        let [start, end] = [start, last + length].map(|at| usize::try_from(at).unwrap());
        torn[start..end].fill(0xa5);
        torn
    };
    let both = arrow_stream(&[batch(0, 30), batch(30, 30)]);
    for (name, content, expected) in [
        (
            "a.parquet",
            whole[..whole.len() - 20].to_vec(),
            "cut short or still being written",
        ),
        ("b.parquet", Vec::new(), "is empty"),
        (
            "c.parquet",
            b"id,text\n1,some words\n".to_vec(),
            "is not a Parquet file",
        ),
        ("d.parquet", torn, "row group "),
        // The whole rows before it are told.
        (
            "second.parquet",
            second,
            "second.parquet, after line 10: row group 2 of 3 cannot be read",
        ),
        (
            "second.arrows",
            both[..both.len() - 100].to_vec(),
            "second.arrows, after line 30: record batch 2 cannot be read",
        ),
        (
            "e.arrow",
            file[..file.len() - 20].to_vec(),
            "its footer cannot be read",
        ),
        (
            "f.arrows",
            stream[..stream.len() / 2].to_vec(),
            "record batch 1 cannot be read",
        ),
        (
            "g.arrow",
            b"id,text\n1,some words\n".to_vec(),
            "neither an Arrow file nor",
        ),
        (
            "h.feather",
            b"FEA1aaaaaaaaaaaaaa".to_vec(),
            "Feather version 1",
        ),
        ("i.arrow", Vec::new(), "is empty"),
        ("j.arrow", whole.clone(), "say `-i parquet`"),
    ] {
        let files = Files::new().with(name, content);
        let error = windows_of(&files, options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        let error = error.to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    let compressed = Files::new().with("a.parquet.gz", "");
    let error = failure(compressed.open(options()));
    assert!(error.contains("decompress it first"), "{error}");
}

/// Each of these was read as one record, as none, or refused with a remedy that leads to another fault.
#[test]
fn files_of_other_programs_are_refused_with_what_helps() {
    let cases: [(&str, &[u8], &str); 12] = [
        ("mac.txt", b"one\rtwo\rthree", "tr '\\r' '\\n'"),
        ("mac.csv", b"id,text\r1,a\r2,b\r", "tr '\\r' '\\n'"),
        (
            "mac.jsonl",
            b"{\"text\":\"a\"}\r{\"text\":\"b\"}\r",
            "tr '\\r' '\\n'",
        ),
        (
            "excel.csv",
            b"sep=;\r\nid;text\r\n1;a\r\n",
            "--csv-delimiter ';'",
        ),
        (
            "excel.csv",
            b"\"sep=\t\"\r\nid\ttext\r\n1\ta\r\n",
            "--csv-delimiter '\\t'",
        ),
        ("excel.csv", b"id,text\n1,caf\xe9\n", "WINDOWS-1252"),
        ("caf\u{e9}.txt", b"caf\xe9 \x93a\x94\n", "WINDOWS-1252"),
        ("a.pdf", b"%PDF-1.7\n", "pdftotext"),
        ("a.xlsx", b"PK\x03\x04", "save the sheet as CSV"),
        ("a.docx", b"PK\x03\x04", "the document as text"),
        ("a.db", b"SQLite format 3\0", "sqlite3 -header -csv"),
        ("cut.pdf", b"", "pdftotext"),
    ];
    for (name, content, words) in cases {
        let files = Files::new().with(name, content);
        let opened = files.open(options());
        let window = opened.and_then(|mut reader| reader.next_window());
        let told = match window {
            Err(error) => error.to_string(),
            Ok(window) => window.unwrap().rejects().next().unwrap().cause.to_string(),
        };
        assert!(told.contains(words), "{name}: {told}");
    }
    // A carriage return within a line, in a line's end, or at the end of all is none of these.
    for (content, expected) in [
        ("a\rb\nc\n", vec!["a\rb", "c"]),
        ("a\r\nb\r\n", vec!["a", "b"]),
        ("a\r\n", vec!["a"]),
    ] {
        assert_eq!(
            texts(&Files::new().with("a.txt", content).read(options())),
            expected
        );
    }
}
