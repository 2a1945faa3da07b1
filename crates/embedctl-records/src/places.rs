//! Columns that a record's place decides: `file` and `line`, and the partitions of Hive (`year=2024/part.parquet`).

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::cells::{Basis, Builder, Cell, KeptColumn};
use crate::fields::KeepType;
use crate::json;
use crate::options::InputOptions;
use crate::record::{Origin, SourceNames};
use crate::retype;
use crate::unsound;
use arrow::array::{Array, ArrayRef, Int64Array, Int64Builder, Scalar, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::compute::kernels::cmp::distinct;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::util::display::array_value_to_string;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::KEEP;

/// The value of a partition whose key is null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The kept partitions of all sources.
#[derive(Debug, Clone, Default)]
pub struct Partitions(Vec<Partition>);

/// One key of folders' names.
#[derive(Debug, Clone)]
struct Partition {
    name: String,
    kind: KeepType,
    /// Of each source.
    values: Vec<Option<String>>,
}

impl Partitions {
    /// Takes the kept partitions out of the kept fields: those that are named, or all under `*`. A key whose values are
    /// all integers is a column of integers, unless a type is named.
    pub fn take(names: &SourceNames, options: &mut InputOptions) -> Self {
        let of_sources: Vec<_> = names.iter().map(|name| keys(name)).collect();
        let mut partitions: Vec<Partition> = Vec::new();
        for (name, _) in of_sources.iter().flatten() {
            let keep = options.keep.iter().find(|keep| keep.name == *name);
            let is_known = partitions.iter().any(|known| known.name == *name);
            // `*` stands for all but the field that ids are read from.
            let is_in_all = options.keeps_all() && options.id_field.as_ref() != Some(name);
            if is_known || (keep.is_none() && !is_in_all) {
                continue;
            }
            let value = |keys: &Vec<(String, Option<String>)>| {
                let mut same = keys.iter().rev().filter(|(key, _)| key == name);
                same.next().and_then(|(_, value)| value.clone())
            };
            let values: Vec<_> = of_sources.iter().map(value).collect();
            let are_integers = values.iter().flatten().all(|value| is_integer(value));
            partitions.push(Partition {
                name: name.clone(),
                kind: keep
                    .and_then(|keep| keep.kind)
                    .unwrap_or(match are_integers {
                        true => KeepType::Int,
                        false => KeepType::String,
                    }),
                values,
            });
        }
        let is_one = |name: &str| partitions.iter().any(|one| one.name == name);
        options.keep.retain(|keep| !is_one(&keep.name));
        Self(partitions)
    }
}

/// Whether a number is written as programs write it: `007` is a name.
fn is_integer(value: &str) -> bool {
    value
        .parse::<i64>()
        .is_ok_and(|number| number.to_string() == value)
}

/// The partitions in the folders of a path or an address, from the top.
fn keys(name: &str) -> Vec<(String, Option<String>)> {
    let folders = name
        .split(['?', '#'])
        .next()
        .filter(|_| name.contains("://"));
    let Some((folders, _)) = folders.unwrap_or(name).rsplit_once(['/', '\\']) else {
        return Vec::new();
    };
    let keys = folders.split(['/', '\\']).filter_map(|folder| {
        let (key, value) = folder.split_once('=')?;
        let value = Some(decoded(value)).filter(|value| value != NULL);
        (!key.is_empty()).then(|| (decoded(key), value))
    });
    keys.collect()
}

/// A name with its percent-escapes resolved, which Hive and Spark write for special characters; as it is, if they are
/// none.
fn decoded(name: &str) -> String {
    let decoded = percent_decode_str(name).decode_utf8();
    decoded.map_or_else(|_| name.to_owned(), Cow::into_owned)
}

/// Gathers the columns that places decide.
pub struct PlaceColumns {
    partitions: Vec<PartitionColumn>,
    /// The columns `file` and `line`.
    files: Option<PlaceFiles>,
}

struct PlaceFiles {
    names: SourceNames,
    files: StringBuilder,
    lines: Int64Builder,
}

struct PartitionColumn {
    column: KeptColumn,
    /// Of each source.
    values: Vec<Cell<'static>>,
    /// The same as the folders' names have them.
    texts: Vec<Option<String>>,
}

impl PartitionColumn {
    /// The reason why a record of `source` that has another value of its own is no record.
    fn clash(&self, source: u32, value: impl Display) -> Cause {
        let name = &self.column.name;
        let folder = match self.texts.get(source as usize) {
            Some(Some(text)) => format!("its folder says `{name}={text}`"),
            _ => format!("the column is that of folders called `{name}=…`, and its own has none"),
        };
        Cause::of(format!(
            "the record's field `{name}` is {value}, but {folder}"
        ))
        .with(format!(
            "rename the folders or the field, or leave `{name}` out of `{KEEP}`"
        ))
    }
}

/// Whether two cells of a column say the same; nothing says nothing else.
fn is_same(of_record: &Cell<'_>, of_folder: &Cell<'_>) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    match (of_record, of_folder) {
        (Cell::Null, _) => true,
        (Cell::Int(one), Cell::Int(other)) => one == other,
        (Cell::Float(one), Cell::Float(other)) => one == other,
        (Cell::Bool(one), Cell::Bool(other)) => one == other,
        (Cell::Json(one), Cell::String(other)) => one == other,
        (Cell::String(one), Cell::String(other)) => {
            let is_one_number = || number(one).is_some_and(|it| Some(it) == number(other));
            one == other || is_one_number()
        }
        _ => false,
    }
}

