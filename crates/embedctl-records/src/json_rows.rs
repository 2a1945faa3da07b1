//! Rows as JSON: the columns `id` and kept fields, and vectors.

use std::ops::Range;
use std::sync::Arc;

use crate::json_values::{ColumnValues, key, push};
use crate::quantize::Elements;
use crate::record::{Rows, SourceNames};
use crate::sparse::SparseColumn;
use arrow::array::{RecordBatch, new_empty_array};
use arrow::datatypes::{Field, FieldRef};
use embedctl_common::error::{Error, Result};
use embedctl_vectors::Numbers;

/// The columns of some rows, ready to be written row by row.
pub struct JsonColumns<'a> {
    columns: Vec<(Vec<u8>, ColumnValues<'a>)>,
}

impl<'a> JsonColumns<'a> {
    /// Looks at each column's type once.
    ///
    /// # Errors
    /// The column for which JSON has no form, and the reason.
    pub fn new(batch: &'a RecordBatch) -> Result<Self, (FieldRef, String)> {
        let schema = batch.schema_ref();
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, array)| {
            let values = ColumnValues::of(field, array);
            let values = values.ok_or_else(|| (Arc::clone(field), without_form(field)))?;
            Ok((key(field.name()), values))
        });
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// How many columns there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.columns.len()
    }

    /// Appends `"name":value` of one column and row.
    pub fn write(&mut self, column: usize, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.columns[column].0);
        self.write_value(column, row, out);
    }

    /// Appends the value of one column and row.
    pub fn write_value(&mut self, column: usize, row: usize, out: &mut Vec<u8>) {
        self.columns[column].1.write(row, out);
    }
}

fn without_form(field: &Field) -> String {
    format!("JSON has no form for {}", field.data_type())
}

/// Checks that JSON has a form for a column's type.
///
/// # Errors
/// The reason why it has none.
pub fn check_json_type(field: &FieldRef) -> Result<(), String> {
    let nothing = new_empty_array(field.data_type());
    match ColumnValues::of(field, &nothing) {
        Some(_) => Ok(()),
        None => Err(without_form(field)),
    }
}

/// Vectors of one kind, ready to be written row by row.
pub enum JsonVectors {
    /// In full.
    Full {
        /// Each field's name, the width of its vectors, and their elements.
        fields: Vec<(Vec<u8>, usize, Elements)>,
        /// Whether a row has one number, which is no list.
        is_single: bool,
        /// How many vectors each row has, where that is any number.
        counts: Option<Vec<usize>>,
        /// The first vector of the next row, where they are counted.
        next: usize,
    },
    /// Those entries that are not zero.
    Entries {
        /// The field's name.
        key: Vec<u8>,
        /// How entries are written.
        form: SparseColumn,
        /// The vectors.
        rows: Numbers,
    },
}

/// Begins the next field of a line's object: its first, or one more.
fn begin_field(key: &[u8], out: &mut Vec<u8>) {
    separate(out);
    out.extend_from_slice(key);
}

/// The comma between two fields, unless the object has none so far.
fn separate(out: &mut Vec<u8>) {
    if out.last().is_some_and(|last| *last != b'{') {
        out.push(b',');
    }
}

impl JsonVectors {
    /// Appends the fields of the next row, whose number is `row`.
    ///
    /// # Errors
    /// If a term is unknown.
    fn write(&mut self, row: usize, is_missing: bool, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Full {
                fields,
                is_single,
                counts,
                next,
            } => {
                let own = counts.as_ref().map(|counts| *next..*next + counts[row]);
                *next = own.as_ref().map_or(0, |own| own.end);
                for (key, width, elements) in fields {
                    begin_field(key, out);
                    match &own {
                        _ if is_missing => out.extend_from_slice(b"null"),
                        Some(own) => push_vectors(elements, own.clone(), *width, out),
                        None if *is_single => elements.push_number(row, out),
                        None => elements.push_json(row, *width, out),
                    }
                }
            }
            Self::Entries { key, form, rows } => {
                begin_field(key, out);
                match is_missing {
                    true => out.extend_from_slice(b"null"),
                    false => form.push_json(rows.get(row), out)?,
                }
            }
        }
        Ok(())
    }
}

/// A list of vectors, those of the places `own`.
fn push_vectors(elements: &Elements, own: Range<usize>, width: usize, out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, vector) in own.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        elements.push_json(vector, width, out);
    }
    out.push(b']');
}

