//! What made a file of vectors, and how its vectors are: all that `embedctl inspect` tells.
//!
//! A file is read row by row and never held: what is remembered of it is of bounded size ([`health`]).

mod belongs;
mod differences;
mod health;
mod verify;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

pub use belongs::Belongs;
pub use differences::{Difference, differences};
pub use health::{Health, Repeated};
pub use verify::{Texts, Verified, verify};

use crate::cancel::CancelToken;
use crate::error::{Error, Place, Result};
use crate::job;
use crate::output::{self, OutputFormat};
use health::Watch;

/// What was found out about a file.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its columns of vectors, by name; a matrix has one without a name.
    pub columns: Vec<Health>,
    /// What made it, as it stands in the file or beside it; `None` where nothing does.
    pub provenance: Option<Value>,
    /// Whether what was written together is still what was written.
    pub belongs: Vec<Belongs>,
    /// What is wrong with it, in sentences; nothing where all is well.
    pub problems: Vec<String>,
}

/// Looks at a file, or at every part of a folder that a job has made. `rejects` is the file of rejected
/// records that was written with it.
///
/// # Errors
/// If something cannot be read, or is no file of vectors.
pub fn inspect(
    path: &Path,
    rejects: Option<&Path>,
    cancel: &CancelToken,
) -> Result<Vec<Inspection>> {
    if !path.is_dir() {
        return Ok(vec![file(path, rejects, cancel)?]);
    }
    let Some(state) = job::inspect(path)? else {
        return Err(Error::usage(format!(
            "{} is a folder without an output in parts; name its files",
            path.display()
        )));
    };
    let mut found = Vec::new();
    for part in state.parts.values() {
        found.push(file(&path.join(&part.file), None, cancel)?);
    }
    if let Some(first) = found.first_mut() {
        first.problems.extend(state.faults());
        return Ok(found);
    }
    Err(Error::input(
        Place::file(path.display().to_string()),
        format!("it holds no part: {}", state.faults().join("; ")),
    ))
}

fn file(path: &Path, rejects: Option<&Path>, cancel: &CancelToken) -> Result<Inspection> {
    let format = OutputFormat::from_path(path).ok_or_else(|| {
        Error::usage(format!(
            "the ending of {} names no format of vectors; those are .parquet, .arrow, .npy, .jsonl and the like",
            path.display()
        ))
    })?;
    let bytes = fs::metadata(path).map_err(|error| Error::io("read", path, error))?;
    let mut watches: BTreeMap<String, Watch> = BTreeMap::new();
    output::read_vectors(path, &mut |vector| {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        match watches.get_mut(vector.column) {
            Some(watch) => watch.add(vector),
            None => watches
                .entry(vector.column.to_owned())
                .or_default()
                .add(vector),
        }
        Ok(())
    })?;
    let provenance = output::provenance(path, format)?;
    let columns: Vec<Health> = watches
        .into_iter()
        .map(|(column, watch)| watch.end(column))
        .collect();
    let belongs = match &provenance {
        Some(provenance) => belongs::check(path, format, rejects, provenance, cancel)?,
        None => Vec::new(),
    };
    let problems = problems(&columns, provenance.as_ref(), &belongs);
    Ok(Inspection {
        path: path.to_path_buf(),
        format: format.name(),
        bytes: bytes.len(),
        columns,
        provenance,
        belongs,
        problems,
    })
}

fn problems(columns: &[Health], provenance: Option<&Value>, belongs: &[Belongs]) -> Vec<String> {
    let mut problems = Vec::new();
    for column in columns {
        let name = match column.column.as_str() {
            "" => String::new(),
            name => format!(" of {name}"),
        };
        if column.not_finite > 0 {
            let count = column.not_finite;
            problems.push(format!("{count} vectors{name} hold NaN or infinity"));
        }
        if column.narrowest != column.widest {
            problems.push(format!(
                "vectors{name} are of different widths, from {} to {}",
                column.narrowest, column.widest
            ));
        }
    }
    // Rows without a vector are null, and of a record that was cut each chunk is a row.
    let written = provenance.and_then(|all| {
        let rows = &all["rows"];
        rows["chunks"]
            .as_u64()
            .or_else(|| rows["embedded"].as_u64())
    });
    let vectors = columns
        .iter()
        .map(|column| column.vectors)
        .max()
        .unwrap_or(0);
    if let Some(written) = written.filter(|&written| written != vectors) {
        problems.push(format!(
            "{written} rows were embedded, and {vectors} vectors are there"
        ));
    }
    let not = belongs.iter().filter(|one| one.same == Some(false));
    problems.extend(not.map(|one| format!("{} not what was written with the file", one.is())));
    problems
}