impl PlaceColumns {
    /// Without any row.
    ///
    /// # Errors
    /// If a partition's value is not of the named type.
    pub fn new(
        options: &InputOptions,
        partitions: Partitions,
        names: &SourceNames,
    ) -> Result<Self> {
        let partitions = partitions.0.into_iter().map(|partition| {
            let column = KeptColumn::new(&partition.name, Some((partition.kind, Basis::Declared)));
            let texts = partition.values.clone();
            let values = partition
                .values
                .iter()
                .zip(names.iter())
                .map(|(value, source)| {
                    let Some(value) = value else {
                        return Ok(Cell::Null);
                    };
                    let cell = column.text_cell(value).map_err(|cause| {
                        Error::usage(
                            cause.map(|reason| format!("the folder of {source}: {reason}")),
                        )
                    })?;
                    Ok(match cell {
                        Cell::Int(number) => Cell::Int(number),
                        Cell::Float(number) => Cell::Float(number),
                        Cell::Bool(value) => Cell::Bool(value),
                        Cell::String(_) | Cell::Json(_) => Cell::String(Cow::Owned(value.clone())),
                        Cell::Null => Cell::Null,
                    })
                });
            let values = values.collect::<Result<_>>()?;
            Ok(PartitionColumn {
                column,
                values,
                texts,
            })
        });
        Ok(Self {
            partitions: partitions.collect::<Result<_>>()?,
            files: options.source_columns.then(|| PlaceFiles {
                names: Arc::clone(names),
                files: StringBuilder::new(),
                lines: Int64Builder::new(),
            }),
        })
    }

    /// Names of the partitions.
    pub fn partitions(&self) -> impl Iterator<Item = &str> {
        self.partitions.iter().map(|one| one.column.name.as_str())
    }

    /// Checks that a record of `source` has not another value under the name of the partition `index` than its folder:
    /// one of the two would get lost.
    ///
    /// # Errors
    /// If it has.
    pub(crate) fn check(&self, index: usize, source: u32, value: &str) -> Result<(), Cause> {
        let one = &self.partitions[index];
        let of_folder = one.values.get(source as usize).unwrap_or(&Cell::Null);
        let of_record = one.column.text_cell(value);
        match of_record.is_ok_and(|cell| is_same(&cell, of_folder)) {
            true => Ok(()),
            false => Err(one.clash(source, json::excerpt(value))),
        }
    }

    /// The same for a column of a table: the rows whose values are others than the folder's, with the reasons.
    ///
    /// # Errors
    /// Only on an internal error.
    pub fn clashes(
        &self,
        index: usize,
        source: u32,
        column: &ArrayRef,
    ) -> Result<Vec<(usize, Cause)>> {
        let one = &self.partitions[index];
        let plain = retype::without_dictionary(column.data_type());
        let column = match &plain {
            Some(plain) => &cast(column, plain).map_err(unsound)?,
            None => column,
        };
        let of_folder = one.texts.get(source as usize).and_then(Option::as_deref);
        // In the column's type, whatever the folder's name is like: `1` is 1.0 there, and a day is a date.
        let of_folder: ArrayRef = Arc::new(StringArray::from(vec![of_folder]));
        let of_folder = cast(&of_folder, column.data_type()).ok();
        let differs = of_folder.and_then(|one| distinct(column, &Scalar::new(one)).ok());
        let clashes = (0..column.len()).filter(|&row| {
            let differs = differs.as_ref().is_none_or(|differs| differs.value(row));
            differs && column.is_valid(row)
        });
        let shown = |row| array_value_to_string(column, row).unwrap_or_default();
        Ok(clashes
            .map(|row| (row, one.clash(source, json::excerpt(&shown(row)))))
            .collect())
    }