/// Appends rows from `first` on as lines of JSON, each an object of its columns and its vectors, until `out` holds `most`
/// bytes. Returns which row is next.
///
/// # Errors
/// If a term of a sparse vector is unknown.
pub fn append_lines(
    rows: &Rows,
    first: usize,
    columns: &mut JsonColumns<'_>,
    vectors: &mut [JsonVectors],
    most: usize,
    out: &mut Vec<u8>,
) -> Result<usize> {
    for row in first..rows.len() {
        if out.len() >= most {
            return Ok(row);
        }
        out.push(b'{');
        for column in 0..columns.count() {
            separate(out);
            columns.write(column, row, out);
        }
        for kind in &mut *vectors {
            kind.write(row, rows.is_missing(row), out)?;
        }
        out.extend_from_slice(b"}\n");
    }
    Ok(rows.len())
}

/// Appends what the file beside a matrix says of rows from `first` on, until `out` holds `most` bytes:
/// `{"row":…,"id":…,"line":…}` and the kept fields. `before` rows are described already; `names` has the sources' names,
/// where each row says its own. Returns which row is next.
///
/// # Errors
/// Only on an internal error.
pub fn describe_rows(
    rows: &Rows,
    first: usize,
    columns: &mut JsonColumns<'_>,
    (before, names): (u64, Option<&SourceNames>),
    most: usize,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let describe = |columns: &mut JsonColumns<'_>, which: Range<usize>, row, out: &mut Vec<u8>| {
        for column in which {
            out.push(b',');
            columns.write(column, row, out);
        }
    };
    // The id is the first column; there may be none.
    let ids = columns.count().min(1);
    for (row, origin) in rows.origins.iter().enumerate().skip(first) {
        if out.len() >= most {
            return Ok(row);
        }
        out.extend_from_slice(b"{\"row\":");
        push(out, &(before + row as u64));
        describe(columns, 0..ids, row, out);
        out.extend_from_slice(b",\"line\":");
        push(out, &origin.line);
        if let Some(names) = names {
            let name = names.get(origin.source as usize).ok_or_else(|| {
                Error::internal(format!("a row came from source {}", origin.source))
            })?;
            out.extend_from_slice(b",\"file\":");
            push(out, name);
        }
        describe(columns, ids..columns.count(), row, out);
        out.extend_from_slice(b"}\n");
    }
    Ok(rows.origins.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::JSON_COLUMN;
    use arrow::array::*;
    use arrow::datatypes::{DataType, Float32Type, Int8Type, Schema, UInt8Type};
    use std::sync::Arc;

    fn row(columns: &mut JsonColumns<'_>, row: usize) -> String {
        let mut out = Vec::new();
        for column in 0..columns.count() {
            if column > 0 {
                out.push(b' ');
            }
            columns.write(column, row, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_texts_stay_on_their_line() {
        let field = Field::new("j", DataType::Utf8, true)
            .with_metadata([(JSON_COLUMN.0.to_string(), JSON_COLUMN.1.to_string())]);
        let schema = Arc::new(Schema::new(vec![field]));
        let array = StringArray::from(vec!["{\r\n\"a\":1}"]);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(array)]).unwrap();
        assert_eq!(
            row(&mut JsonColumns::new(&batch).unwrap(), 0),
            "\"j\":{  \"a\":1}"
        );
    }

    #[test]
    fn arrows_other_types_have_their_usual_form() {
        let times = TimestampMillisecondArray::from(vec![Some(1_500), None]).with_timezone("UTC");
        let decimals = Decimal128Array::from(vec![Some(-1234), None]);
        let decimals = decimals.with_precision_and_scale(9, 2).unwrap();
        let words: DictionaryArray<Int8Type> = [Some("a"), None].into_iter().collect();
        let lists = vec![Some(vec![Some(1), None]), None];
        let lists = ListArray::from_iter_primitive::<UInt8Type, _, _>(lists);
        let inner = Arc::new(Field::new("x", DataType::Utf8, true));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>, None]));
        let both = StructArray::from(vec![(inner, texts)]);
        let batch = RecordBatch::try_from_iter([
            ("time", Arc::new(times) as ArrayRef),
            ("price", Arc::new(decimals)),
            ("word", Arc::new(words)),
            ("list", Arc::new(lists)),
            ("both", Arc::new(both)),
        ])
        .unwrap();
        let mut columns = JsonColumns::new(&batch).unwrap();
        assert_eq!(
            row(&mut columns, 0),
            r#""time":"1970-01-01T00:00:01.500Z" "price":-12.34 "word":"a" "list":[1,null] "both":{"x":null}"#
        );
        assert_eq!(
            row(&mut columns, 1),
            r#""time":null "price":null "word":null "list":null "both":{"x":null}"#
        );
    }

    #[test]
    fn nested_and_repeated_values_have_their_form() {
        let nothing: DictionaryArray<Int8Type> = [None::<&str>, None].into_iter().collect();
        let ends = Int16Array::from(vec![1, 2]);
        let runs = RunArray::try_new(&ends, &StringArray::from(vec![None, Some("b")])).unwrap();
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("a\"");
        map.values().append_null();
        map.append(true).unwrap();
        map.append(true).unwrap();
        let bytes = FixedSizeBinaryArray::try_from_iter([[1, 0xab], [0, 0]].iter()).unwrap();
        let lists = [Some(vec![Some(f32::NAN), Some(0.5)]), None];
        let lists = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(lists, 2);
        let batch = RecordBatch::try_from_iter([
            ("nothing", Arc::new(nothing) as ArrayRef),
            ("runs", Arc::new(runs)),
            ("map", Arc::new(map.finish())),
            ("bytes", Arc::new(bytes)),
            ("lists", Arc::new(lists)),
        ]);
        let batch = batch.unwrap();
        let mut columns = JsonColumns::new(&batch).unwrap();
        assert_eq!(
            row(&mut columns, 0),
            r#""nothing":null "runs":null "map":{"a\"":null} "bytes":"01ab" "lists":[null,0.5]"#
        );
        assert_eq!(
            row(&mut columns, 1),
            r#""nothing":null "runs":"b" "map":{} "bytes":"0000" "lists":null"#
        );
        // Slices keep their place.
        let slice = batch.slice(1, 1);
        assert_eq!(
            row(&mut JsonColumns::new(&slice).unwrap(), 0),
            row(&mut columns, 1)
        );
    }

    #[test]
    fn no_value_is_changed_on_its_way_to_json() {
        let floats = Float64Array::from(vec![1_700_000_000.5, 1e-5, f64::INFINITY]);
        let beyond = TimestampSecondArray::from(vec![i64::MAX, 0, -1]);
        let words = StringArray::from(vec![Some("a"), None]);
        let words = DictionaryArray::<Int8Type>::new(vec![0, 1, 0].into(), Arc::new(words));
        let integers = UInt64Array::from(vec![u64::MAX, 9_007_199_254_740_993, 0]);
        let batch = RecordBatch::try_from_iter([
            ("float", Arc::new(floats) as ArrayRef),
            ("time", Arc::new(beyond)),
            ("word", Arc::new(words)),
            ("int", Arc::new(integers)),
        ]);
        let batch = batch.unwrap();
        let mut columns = JsonColumns::new(&batch).unwrap();
        let expected = [
            r#""float":1700000000.5 "time":null "word":"a" "int":18446744073709551615"#,
            r#""float":0.00001 "time":"1970-01-01T00:00:00" "word":null "int":9007199254740993"#,
            r#""float":null "time":"1969-12-31T23:59:59" "word":"a" "int":0"#,
        ];
        for (number, expected) in expected.into_iter().enumerate() {
            assert_eq!(row(&mut columns, number), expected);
        }
    }

    #[test]
    fn what_json_has_no_form_for_is_refused_by_its_name() {
        let union = UnionArray::try_new(
            [(0, Arc::new(Field::new("a", DataType::Int8, true)))]
                .into_iter()
                .collect(),
            Vec::<i8>::from([0]).into(),
            None,
            vec![Arc::new(Int8Array::from(vec![1]))],
        );
        let batch = RecordBatch::try_from_iter([("odd", Arc::new(union.unwrap()) as ArrayRef)]);
        let batch = batch.unwrap();
        let (field, reason) = JsonColumns::new(&batch).err().unwrap();
        assert_eq!(field.name(), "odd");
        assert!(reason.contains("JSON has no form for Union"), "{reason}");
    }
}
