//! Kept columns of every type of Arrow's, in every format: written, or refused in words.

use std::sync::Arc;

use crate::output::tests::support::*;
use crate::output::{Forms, OutputFormat, OutputOptions, RunFiles, create};
use arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{
    DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode,
};
use embedctl_common::error::ErrorKind;
use embedctl_testing::stride;

fn item(kind: &DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(kind.clone(), true))
}

/// Types without an inner one.
fn plain() -> Vec<DataType> {
    use DataType::*;
    let mut kinds = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(3),
        FixedSizeBinary(0),
        Utf8,
        LargeUtf8,
        Utf8View,
        Decimal32(5, 2),
        Decimal64(5, 2),
        Decimal128(5, 2),
        Decimal256(5, 2),
    ];
    for unit in [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ] {
        kinds.extend([
            Timestamp(unit, None),
            Timestamp(unit, Some("UTC".into())),
            Duration(unit),
        ]);
    }
    kinds.extend([TimeUnit::Second, TimeUnit::Millisecond].map(Time32));
    kinds.extend([TimeUnit::Microsecond, TimeUnit::Nanosecond].map(Time64));
    kinds.extend(
        [
            IntervalUnit::YearMonth,
            IntervalUnit::DayTime,
            IntervalUnit::MonthDayNano,
        ]
        .map(Interval),
    );
    let unions = [UnionMode::Sparse, UnionMode::Dense].map(|mode| {
        let fields = [Field::new("a", Int8, true), Field::new("b", Utf8, true)];
        Union(UnionFields::try_new(vec![0, 7], fields).unwrap(), mode)
    });
    kinds.extend(unions);
    kinds
}

/// The types that hold an inner one.
fn around(inner: &DataType) -> Vec<DataType> {
    use DataType::*;
    let key = Field::new("key", Utf8, false);
    let entries = Struct(Fields::from(vec![
        key,
        Field::new("value", inner.clone(), true),
    ]));
    vec![
        List(item(inner)),
        LargeList(item(inner)),
        FixedSizeList(item(inner), 2),
        FixedSizeList(item(inner), 0),
        ListView(item(inner)),
        LargeListView(item(inner)),
        Struct(Fields::from(vec![Field::new("s", inner.clone(), true)])),
        Map(Arc::new(Field::new("entries", entries, false)), false),
        Dictionary(Box::new(Int8), Box::new(inner.clone())),
        RunEndEncoded(Arc::new(Field::new("run_ends", Int32, false)), item(inner)),
    ]
}

#[test]
fn every_kept_type_is_written_or_refused_with_the_formats_that_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = plain();
    // Of every sort one, and both unions.
    let within = kinds.iter().step_by(7).chain(&kinds[kinds.len() - 2..]);
    let nested = within.flat_map(around).collect::<Vec<_>>();
    let deep = around(&nested[nested.len() - 8]);
    let mut written = 0;
    let all = kinds.iter().chain(&nested).chain(&deep);
    for kind in all.step_by(stride(4)) {
        let odd = Arc::new(Field::new("odd", kind.clone(), true));
        let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let fields = vec![
            Arc::new(Field::new("id", DataType::Utf8, true)),
            Arc::clone(&odd),
        ];
        let schema = Arc::new(Schema::new(fields));
        let Ok(nothing) = embedctl_common::threads::caught(|| new_null_array(kind, 2)) else {
            continue; // arrow has no such arrays
        };
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![ids, nothing]).unwrap();
        for format in OutputFormat::all() {
            let path = at(&folder, &format!("out.{format}"));
            let facts = format.facts();
            let dtype = facts.dtypes.iter().find(|dtype| !dtype.needs_ranges());
            let options = OutputOptions {
                dtype: dtype.copied(),
                ..forced(&path)
            };
            let Ok(mut writer) = create(
                &options.clone().into(),
                &Forms::dense(&[8]),
                names(),
                &schema,
                &RunFiles::new(),
            ) else {
                continue; // bytes need a calibration
            };
            let said = format.check_type(&odd);
            match (writer.write(rows(batch.clone(), 0, 8)), said) {
                (Ok(()), Ok(())) => {
                    finish(writer, Arc::clone(&schema)).unwrap();
                    written += 1;
                }
                (Err(error), Err(_)) => {
                    assert_eq!(error.kind(), ErrorKind::Usage, "{format}: {error}");
                    let words = chain(&error);
                    assert!(words.contains("keep odd"), "{format}: {words}");
                    let advised = words.split("-f ").skip(1);
                    let advised = advised.filter_map(|rest| rest.split([',', ' ', ';']).next());
                    let advised: Vec<&str> = advised.collect();
                    for other in OutputFormat::all() {
                        let named = advised.contains(&other.name());
                        let holds = other.check_type(&odd).is_ok();
                        assert!(
                            holds || !named,
                            "{format} advises {other} for {kind}: {words}"
                        );
                        assert!(named || !holds, "{format}, {kind}: {words}");
                    }
                }
                (written, said) => panic!("{format}, {kind}: {written:?}, {said:?}"),
            }
        }
    }
    assert!(written > 500 / stride(4), "{written}");
}
