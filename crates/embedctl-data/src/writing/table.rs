//! Small tables without vectors, such as the hits of a search.

use std::io::Write;
use std::path::Path;

use ::parquet::arrow::ArrowWriter;
use arrow::array::RecordBatch;
use arrow::ipc::writer::FileWriter;
use embedctl_common::atomic::AtomicFile;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::FORCE;

use super::format::OutputFormat;
use super::run_files::RunFiles;

/// Writes a table in a format that has columns.
///
/// # Errors
/// If the format has none, or `out` refuses.
pub fn write_table(
    table: &RecordBatch,
    format: OutputFormat,
    mut out: impl Write + Send,
) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| {
        let error = std::io::Error::other(error.to_string());
        Error::io("write a table to", Path::new("the output"), error)
    };
    match format {
        OutputFormat::Parquet => {
            let mut writer = ArrowWriter::try_new(&mut out, table.schema(), None)
                .map_err(|error| failed(&error))?;
            writer.write(table).map_err(|error| failed(&error))?;
            writer.close().map_err(|error| failed(&error))?;
        }
        OutputFormat::Arrow => {
            let mut writer =
                FileWriter::try_new(&mut out, &table.schema()).map_err(|error| failed(&error))?;
            writer.write(table).map_err(|error| failed(&error))?;
            writer.finish().map_err(|error| failed(&error))?;
        }
        other => {
            return Err(
                Error::usage(format!("{other} does not hold a table of hits"))
                    .with_remedy("choose parquet or arrow"),
            );
        }
    }
    out.flush()
        .map_err(|error| Error::io("write a table to", Path::new("the output"), error))
}

/// Writes a file that appears under its name when it is complete.
///
/// # Errors
/// If it exists and `force` is not given, or `write` or the system refuses.
pub fn publish_file(
    path: &Path,
    force: bool,
    files: &RunFiles,
    write: impl FnOnce(&std::fs::File) -> Result<()>,
) -> Result<()> {
    let taken = || {
        Error::usage(format!("{} exists", path.display()))
            .with_remedy(format!("choose another name, or replace it with {FORCE}"))
    };
    if !force && path.symlink_metadata().is_ok() {
        return Err(taken());
    }
    let failed = |error| Error::io("write", path, error);
    let file = AtomicFile::create(path, &files.pending).map_err(failed)?;
    write(file.file())?;
    file.sync().map_err(failed)?;
    match force {
        true => file.replace().map_err(failed),
        false => match file.put_new().map_err(failed)? {
            true => Ok(()),
            false => Err(taken()),
        },
    }
}