    /// Whether it has a column of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.is_partition(name) || (self.files.is_some() && ["file", "line"].contains(&name))
    }

    /// Whether it has a partition of that name.
    pub(crate) fn is_partition(&self, name: &str) -> bool {
        self.partitions.iter().any(|one| one.column.name == name)
    }

    /// The columns' names and types.
    pub(crate) fn fields(&self) -> impl Iterator<Item = FieldRef> {
        let own = |name, kind| Arc::new(Field::new(name, kind, true));
        let files = self.files.as_ref();
        let files = files.map(|_| [own("file", DataType::Utf8), own("line", DataType::Int64)]);
        let partitions = self.partitions.iter().map(|one| one.column.field());
        partitions.chain(files.into_iter().flatten())
    }

    /// Appends one row.
    pub(crate) fn push(&mut self, origin: Origin) {
        for one in &mut self.partitions {
            let value = one.values.get(origin.source as usize);
            one.column.builder.push(value.unwrap_or(&Cell::Null));
        }
        if let Some(files) = &mut self.files {
            files.files.append_value(source_name(&files.names, origin));
            files.lines.append_value(line_number(origin.line));
        }
    }

    /// The columns for `count` rows from `origin` on.
    pub(crate) fn of_rows(&self, origin: Origin, count: usize) -> Vec<ArrayRef> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for one in &self.partitions {
            let value = one.values.get(origin.source as usize);
            let kind = one.column.kind.map(|(kind, _)| kind);
            let mut builder = Builder::new(kind);
            (0..count).for_each(|_| builder.push(value.unwrap_or(&Cell::Null)));
            arrays.push(builder.finish());
        }
        if let Some(files) = &self.files {
            let file = source_name(&files.names, origin);
            let names = StringArray::from_iter_values(std::iter::repeat_n(file, count));
            let lines = (0..count as u64).map(|row| line_number(origin.line + row));
            arrays.push(Arc::new(names));
            arrays.push(Arc::new(Int64Array::from_iter_values(lines)));
        }
        arrays
    }

    /// The rows gathered so far; starts anew.
    pub(crate) fn finish(&mut self) -> Vec<ArrayRef> {
        let partitions = self.partitions.iter_mut();
        let mut arrays: Vec<_> = partitions.map(|one| one.column.builder.finish()).collect();
        if let Some(files) = &mut self.files {
            arrays.push(Arc::new(files.files.finish()));
            arrays.push(Arc::new(files.lines.finish()));
        }
        arrays
    }
}

fn line_number(line: u64) -> i64 {
    i64::try_from(line).expect("no source has 2^63 lines")
}

fn source_name(names: &SourceNames, origin: Origin) -> &str {
    let name = names.get(origin.source as usize);
    name.map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_paths_and_addresses_are_partitions() {
        let found = |name: &str| -> Vec<String> {
            let keys = keys(name).into_iter();
            keys.map(|(key, value)| format!("{key}={}", value.unwrap_or("-".to_owned())))
                .collect()
        };
        for (name, expected) in [
            ("year=2024/part-0.parquet", vec!["year=2024"]),
            (
                "/t/year=2024/month=01/000000_0",
                vec!["year=2024", "month=01"],
            ),
            ("s3://b/t/day=2024-01-01/x.parquet", vec!["day=2024-01-01"]),
            (
                "t/city=S%C3%A3o%20Paulo/a=b=c/x.csv",
                vec!["city=São Paulo", "a=b=c"],
            ),
            ("t/k=__HIVE_DEFAULT_PARTITION__/x.csv", vec!["k=-"]),
            ("t/k=/x.csv", vec!["k="]),
            ("t/k=100%/l=%zz/x.csv", vec!["k=100%", "l=%zz"]),
            ("t\\year=2024\\x.csv", vec!["year=2024"]),
            ("https://h/x.parquet?key=1/2", vec![]),
            ("a=b.parquet", vec![]),
            ("=x/a.csv", vec![]),
        ] {
            assert_eq!(found(name), expected, "{name}");
        }
    }
}
