//! The provenance and health of a file of vectors, as `embedctl inspect` shows them.
//!
//! A file is read row by row in bounded memory ([`ColumnWatch`]).

pub mod agreement;
mod belongs;
mod differences;
mod query;
mod recorded;
pub mod reference;
mod reference_rows;
mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

pub use belongs::ContentCheck;
pub use differences::differences;
pub use embedctl_vectors::{Health, RepeatCount};
pub use query::{QueryPrompt, query_task};
pub use recorded::{QUERY_PROMPT, RecordedModel};
pub use verify::same_model;
pub use verify::{ColumnAgreement, Texts, Verification, kept_texts, recorded_model, verify};

use crate::cancel::CancelToken;
use crate::error::{Error, Place, Result, with_causes};
pub use crate::identity::Difference;
use crate::job::{Part, State, manifest_place};
use crate::output;
use crate::setting::RESUME;
use crate::storage::{Location, Readable, SharedFolder, Storage};
use embedctl_vectors::ColumnWatch;

/// The findings about a file.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The file, or its address without secrets.
    pub path: PathBuf,
    /// It, to be read again.
    #[serde(skip)]
    pub file: Readable,
    /// Its format.
    pub format: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its columns of vectors, by name; a matrix has one without a name.
    pub columns: Vec<Health>,
    /// Its provenance, from the file or beside it; `None` if it has none.
    pub provenance: Option<Value>,
    /// The comparison with the recorded hashes of the files that were written together.
    pub belongs: Vec<ContentCheck>,
    /// Problems, in sentences; empty if there are none.
    pub problems: Vec<String>,
}

/// The findings at a path.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    /// Its files: one, or the parts of a folder, in order.
    pub files: Vec<Inspection>,
    /// The folder as a whole; none for files.
    pub folder: Option<Folder>,
}

/// A folder of parts as a whole: whether all that a job was to write is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Folder {
    /// The folder, or its address.
    pub path: String,
    /// Whether every shard is at its end, nothing is missing between, and the counts add up.
    pub complete: bool,
    /// Shards of the job.
    pub shards: u32,
    /// Shards that are at their ends.
    pub ended: usize,
    /// Existing parts.
    pub parts: usize,
    /// Records that were read for them.
    pub records: u64,
    /// Rows in them.
    pub rows: u64,
    /// Records that were rejected.
    pub rejected: u64,
    /// Parts for which an older version kept no hashes.
    #[serde(skip_serializing_if = "is_none")]
    pub older: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_none(parts: &usize) -> bool {
    *parts == 0
}

/// Looks at a file, or at every part of a folder that a job has made; `path` may be an address, of several objects
/// too, where there is `storage`. `rejects` is the file of rejected records that was written with it.
///
/// # Errors
/// If something cannot be read, or is no file of vectors.
pub fn inspect(
    path: &Path,
    rejects: Option<&Path>,
    storage: Option<&Storage>,
    cancel: &CancelToken,
) -> Result<Inspected> {
    let rejects = rejects
        .map(|rejects| Readable::open(rejects, storage))
        .transpose()?;
    let look = |found: &Readable| file(found, rejects.as_ref(), cancel);
    let location = Location::of(path)?;
    if location.is_folder() {
        let folder = location.folder(storage)?;
        return parts(&location.to_string(), folder.as_ref(), cancel);
    }
    let files = location.list(storage)?;
    Ok(Inspected {
        files: files.iter().map(look).collect::<Result<_>>()?,
        folder: None,
    })
}

/// The problem of a complete output without a valid manifest: missing parts cannot be detected.
fn no_manifest(storage: &dyn SharedFolder) -> String {
    format!(
        "{} is missing or not as it was written; {RESUME} makes it again",
        manifest_place(storage)
    )
}

