//! Vectors of a column whose pages hold them as they are: lists of one length without a null, in plain encoding. Of these it
//! is enough to check the levels and to copy the numbers. Pages of any other form are left to the general decoder of lists,
//! which takes several times as long.

use std::sync::Arc;

use ::parquet::basic::{Encoding, Type};
use ::parquet::column::page::{Page, PageReader};
use ::parquet::errors::Result;
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::file::serialized_reader::SerializedPageReader;
use arrow::array::{FixedSizeListArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use half::f16;

use super::pages::FileChunks;
use embedctl_records::numbers::{ListForm, numbers_of, whole_lists};

/// A column's pages in a row group.
pub(super) struct PlainPages {
    pages: SerializedPageReader<FileChunks>,
    /// Of the column alone.
    schema: SchemaRef,
    item: FieldRef,
    form: ListForm,
}

impl PlainPages {
    /// The pages of column `leaf` of the row group, which is that of the one field of `schema`; `None` if its type is none of
    /// such vectors.
    ///
    /// # Errors
    /// If the pages have a codec that is not known.
    pub(super) fn open(
        chunks: FileChunks,
        group: &RowGroupMetaData,
        leaf: usize,
        schema: SchemaRef,
    ) -> Result<Option<Self>> {
        let [field] = schema.fields().as_ref() else {
            return Ok(None);
        };
        let DataType::FixedSizeList(item, width) = field.data_type() else {
            return Ok(None);
        };
        let column = group.column(leaf);
        let described = column.column_descr();
        let bytes = match (item.data_type(), column.column_type()) {
            (DataType::Float32, Type::FLOAT) => size_of::<f32>(),
            (DataType::Float16, Type::FIXED_LEN_BYTE_ARRAY) => size_of::<f16>(),
            _ => return Ok(None),
        };
        let (Ok(width @ 1..), Ok(defined), 1) = (
            usize::try_from(*width),
            u16::try_from(described.max_def_level()),
            described.max_rep_level(),
        ) else {
            return Ok(None);
        };
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        Ok(Some(Self {
            pages: SerializedPageReader::new(Arc::new(chunks), column, rows, None)?,
            item: Arc::clone(item),
            form: ListForm {
                width,
                bytes,
                defined,
            },
            schema,
        }))
    }

    /// The rows of the next page; `None` at the end, and where the page has another form.
    ///
    /// # Errors
    /// If the page cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let page = self.pages.get_next_page()?;
        let Some(numbers) = page.as_ref().and_then(|page| numbers(&self.form, page)) else {
            return Ok(None);
        };
        let values = numbers_of(numbers, self.form.bytes);
        let width = i32::try_from(self.form.width)?;
        let lists = FixedSizeListArray::try_new(Arc::clone(&self.item), width, values, None)?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(lists)])?;
        Ok(Some(batch))
    }
}

/// The numbers of whole lists that a page holds as they are; `None` where it holds anything else.
fn numbers<'p>(form: &ListForm, page: &'p Page) -> Option<&'p [u8]> {
    let (rest, repeated, defined) = match page {
        Page::DataPage {
            buf,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            ..
        } => (&buf[..], None, None),
        Page::DataPageV2 {
            buf,
            rep_levels_byte_len,
            def_levels_byte_len,
            ..
        } => (
            &buf[..],
            Some(*rep_levels_byte_len),
            Some(*def_levels_byte_len),
        ),
        _ => return None,
    };
    let count = page.num_values() as usize;
    if page.encoding() != Encoding::PLAIN {
        return None;
    }
    whole_lists(rest, (repeated, defined), count, form)
}

