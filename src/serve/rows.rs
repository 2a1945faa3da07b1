//! The rows of the output that a server is like, by which it answers searches.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use embedctl_common::file_state::FileState;
use embedctl_serve::{CorpusRow, ServedCorpus};
use embedctl_vectors::{RowForm, RowVector, Terms};

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::inspect::QUERY_PROMPT;
use crate::model::Model;
use crate::search::Corpus;
use crate::setting::LIKE;
use crate::storage::Location;

/// An output of this machine, whose rows are read anew for each search.
pub(super) struct LikeRows {
    corpus: Corpus,
    name: String,
    /// Its files as they were when the server started: others may hold vectors of another model.
    files: Vec<(PathBuf, FileState)>,
    /// Whether queries get the model's own prompt for them, as `embedctl search` gives it.
    has_query_prompt: bool,
}

impl LikeRows {
    /// Opens the output of `model`. `form` is the one of several forms of vectors that is served.
    ///
    /// # Errors
    /// If its rows cannot be compared with queries, or lie elsewhere.
    pub fn open(
        path: &Path,
        form: Option<RowForm>,
        has_query_prompt: bool,
        model: &Model,
    ) -> Result<Self> {
        let location = Location::of(path)?;
        let Location::Local(_) = location else {
            return Err(Error::usage(format!(
                "{location} is not on this machine, and each search would fetch all of it"
            ))
            .with_remedy("copy it here, and name the copy"));
        };
        let mut corpus = Corpus::open(path, None, &Vec::from_iter(form))?;
        if corpus.lacks_terms() {
            corpus.know_terms(Terms::named(model.terms()));
        }
        let files = corpus
            .paths()
            .map(|path| Ok((path.to_owned(), state(path)?)));
        let files = files.collect::<Result<_>>()?;
        Ok(Self {
            corpus,
            name: path.display().to_string(),
            files,
            has_query_prompt,
        })
    }

    /// What the user should know of the output.
    pub fn warnings(&self) -> &[String] {
        &self.corpus.warnings
    }

    /// Refuses files that are not those with which the server was started.
    fn check(&self) -> Result<()> {
        for (path, known) in &self.files {
            if state(path)? != *known {
                return Err(Error::usage(format!(
                    "{} has changed since the server was started with {LIKE}",
                    path.display()
                ))
                .with_remedy("start the server again"));
            }
        }
        Ok(())
    }
}

fn state(path: &Path) -> Result<FileState> {
    let metadata = fs::metadata(path).map_err(|error| Error::io("read", path, error))?;
    Ok(FileState::from_metadata(&metadata))
}

impl ServedCorpus for LikeRows {
    fn name(&self) -> &str {
        &self.name
    }

    fn width(&self) -> Option<usize> {
        self.corpus.width()
    }

    fn prompt_name(&self) -> Option<&str> {
        self.has_query_prompt.then_some(QUERY_PROMPT)
    }

    fn nearest(
        &self,
        query: RowVector<'_>,
        most: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<CorpusRow>> {
        self.check()?;
        let found = self.corpus.nearest(&query.alone(), most, None, cancel)?;
        let found = found.into_iter().next().unwrap_or_default();
        let rows: BTreeSet<u64> = found.iter().map(|hit| hit.row).collect();
        let mut fields = self.corpus.fields(&rows)?;
        self.check()?;
        let rows = found.into_iter().map(|hit| {
            let fields = fields.remove(&hit.row).unwrap_or_default();
            CorpusRow {
                row: hit.row,
                id: fields.id,
                chunk: fields.chunk,
                text: fields.text,
                score: hit.score,
            }
        });
        Ok(rows.collect())
    }
}