/// The parts of a job's folder, and the problems of the whole.
fn parts(folder: &str, storage: &dyn SharedFolder, cancel: &CancelToken) -> Result<Inspected> {
    let state = State::read(storage, None)?;
    if state.job.is_none() {
        let why = format!("{folder} is a folder without an output in parts");
        return Err(Error::usage(why).with_remedy("name its files"));
    }
    let mut faults = state.faults();
    if state.lacks_manifest(storage)? {
        faults.push(no_manifest(storage));
    }
    faults.extend(state.missing_parts(storage)?);
    faults.extend(
        state
            .check_lists(storage)
            .err()
            .map(|error| with_causes(&error)),
    );
    let parts = state.parts.values();
    let look = |part: &Part| -> Result<Inspection> {
        let mut found = file(&storage.open(&part.file)?, None, cancel)?;
        found.problems.extend(
            part.check(storage, found.provenance.as_ref())
                .err()
                .map(|error| with_causes(&error)),
        );
        Ok(found)
    };
    let mut files = parts.map(look).collect::<Result<Vec<_>>>()?;
    let Some(first) = files.first_mut() else {
        return Err(Error::input(
            Place::file(folder),
            format!("it holds no part: {}", faults.join("; ")),
        )
        .with_remedy(format!("continue the run that began it, with {RESUME}")));
    };
    let rows = state.rows();
    let rejected = state.rejected();
    let read = |part: &Part| part.info.embedded + part.info.rejected;
    let folder = Folder {
        path: folder.to_owned(),
        complete: faults.is_empty(),
        shards: state.job.as_ref().map_or(1, |job| job.shards),
        ended: state.ends.len(),
        parts: state.parts.len(),
        records: state.parts.values().map(read).sum(),
        rows,
        rejected,
        older: state.older,
    };
    first.problems.extend(faults);
    Ok(Inspected {
        files,
        folder: Some(folder),
    })
}

/// Looks at one file.
///
/// # Errors
/// If it cannot be read, is no output of embedctl, or the run is cancelled.
pub fn file(
    file: &Readable,
    rejects: Option<&Readable>,
    cancel: &CancelToken,
) -> Result<Inspection> {
    let path = file.path();
    let format = output::format_of(file)?;
    let mut watches: BTreeMap<String, ColumnWatch> = BTreeMap::new();
    output::read_vectors(file, &mut |vector| {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let column = vector.column;
        if !watches.contains_key(column) {
            watches.insert(column.to_owned(), ColumnWatch::default());
        }
        if let Some(watch) = watches.get_mut(column) {
            watch.add(vector.dtype.name(), vector.values);
        }
        Ok(())
    })?;
    let provenance = output::provenance(file, format)?;
    let columns: Vec<Health> = watches
        .into_iter()
        .map(|(column, watch)| watch.end(column))
        .collect();
    let belongs = match &provenance {
        Some(provenance) => belongs::check(file, format, rejects, provenance, cancel)?,
        None => Vec::new(),
    };
    let problems = problems(&columns, provenance.as_ref(), &belongs);
    // A folder has more parts than a process may have open files.
    file.bytes.close();
    Ok(Inspection {
        path: path.to_path_buf(),
        file: file.clone(),
        format: format.name(),
        bytes: file.bytes.len(),
        columns,
        provenance,
        belongs,
        problems,
    })
}

fn problems(
    columns: &[Health],
    provenance: Option<&Value>,
    belongs: &[ContentCheck],
) -> Vec<String> {
    let mut problems = Vec::new();
    for column in columns {
        let name = match column.column.as_str() {
            "" => String::new(),
            name => format!(" of {name}"),
        };
        if column.not_finite > 0 {
            let vectors = match column.not_finite {
                1 => format!("1 vector{name} holds"),
                count => format!("{count} vectors{name} hold"),
            };
            problems.push(format!("{vectors} NaN or infinity"));
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
    let vectors = provenance.and_then(|made| counted(columns, made));
    if let (Some(written), Some(vectors)) = (written, vectors)
        && written != vectors
    {
        problems.push(format!(
            "{written} rows were embedded, but the file holds {vectors} vectors"
        ));
    }
    let not = belongs.iter().filter(|one| one.same == Some(false));
    problems.extend(not.map(|one| format!("{} not what was written with the file", one.is())));
    problems
}

/// The vectors in the columns that have one in each row; `None` where none is such a column.
fn counted(columns: &[Health], made: &Value) -> Option<u64> {
    let named = output::one_per_row(made);
    let is_counted = |column: &&Health| match &named {
        Some(named) => column.column.is_empty() || named.contains(&column.column),
        None => true,
    };
    let vectors = |columns: &mut dyn Iterator<Item = &Health>| columns.map(|it| it.vectors).max();
    match named.as_deref() {
        Some([]) => None,
        // Columns that were named anew are counted as they are.
        _ => vectors(&mut columns.iter().filter(is_counted))
            .or_else(|| vectors(&mut columns.iter()))
            .or(Some(0)),
    }
}
