//! How a Parquet file's columns are encoded, and which types it has forms for.

use std::fmt::Display;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use ::parquet::schema::types::ColumnPath;

use crate::writing::encoding::VectorEncoding;
use crate::writing::format::OutputFormat;
use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use embedctl_common::error::Result;
use embedctl_common::threads::caught;
use embedctl_records::retype;

/// Rows of a row group at most, for narrow vectors.
const ROW_GROUP_ROWS: usize = 1 << 17;

/// Compression level: higher ones gain little.
const ZSTD_LEVEL: i32 = 1;

/// Columns of a table, at most, whose encoders have dictionaries and codecs: a dictionary takes room for thousands of values
/// from its first value on, 50 KiB about, and a codec has a compressor and a decompressor, 100 KiB about.
const MOST_ENCODERS: usize = 1_000;

/// Checks that Parquet has forms for the columns' types.
///
/// # Errors
/// If it has none for one of them.
pub(super) fn check_types(schema: &Schema) -> Result<()> {
    let mut fields = schema.fields().iter();
    fields.try_for_each(|field| OutputFormat::Parquet.check_type(field))
}

/// Checks that Parquet has a form for a column's type, by writing one such column to nowhere.
///
/// # Errors
/// The reason why it has none.
pub(super) fn check_type(field: &Field) -> std::result::Result<(), String> {
    let refused = |cause: &dyn Display| {
        let kind = field.data_type();
        format!("Parquet has no type for {kind} ({cause})")
    };
    // The encoder panics over these; it should answer with an error, as it does over other types.
    if let Some(odd) = unencodable(field.data_type()) {
        return Err(refused(&odd));
    }
    let kind = retype::of_type(field.data_type(), retype::parquet_times);
    let one = Arc::new(field.clone().with_data_type(kind).with_nullable(true));
    let nothing = new_null_array(one.data_type(), 1);
    let schema = Arc::new(Schema::new(vec![one]));
    let tried = caught(|| {
        let mut writer = ArrowWriter::try_new(std::io::sink(), Arc::clone(&schema), None)?;
        writer.write(&RecordBatch::try_new(schema, vec![nothing])?)?;
        writer.close()
    });
    match tried {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(refused(&error)),
        Err(panic) => Err(refused(&panic)),
    }
}

/// The part of a type over which the encoder panics.
fn unencodable(kind: &DataType) -> Option<&'static str> {
    match kind {
        DataType::Union(..) => Some("it is a union"),
        DataType::FixedSizeBinary(0) => Some("its values have no bytes"),
        DataType::List(item)
        | DataType::ListView(item)
        | DataType::LargeList(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::RunEndEncoded(_, item)
        | DataType::Map(item, _) => unencodable(item.data_type()),
        DataType::Struct(fields) => {
            let mut fields = fields.iter();
            fields.find_map(|field| unencodable(field.data_type()))
        }
        DataType::Dictionary(_, values) => unencodable(values),
        _ => None,
    }
}

/// The properties of a file. The Arrow schema is written at the end, when the provenance is known that belongs into it.
pub(super) fn properties(
    schema: &Schema,
    encoding: &VectorEncoding,
    row_group_bytes: usize,
) -> WriterPropertiesBuilder {
    let rows = row_group_bytes / encoding.row_bytes().max(1);
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("embedctl ", env!("CARGO_PKG_VERSION")).to_string())
        .set_compression(Compression::ZSTD(
            ZstdLevel::try_new(ZSTD_LEVEL).expect("zstd has that level"),
        ))
        .set_max_row_group_row_count(Some(rows.clamp(1, ROW_GROUP_ROWS)))
        .set_max_row_group_bytes(Some(row_group_bytes));
    if has_many_columns(schema) {
        properties = properties
            .set_dictionary_enabled(false)
            .set_compression(Compression::UNCOMPRESSED);
    }
    for kind in encoding.kinds() {
        properties = with_vectors(properties, kind);
    }
    if let Some(id) = schema.fields().first() {
        let id = ColumnPath::new(vec![id.name().clone()]);
        properties = properties.set_column_dictionary_enabled(id, false);
    }
    properties
}

