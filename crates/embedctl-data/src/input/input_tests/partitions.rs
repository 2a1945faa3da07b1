//! Folders as Hive and Spark write them: partitions in names, and files without an ending.

use super::*;
use crate::input::tests::tables::parquet;
use ::parquet::basic::Compression;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type};

/// The records of a folder: the text, and each kept column as text.
fn read(folder: &Path, options: InputOptions) -> Vec<Vec<String>> {
    let sources = expand(&[folder.to_path_buf()], options.format, &mut Vec::new()).unwrap();
    let windows = windows(RecordReader::open(&sources, options).unwrap()).unwrap();
    let rows = windows.iter().flat_map(|window| {
        let columns = window.columns.columns().iter().skip(1);
        let columns: Vec<Vec<Option<String>>> = columns
            .map(|column| match column.data_type() {
                DataType::Int64 => {
                    let numbers = column.as_primitive::<Int64Type>().iter();
                    numbers.map(|it| it.map(|it| format!("{it}i"))).collect()
                }
                _ => {
                    let texts = column.as_string::<i32>().iter();
                    texts.map(|it| it.map(str::to_owned)).collect()
                }
            })
            .collect();
        window.texts.iter().enumerate().map(move |(row, text)| {
            let kept = columns
                .iter()
                .map(|column| column[row].clone().unwrap_or("-".to_owned()));
            [text.to_owned()].into_iter().chain(kept).collect()
        })
    });
    rows.collect()
}

fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn table(text: &str) -> Vec<u8> {
    let texts = StringArray::from(vec![text]);
    let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as _)]).unwrap();
    parquet(&[batch], 10, Compression::UNCOMPRESSED)
}

#[test]
fn partitions_are_columns_of_every_format() {
    type Writes = fn(&str) -> Vec<u8>;
    let formats: [(&str, Writes); 4] = [
        ("parquet", table),
        ("jsonl", |text| {
            format!("{{\"text\": \"{text}\"}}\n").into_bytes()
        }),
        ("csv", |text| format!("text\n{text}\n").into_bytes()),
        ("txt", |text| format!("{text}\n").into_bytes()),
    ];
    for (ending, write) in formats {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(
            root,
            &format!("year=2023/code=007/a.{ending}"),
            write("one"),
        );
        put(
            root,
            &format!("year=2024/code=S%C3%A3o/a.{ending}"),
            write("two"),
        );
        put(
            root,
            &format!("year=__HIVE_DEFAULT_PARTITION__/code=x/a.{ending}"),
            write("three"),
        );
        put(root, &format!("z.{ending}"), write("four"));
        let rows = |keep: &[&str]| read(root, keeping(keep));
        let expected = [
            ["one", "2023i", "007"],
            ["two", "2024i", "São"],
            ["three", "-", "x"],
            ["four", "-", "-"],
        ];
        assert_eq!(rows(&["year", "code"]), expected, "{ending}");
        let strings = [
            ["one", "2023"],
            ["two", "2024"],
            ["three", "-"],
            ["four", "-"],
        ];
        assert_eq!(rows(&["year:string"]), strings, "{ending}");
        if ending != "txt" {
            let all = expected.map(|[text, year, code]| [text, text, year, code]);
            assert_eq!(rows(&["*"]), all, "{ending}");
        }
        assert_eq!(read(root, options())[0], ["one"]);
        let sources = expand(&[root.to_path_buf()], None, &mut Vec::new()).unwrap();
        let error = RecordReader::open(&sources, keeping(&["code:int"]));
        let error = error.map(drop).unwrap_err().to_string();
        assert!(
            error.contains("code=S") && error.contains("type int"),
            "{error}"
        );
    }
}

/// A table of a text, and of a column of days or of strings.
fn table_of(text: &str, name: &str, value: &str) -> Vec<u8> {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let values: ArrayRef = Arc::new(StringArray::from(vec![value]));
    let values = arrow::compute::cast(&values, &DataType::Date32).ok();
    let values = values.filter(|days| days.null_count() == 0);
    let values = values.unwrap_or_else(|| Arc::new(StringArray::from(vec![value])));
    let columns = match name {
        "text" => vec![("text", texts)],
        _ => vec![("text", texts), (name, values)],
    };
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    parquet(&[batch], 10, Compression::UNCOMPRESSED)
}

/// Texts and rejected records of a folder.
fn outcome(root: &Path, options: InputOptions) -> (Vec<String>, Vec<String>) {
    let sources = expand(&[root.to_path_buf()], options.format, &mut Vec::new()).unwrap();
    let windows = windows(RecordReader::open(&sources, options).unwrap()).unwrap();
    let texts = windows.iter().flat_map(|window| window.texts.iter());
    let rejects = windows.iter().flat_map(Window::rejects);
    (
        texts.map(str::to_owned).collect(),
        rejects.map(|reject| reject.cause.to_string()).collect(),
    )
}

