//! The files of an output that is searched: one, or the parts of a folder.

use crate::error::{Error, Place, Result};
use crate::job::{State, parts_of};
use crate::output::{self, OutputFormat, ROWS, RowTexts};
use crate::setting::RESUME;
use crate::storage::{Location, Readable, Storage};

/// One of an output's files.
#[derive(Debug)]
pub(super) struct CorpusFile {
    pub file: Readable,
    pub format: OutputFormat,
    /// The rows before it, of a folder's parts.
    pub first: u64,
    /// How many of its rows have a vector, where that is known.
    pub vectors: Option<u64>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct CorpusFiles {
    pub files: Vec<CorpusFile>,
    /// What the user should know: what a run has still to write, and which files are not there.
    pub warnings: Vec<String>,
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
        let file = location.read(storage).map_err(|error| match job_of(location) {
            Some(job) => error.with_remedy(format!(
                "the run that writes it is not at its end: go on with {RESUME}, or name {job}, which has the rows so far"
            )),
            None => error,
        })?;
        let format = output::format_of(&file)?;
        Ok(Self {
            files: vec![CorpusFile {
                file,
                format,
                first: 0,
                vectors: None,
            }],
            warnings: Vec::new(),
        })
    }

    /// Notes files of ids and texts that should lie beside these, and do not, or are others than were written there.
    ///
    /// # Errors
    /// If the system or a store refuses.
    pub fn note_strange_rows(&mut self) -> Result<()> {
        for file in &self.files {
            if file.format.facts().row_texts != RowTexts::Beside {
                continue;
            }
            let name = format!("{}{ROWS}", file.file.name);
            let rows = output::row_texts_of(&file.file, file.format)?;
            let made = output::provenance(&file.file, file.format)?.unwrap_or_default();
            match rows.map(|rows| rows.is_as_written(&made)).transpose()? {
                Some(true) => {}
                Some(false) => self.warnings.push(format!(
                    "{name} is not the file that was written there: ids and texts may be those of other rows; put that one back"
                )),
                None => self.warnings.push(format!(
                    "{name} is not there, which has the ids and texts of its rows; put it beside its matrix"
                )),
            }
            file.file.bytes.close();
        }
        Ok(())
    }
}

/// The folder of the job that writes a file of this machine, if it is there.
fn job_of(location: &Location) -> Option<String> {
    let Location::Local(path) = location else {
        return None;
    };
    let folder = parts_of(path);
    folder.is_dir().then(|| format!("{}/", folder.display()))
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
        let format = match OutputFormat::from_path(file.path()) {
            Some(format) => format,
            None => output::format_of(&file)?,
        };
        let info = &part.info;
        if info.rows > 0 {
            files.push(CorpusFile {
                file,
                format,
                first,
                // Of rejected records some may be rows without a vector.
                vectors: (info.rejected == 0 || info.rows == info.embedded).then_some(info.rows),
            });
        }
        first += part.info.rows;
    }
    Ok(CorpusFiles {
        files,
        warnings: (!unfinished.is_empty())
            .then(|| format!("{name} is not complete: {}", unfinished.join("; ")))
            .into_iter()
            .collect(),
    })
}