#[cfg(test)]
mod tests {
    use super::super::vectors;
    use super::*;
    use crate::vectors::recorded_columns;
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
    use ::parquet::basic::{Compression, ZstdLevel};
    use ::parquet::file::properties::{WriterProperties, WriterVersion};
    use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, PrimitiveArray};
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Float16Type, Float32Type, Schema};
    use embedctl_storage::Readable;
    use serde_json::Value;

    /// Rows of vectors whose numbers are those from 0 on; the row `null` has none.
    fn rows(kind: &DataType, width: usize, count: usize, null: Option<usize>) -> RecordBatch {
        let numbers = (0..count * width).map(|at| at as f32);
        let values: ArrayRef = match kind {
            DataType::Float16 => Arc::new(PrimitiveArray::<Float16Type>::from_iter_values(
                numbers.map(|number| f16::from_f32(number % 2048.0)),
            )),
            _ => Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(numbers)),
        };
        let item = Arc::new(Field::new_list_field(kind.clone(), null.is_some()));
        let nulls = null.map(|null| NullBuffer::from_iter((0..count).map(|row| row != null)));
        let lists = FixedSizeListArray::new(item, width as i32, values, nulls);
        let field = Field::new("embedding", lists.data_type().clone(), null.is_some());
        let schema = Arc::new(Schema::new(vec![field]));
        RecordBatch::try_new(schema, vec![Arc::new(lists)]).unwrap()
    }

    /// How many rows plain pages hand over before one of another form, whose numbers are right; and how many all of the
    /// reading hands over.
    fn read(batch: &RecordBatch, properties: &WriterProperties) -> (usize, usize) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer =
            ArrowWriter::try_new(file.as_file(), batch.schema(), Some(properties.clone())).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        let readable = Readable::file(file.path()).unwrap();
        let chunks = FileChunks::new(Arc::clone(&readable.bytes));
        let metadata = ArrowReaderMetadata::load(&chunks, ArrowReaderOptions::new()).unwrap();
        let group = metadata.metadata().row_group(0);
        let pages = PlainPages::open(chunks, group, 0, Arc::clone(metadata.schema()));
        let (mut pages, mut plain) = (pages.unwrap().unwrap(), 0);
        while let Some(page) = pages.next().unwrap() {
            let right = batch.slice(plain, page.num_rows());
            assert_eq!(page.column(0), right.column(0));
            plain += page.num_rows();
        }
        let lists = batch.column(0).as_fixed_size_list();
        let mut all = (0..lists.len()).filter(|row| lists.is_valid(*row));
        let mut count = 0;
        vectors::read(&readable, &recorded_columns(&Value::Null), &mut |vector| {
            let row = all.next().unwrap();
            let right = arrow::compute::cast(&lists.value(row), &DataType::Float32).unwrap();
            assert_eq!(vector.row as usize, row);
            assert_eq!(vector.values, right.as_primitive::<Float32Type>().values());
            count += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(all.next(), None);
        (plain, count)
    }

    #[test]
    fn pages_of_any_form_are_read_and_plain_ones_as_they_are() {
        let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
        let zstd = Compression::ZSTD(ZstdLevel::default());
        for version in versions {
            for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
                for width in [1, 2, 7, 8, 9, 64, 384] {
                    let properties = || {
                        WriterProperties::builder()
                            .set_writer_version(version)
                            .set_compression(compression)
                            .set_dictionary_enabled(false)
                            .set_write_batch_size(8)
                            .set_data_page_row_count_limit(50)
                    };
                    let plain = properties().set_encoding(Encoding::PLAIN).build();
                    for kind in [DataType::Float32, DataType::Float16] {
                        let whole = rows(&kind, width, 203, None);
                        assert_eq!(read(&whole, &plain), (203, 203), "{width} {kind}");
                        // Null rows, and what stands before and behind them.
                        for null in [0, 60, 202] {
                            let (some, all) = read(&rows(&kind, width, 203, Some(null)), &plain);
                            assert!(some <= null && all == 202, "{width} {kind}: {some}, {all}");
                        }
                        let words = properties().set_dictionary_enabled(true).build();
                        assert_eq!(read(&whole, &words), (0, 203));
                    }
                    let split = properties()
                        .set_encoding(Encoding::BYTE_STREAM_SPLIT)
                        .build();
                    assert_eq!(
                        read(&rows(&DataType::Float32, width, 203, None), &split),
                        (0, 203)
                    );
                }
            }
        }
    }

    /// Lists of other lengths that together have as many numbers are none of these.
    #[test]
    fn levels_say_where_a_list_begins() {
        let form = ListForm {
            width: 3,
            bytes: 4,
            defined: 1,
        };
        // Runs of a level: twice its length, then the level.
        let page = |repeated: &[u8], defined: &[u8], values: u32| {
            let buf = [repeated, defined, &[0; 24]].concat().into();
            numbers(
                &form,
                &Page::DataPageV2 {
                    buf,
                    num_values: values,
                    encoding: Encoding::PLAIN,
                    num_nulls: 0,
                    num_rows: 2,
                    def_levels_byte_len: defined.len() as u32,
                    rep_levels_byte_len: repeated.len() as u32,
                    is_compressed: false,
                    statistics: None,
                },
            )
            .is_some()
        };
        let there = [12, 1];
        assert!(page(&[2, 0, 4, 1, 2, 0, 4, 1], &there, 6));
        // The same levels, eight in a byte.
        assert!(page(&[3, 0b11_0110], &there, 6));
        // Two and four; one list; three empty or short ones; lists that go on from the page before.
        for repeated in [
            [3, 0b11_1010],
            [3, 0b11_1110],
            [3, 0b11_0100],
            [3, 0b11_0111],
        ] {
            assert!(!page(&repeated, &there, 6));
        }
        assert!(!page(&[2, 0, 10, 1], &there, 6));
        assert!(!page(&[2, 0, 4, 1, 4, 0, 2, 1], &there, 6));
        // A number that is not there, levels that end early, a length of none, and other numbers of values.
        let whole = [2, 0, 4, 1, 2, 0, 4, 1];
        assert!(!page(&whole, &[10, 1, 2, 0], 6));
        assert!(!page(&whole, &[10, 1], 6));
        assert!(!page(&whole, &[0, 1, 12, 1], 6));
        assert!(!page(&whole[..6], &there, 6));
        assert!(!page(&whole, &there, 5) && !page(&whole, &there, 3) && !page(&whole, &there, 0));
    }
}
