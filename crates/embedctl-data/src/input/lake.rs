//! Folders that are tables of a lake format: their files also hold rows that were deleted or replaced, and only the
//! table's log tells which. Reading such a folder file by file would bring these rows back.

use std::fs;
use std::path::Path;

use embedctl_common::error::{Error, Result};

/// A lake format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lake {
    Delta,
    Iceberg,
    Hudi,
}

impl Lake {
    /// Its name, and the function by which DuckDB reads it, if there is one.
    fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Delta => ("Delta Lake", Some("delta_scan")),
            Self::Iceberg => ("Apache Iceberg", Some("iceberg_scan")),
            Self::Hudi => ("Apache Hudi", None),
        }
    }

    fn refusal(self, table: &str) -> Error {
        let (name, scan) = self.names();
        let remedy = match scan {
            Some(scan) => format!(
                "export its rows and embed the copy, for example in DuckDB: COPY (FROM {scan}('{table}')) TO \
                 'rows.parquet'"
            ),
            None => "export its rows, for example with Spark, and embed the copy".to_owned(),
        };
        Error::usage(format!(
            "{table} is a table of {name}: its files also hold deleted and replaced rows, so they are not read one by one"
        ))
        .with_remedy(remedy)
    }
}

/// Refuses a folder that is such a table.
///
/// # Errors
/// If it is one.
pub(super) fn refuse_table(folder: &Path) -> Result<()> {
    let has = |name: &str| folder.join(name).is_dir();
    let lake = if has("_delta_log") {
        Lake::Delta
    } else if has(".hoodie") {
        Lake::Hudi
    } else if holds_metadata(&folder.join("metadata")) {
        Lake::Iceberg
    } else {
        return Ok(());
    };
    Err(lake.refusal(&folder.display().to_string()))
}

/// Whether a folder is that of an Iceberg table's metadata.
fn holds_metadata(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.any(|name| is_metadata(&name.to_string_lossy()))
}

fn is_metadata(name: &str) -> bool {
    name.ends_with(".metadata.json") || name == "version-hint.text"
}

/// Refuses a listing of objects that holds such a table.
///
/// # Errors
/// If it does.
pub(super) fn refuse_listed<'n>(names: impl Iterator<Item = &'n str>) -> Result<()> {
    for name in names {
        let folders = [(Lake::Delta, "/_delta_log/"), (Lake::Hudi, "/.hoodie/")];
        for (lake, folder) in folders {
            if let Some((table, _)) = name.split_once(folder) {
                return Err(lake.refusal(table));
            }
        }
        if let Some((table, file)) = name.rsplit_once("/metadata/")
            && !file.contains('/')
            && is_metadata(file)
        {
            return Err(Lake::Iceberg.refusal(table));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_lakes_are_known_by_their_logs() {
        for (log, words) in [
            ("_delta_log/00000000000000000000.json", "Delta Lake"),
            ("metadata/v1.metadata.json", "Apache Iceberg"),
            ("metadata/version-hint.text", "Apache Iceberg"),
            (".hoodie/hoodie.properties", "Apache Hudi"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let table = folder.path().join("t");
            fs::create_dir_all(table.join(log).parent().unwrap()).unwrap();
            assert!(refuse_table(&table).is_ok() || log.starts_with(['_', '.']));
            fs::write(table.join(log), "{}").unwrap();
            let error = refuse_table(&table).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            let names = [
                format!("s3://b/t/{log}"),
                "s3://b/t/data/x.parquet".to_owned(),
            ];
            let error = refuse_listed(names.iter().map(String::as_str)).unwrap_err();
            assert!(error.to_string().contains("s3://b/t is a table"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("metadata")).unwrap();
        fs::write(folder.path().join("metadata/notes.json"), "{}").unwrap();
        assert!(refuse_table(folder.path()).is_ok());
        let plain = ["s3://b/metadata/a.jsonl", "s3://b/t/x.metadata.json.txt"];
        assert!(refuse_listed(plain.into_iter()).is_ok());
    }
}
