//! The columns `id` and kept fields, as JSON.

use crate::formats::refused_type;
use crate::json_values::{self as json, ColumnValues};
use arrow::array::{RecordBatch, new_empty_array};
use arrow::datatypes::{Field, FieldRef};
use embedctl_common::error::Result;

/// The columns of some rows, ready to be written row by row.
pub(crate) struct JsonColumns<'a> {
    columns: Vec<(Vec<u8>, ColumnValues<'a>)>,
}

impl<'a> JsonColumns<'a> {
    /// Looks at each column's type once.
    ///
    /// # Errors
    /// If JSON has no form for one.
    pub fn new(batch: &'a RecordBatch) -> Result<Self> {
        let schema = batch.schema_ref();
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, array)| {
            let values = ColumnValues::of(field, array);
            let values = values.ok_or_else(|| refused_type(field, &without_form(field)))?;
            Ok((json::key(field.name()), values))
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { columns })
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
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
pub(crate) fn check_json_type(field: &FieldRef) -> Result<(), String> {
    let nothing = new_empty_array(field.data_type());
    match ColumnValues::of(field, &nothing) {
        Some(_) => Ok(()),
        None => Err(without_form(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::support::kept_batch;
    use crate::record::JSON_COLUMN;
    use arrow::array::*;
    use arrow::datatypes::{DataType, Float32Type, Int8Type, Schema, UInt8Type};
    use std::sync::Arc;

    fn row(columns: &mut JsonColumns<'_>, row: usize) -> String {
        let mut out = Vec::new();
        for column in 0..columns.len() {
            if column > 0 {
                out.push(b' ');
            }
            columns.write(column, row, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_and_its_nulls() {
        let batch = kept_batch();
        let mut columns = JsonColumns::new(&batch).unwrap();
        assert_eq!(
            row(&mut columns, 0),
            r#""id":"ä\"1\"" "a.b":"zwei\nlines" "int":-9007199254740993 "float":0.1 "bool":true "json":{"x": [1, null]}"#
        );
        assert_eq!(
            row(&mut columns, 1),
            r#""id":null "a.b":null "int":null "float":null "bool":null "json":null"#
        );
        assert_eq!(
            row(&mut columns, 2),
            r#""id":"" "a.b":"" "int":0 "float":null "bool":false "json":"日本\n""#
        );
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
        let error = JsonColumns::new(&batch.unwrap()).err().unwrap().to_string();
        assert!(error.contains("keep odd"), "{error}");
    }
}