#[test]
fn a_field_that_says_otherwise_than_a_partition_of_its_name_is_refused() {
    type Writes = fn(&str, &str) -> Vec<u8>;
    let formats: [(&str, Writes); 3] = [
        ("parquet", |name, value| table_of("a cat", name, value)),
        ("jsonl", |name, value| match name {
            "text" => b"{\"text\": \"a cat\"}\n".to_vec(),
            _ => format!("{{\"text\": \"a cat\", \"{name}\": \"{value}\"}}\n").into_bytes(),
        }),
        ("csv", |name, value| match name {
            "text" => b"text\na cat\n".to_vec(),
            _ => format!("text,{name}\na cat,{value}\n").into_bytes(),
        }),
    ];
    let text: (&str, Writes) = ("txt", |_, _| b"a cat\n".to_vec());
    for (ending, write) in formats.into_iter().chain([text]) {
        for (partition, value, is_same) in [
            ("lang=en", "de", false),
            ("lang=en", "en", true),
            ("day=2024-01-31", "2024-01-31", true),
            ("day=2024-01-31", "2024-02-01", false),
            // The text is a field, too.
            ("text=zzz", "", false),
        ] {
            let (name, _) = partition.split_once('=').unwrap();
            if ending == "txt" && name != "text" {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            put(
                folder.path(),
                &format!("{partition}/a.{ending}"),
                write(name, value),
            );
            for keep in [name, "*"] {
                let case = format!("{ending} {partition} {value} {keep}");
                let (texts, rejects) = outcome(folder.path(), keeping(&[keep]));
                if is_same {
                    assert_eq!((texts.len(), rejects.len()), (1, 0), "{case}: {rejects:?}");
                    let rows = read(folder.path(), keeping(&[keep]));
                    assert_eq!(rows[0].last().unwrap(), value, "{case}");
                    continue;
                }
                assert_eq!((texts.len(), rejects.len()), (0, 1), "{case}");
                assert!(
                    rejects[0].contains(&format!("field `{name}`"))
                        && rejects[0].contains(partition),
                    "{case}: {rejects:?}"
                );
            }
            let (texts, rejects) = outcome(folder.path(), options());
            assert_eq!(
                (texts.len(), rejects.len()),
                (1, 0),
                "{ending} {partition}, not kept"
            );
        }
    }
}

#[test]
fn a_field_under_the_name_of_other_folders_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "lang=en/a.jsonl", "{\"text\": \"one\"}\n");
    put(
        folder.path(),
        "plain/a.jsonl",
        "{\"text\": \"two\", \"lang\": \"de\"}\n{\"text\": \"three\", \"lang\": null}\n",
    );
    let (texts, rejects) = outcome(folder.path(), keeping(&["lang"]));
    assert_eq!(texts, ["one", "three"]);
    assert!(
        rejects[0].contains("folders called `lang=…`"),
        "{rejects:?}"
    );
}

#[test]
fn a_partition_called_id_stands_beside_the_column_of_ids() {
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        "id=7/a.jsonl",
        "{\"text\": \"one\", \"key\": \"k\"}\n",
    );
    let names = |options: InputOptions| {
        let sources = expand(&[folder.path().to_path_buf()], None, &mut Vec::new()).unwrap();
        let windows = windows(RecordReader::open(&sources, options).unwrap()).unwrap();
        let schema = windows[0].columns.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(keeping(&["*"])), ["id", "text", "key"]);
    let of_key = InputOptions {
        id_field: Some("key".into()),
        ..keeping(&["*"])
    };
    assert_eq!(names(of_key), ["key", "text", "id"]);
}

#[test]
fn files_without_an_ending_are_read_where_their_format_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["000000_0", "part-00001", "day=1/000000_0"] {
        put(root, name, table(name));
    }
    put(root, "LICENSE", "not a record\n");
    put(root, "notes1", "nor this\n");
    put(root, ".000000_0.crc", "nor this\n");
    let texts = |format| -> Vec<String> {
        let options = InputOptions {
            format,
            ..options()
        };
        read(root, options)
            .into_iter()
            .map(|row| row[0].clone())
            .collect()
    };
    assert_eq!(texts(None), ["000000_0", "day=1/000000_0", "part-00001"]);
    for name in ["000000_0", "part-00001", "day=1/000000_0"] {
        put(root, name, format!("{name}\n"));
    }
    assert_eq!(
        texts(Some(InputFormat::Text)),
        ["000000_0", "day=1/000000_0", "nor this", "part-00001"]
    );
    assert!(expand(&[root.to_path_buf()], None, &mut Vec::new()).is_err());
}

#[test]
fn a_lakes_table_is_refused_wherever_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(root, "all/t/_delta_log/00000000000000000000.json", "{}");
    put(root, "all/t/year=2024/part-0.parquet", table("deleted"));
    put(root, "all/plain/a.txt", "text\n");
    for input in [
        "all",
        "all/t",
        "all/t/year=2024",
        "all/**/*.parquet",
        "all/t/*/*",
    ] {
        let error = expand(&[root.join(input)], None, &mut Vec::new())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("Delta Lake") && error.contains("delta_scan"),
            "{error}"
        );
    }
    // A file that is named is meant.
    assert!(
        expand(
            &[root.join("all/t/year=2024/part-0.parquet")],
            None,
            &mut Vec::new()
        )
        .is_ok()
    );
    assert!(expand(&[root.join("all/plain")], None, &mut Vec::new()).is_ok());
}