/// Whether a table has so many columns that their encoders together would take much memory.
fn has_many_columns(schema: &Schema) -> bool {
    schema.fields().len() > MOST_ENCODERS
}

/// Whether elements have one byte, and repeat.
fn is_small(encoding: &VectorEncoding) -> bool {
    encoding.dtype().bytes() == 1
}

/// The columns of lists' elements.
fn list_paths(encoding: &VectorEncoding) -> Vec<ColumnPath> {
    let depth = encoding.list_depth();
    let lists = encoding.columns().iter().filter(|_| depth > 0);
    let path = |name: &str| {
        let list = ["list", Field::LIST_FIELD_DEFAULT_NAME].map(String::from);
        let path = std::iter::repeat_n(list, depth).flatten();
        [name.to_owned()].into_iter().chain(path).collect()
    };
    lists
        .map(|column| ColumnPath::new(path(&column.name)))
        .collect()
}

/// How the columns of one kind of vectors are written.
fn with_vectors(
    mut properties: WriterPropertiesBuilder,
    encoding: &VectorEncoding,
) -> WriterPropertiesBuilder {
    // Vectors and ids don't repeat, and their minimum and maximum are of no use. Plain values, not compressed: zstd would
    // save 7 to 8 % of them, take longer than encoding them, and triple the time of reading; splitting their bytes would save
    // another 9 %, and shut out older readers. Single bytes do repeat, and a dictionary keeps them from becoming four each.
    let small = is_small(encoding);
    for vectors in list_paths(encoding) {
        if !small {
            properties =
                properties.set_column_compression(vectors.clone(), Compression::UNCOMPRESSED);
        }
        properties = properties
            .set_column_dictionary_enabled(vectors.clone(), small)
            .set_column_statistics_enabled(vectors, EnabledStatistics::None);
    }
    // Values do not repeat; indices do.
    if let Some(sparse) = encoding.sparse() {
        for column in encoding.columns() {
            let parts = match sparse.terms {
                Some(_) => &["key_value", "value"][..],
                None => &["values", "list", Field::LIST_FIELD_DEFAULT_NAME],
            };
            let parts = parts.iter().map(|part| (*part).to_owned());
            let path = [column.name.clone()].into_iter().chain(parts).collect();
            let values = ColumnPath::new(path);
            properties = properties
                .set_column_dictionary_enabled(values.clone(), false)
                .set_column_statistics_enabled(values, EnabledStatistics::None);
        }
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Forms, OutputOptions};
    use embedctl_records::quantize::Dtype;

    /// Each dictionary and each codec takes room from its first value on.
    #[test]
    fn tables_of_many_columns_have_neither_dictionaries_nor_codecs() {
        for dtype in [Dtype::F32, Dtype::Ubinary] {
            let options = OutputOptions {
                dtype: Some(dtype),
                format: Some(OutputFormat::Parquet),
                ..OutputOptions::default()
            };
            let encoding = VectorEncoding::new(&options.into(), &Forms::dense(&[16])).unwrap();
            for (columns, has_few) in [(10, true), (2_000, false)] {
                let field =
                    |number: usize| Field::new(format!("field {number}"), DataType::Utf8, true);
                let schema = Schema::new((0..columns).map(field).collect::<Vec<_>>());
                let properties = properties(&schema, &encoding, 1 << 20).build();
                let column = ColumnPath::new(vec!["field 5".to_owned()]);
                assert_eq!(properties.dictionary_enabled(&column), has_few);
                let is_plain = properties.compression(&column) == Compression::UNCOMPRESSED;
                assert_eq!(is_plain, !has_few);
                let vectors = &list_paths(&encoding)[0];
                let is_plain = properties.compression(vectors) == Compression::UNCOMPRESSED;
                assert_eq!(is_plain, !has_few || dtype == Dtype::F32);
            }
        }
    }
}
