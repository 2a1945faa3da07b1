//! Small tables without vectors, such as the hits of a search.

use std::io::Write;
use std::path::Path;

use ::parquet::arrow::ArrowWriter;
use arrow::array::RecordBatch;
use arrow::ipc::writer::FileWriter;
use embedctl_common::error::{Error, Result};

use super::format::OutputFormat;
use super::options::Destination;
use super::place::OutputPlace;
use super::run_files::RunFiles;
use super::target::Target;

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

/// Writes a file that appears under its name when it is complete; into a device or a pipe as it comes.
///
/// # Errors
/// If it exists and `force` is not given, or `write` or the system refuses.
pub fn publish_file(
    path: &Path,
    force: bool,
    files: &RunFiles,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<()>,
) -> Result<()> {
    let place = OutputPlace::find(&Destination::Path(path.to_path_buf()), OutputPlace::OUTPUT)?;
    let mut target = Target::create(&place, force, &[], files)?;
    match write(&mut target) {
        Ok(()) => target.publish(None),
        Err(error) => {
            target.abandon();
            Err(error)
        }
    }
}
