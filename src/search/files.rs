//! The files of an output that is searched: one, or the parts of a folder.

use crate::error::{Error, Place, Result};
use crate::job::State;
use crate::output::{self, OutputFormat};
use crate::setting::RESUME;
use crate::storage::{Location, Readable, Storage};

/// One of an output's files.
#[derive(Debug)]
pub(super) struct CorpusFile {
    pub file: Readable,
    pub format: OutputFormat,
    /// The rows before it, of a folder's parts.
    pub first: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct CorpusFiles {
    pub files: Vec<CorpusFile>,
    /// What a run has still to write, where the output is a folder that is not complete.
    pub unfinished: Option<String>,
}

impl CorpusFiles {
    /// Finds them. `name` is how the output is called in messages.
    ///
    /// # Errors
    /// If one is missing, or cannot be read.
    pub fn find(name: &str, location: &Location, storage: Option<&Storage>) -> Result<Self> {
        if location.is_folder() {
            return parts(name, location, storage);
        }
        let file = location.read(storage)?;
        let format = output::format_of(&file)?;
        Ok(Self {
            files: vec![CorpusFile {
                file,
                format,
                first: 0,
            }],
            unfinished: None,
        })
    }
}

/// The parts of a folder.
fn parts(name: &str, location: &Location, storage: Option<&Storage>) -> Result<CorpusFiles> {
    let folder = location.folder(storage)?;
    let state = State::read(folder.as_ref(), None)?;
    if state.job.is_none() {
        return Err(
            Error::usage(format!("{name} is a folder without an output in parts")).with_remedy(
                "name one of its files; of an output in parts, the folder of its job must lie beside it, as it does where \
                 it was written",
            ),
        );
    }
    let lost = state.losses(folder.as_ref())?;
    if !lost.is_empty() {
        return Err(Error::input(
            Place::file(name),
            format!("its rows are not all here: {}", lost.join("; ")),
        )
        .with_remedy(format!(
            "put the missing parts back, or let the run that wrote them make them again, with {RESUME}"
        )));
    }
    let unfinished = state.faults();
    let mut files = Vec::with_capacity(state.parts.len());
    let mut first = 0;
    for part in state.parts.values() {
        let file = folder.open(&part.file)?;
        // A folder has more parts than a process may have open files.
        file.bytes.close();
        let format = OutputFormat::from_path(file.path())
            .ok_or_else(|| Error::internal(format!("a part without a format: {}", part.file)))?;
        if part.info.rows > 0 {
            files.push(CorpusFile {
                file,
                format,
                first,
            });
        }
        first += part.info.rows;
    }
    Ok(CorpusFiles {
        files,
        unfinished: (!unfinished.is_empty())
            .then(|| format!("{name} is not complete: {}", unfinished.join("; "))),
    })
}
