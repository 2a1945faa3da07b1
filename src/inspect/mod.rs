//! What made a file of vectors, and how its vectors are: all that `embedctl inspect` tells.
//!
//! A file is read row by row and never held: what is remembered of it is of bounded size ([`health`]).

mod belongs;
mod differences;
mod health;
mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

pub use belongs::Belongs;
pub use differences::{Difference, differences};
pub use health::{Health, Repeated};
pub use verify::{Texts, Verified, verify};

use crate::cancel::CancelToken;
use crate::error::{Error, Place, Result};
use crate::job::{self, Objects, State};
use crate::output::{self, OutputFormat};
use crate::storage::{Address, Readable, Storage};
use health::Watch;

/// What was found out about a file.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The file, or its address without what may be secret.
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
    /// What made it, as it stands in the file or beside it; `None` where nothing does.
    pub provenance: Option<Value>,
    /// Whether what was written together is still what was written.
    pub belongs: Vec<Belongs>,
    /// What is wrong with it, in sentences; nothing where all is well.
    pub problems: Vec<String>,
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
) -> Result<Vec<Inspection>> {
    let rejects = rejects
        .map(|rejects| Readable::open(rejects, storage))
        .transpose()?;
    let look = |found: &Readable| file(found, rejects.as_ref(), cancel);
    let Some(storage) = storage.filter(|_| Address::is_url_path(path)) else {
        if path.is_dir() {
            let shown = path.display().to_string();
            let open = |part: &str| Readable::file(&path.join(part));
            return parts(&shown, job::inspect(path)?, open, cancel);
        }
        format(path)?;
        return Ok(vec![look(&Readable::file(path)?)?]);
    };
    let address = Address::parse(&path.to_string_lossy())?;
    if address.is_prefix() {
        let state = State::read(&Objects::new(storage.clone(), &address), None)?;
        let state = state.job.is_some().then_some(state);
        let at = |part: &str| address.with_key(format!("{}{part}", address.key()));
        let open = |part: &str| Ok(storage.look(&at(part))?.into());
        return parts(&address.to_string(), state, open, cancel);
    }
    let objects = storage.list(&address)?.into_iter().map(Readable::from);
    objects.map(|object| look(&object)).collect()
}

/// The parts of a job's folder, and what is wrong with the whole.
fn parts(
    folder: &str,
    state: Option<State>,
    open: impl Fn(&str) -> Result<Readable>,
    cancel: &CancelToken,
) -> Result<Vec<Inspection>> {
    let Some(state) = state else {
        return Err(Error::usage(format!(
            "{folder} is a folder without an output in parts; name its files"
        )));
    };
    let parts = state.parts.values();
    let mut found = parts
        .map(|part| file(&open(&part.file)?, None, cancel))
        .collect::<Result<Vec<_>>>()?;
    if let Some(first) = found.first_mut() {
        first.problems.extend(state.faults());
        return Ok(found);
    }
    Err(Error::input(
        Place::file(folder),
        format!("it holds no part: {}", state.faults().join("; ")),
    ))
}

fn format(path: &Path) -> Result<OutputFormat> {
    OutputFormat::from_path(path).ok_or_else(|| {
        Error::usage(format!(
            "the ending of {} names no format of vectors; those are .parquet, .arrow, .npy, .jsonl and the like",
            path.display()
        ))
    })
}

fn file(file: &Readable, rejects: Option<&Readable>, cancel: &CancelToken) -> Result<Inspection> {
    let path = file.path();
    let format = format(path)?;
    let mut watches: BTreeMap<String, Watch> = BTreeMap::new();
    output::read_vectors(file, &mut |vector| {
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
