//! What a run is asked for, but for its model and its engine.

use std::path::PathBuf;

use embedctl_records::fields::Keep;
use embedctl_records::format::InputFormat;
use embedctl_records::options::{HEADING, InputOptions};
use embedctl_records::quantize::Dtype;
use embedctl_vectors::Terms;

use super::assembly::ExtraColumns;
use super::labels::LabelColumns;
use crate::error::Result;
use crate::input::{RecordReader, Source, implied_format};
use crate::job::{JobOptions, folder_format};
use crate::model::Model;
use crate::named::named;
use crate::output::{Forms, OutputFormat, OutputOptions, RunOutput};
use crate::tokenize::chunks::{ChunkBy, Chunking};

named! {
    /// The effect of a bad record.
    #[derive(Default)]
    pub enum OnError {
        /// Stops the run.
        #[default]
        Fail = "fail",
        /// Is counted, reported and left out.
        Skip = "skip",
        /// Is counted, reported, and stays as a row without a vector: null, with the reason in the column
        /// `embedding_error`.
        Null = "null",
    }
}

/// All options of `embedctl embed`, but for those of its model and its engine.
#[derive(Debug, Clone, Default)]
pub struct EmbedOptions {
    /// Sources, read one after another.
    pub sources: Vec<Source>,
    /// How to read them.
    pub input: InputOptions,
    /// Chunking of long texts into several rows, if any.
    pub chunking: Option<Chunking>,
    /// Whether each row gets a UUID, made of its source and id.
    pub uuid: bool,
    /// The output of the vectors.
    pub output: OutputOptions,
    /// Whether the output is in parts, and whether parts of an earlier run are resumed.
    pub job: JobOptions,
    /// The effect of a bad record.
    pub on_error: OnError,
    /// An earlier output, whose vectors are reused for equal texts.
    pub reuse: Option<PathBuf>,
    /// How many of a row's highest scores are written with their labels, where a row has several scores.
    pub top_labels: Option<usize>,
    /// File of rejected records (JSONL).
    pub rejects: Option<PathBuf>,
    /// Files that the caller writes, with their options. None may be the output or an input.
    pub others: Vec<(&'static str, PathBuf)>,
    /// Whether a run without a single row fails.
    pub fail_on_empty: bool,
    /// Maximum rows in a batch; `None`: the engine's default.
    pub batch_rows: Option<usize>,
}

impl EmbedOptions {
    /// The reader of the input. What can be read of rejected records is read where they stay as rows.
    pub(crate) fn reader(&self) -> Result<RecordReader> {
        let mut reader = RecordReader::open(&self.sources, self.record_options())?;
        if self.on_error == OnError::Null {
            reader.keep_rejected();
        }
        Ok(reader)
    }

    /// How records are read. The place of each row stands beside a matrix, under the names that columns of a table have.
    pub(crate) fn record_options(&self) -> InputOptions {
        InputOptions {
            source_columns: self.input.source_columns && !self.writes_a_matrix(),
            ..self.input.clone()
        }
    }

    /// The same with what nobody named: documents are read as such, and the headings above their chunks are columns.
    pub(super) fn settled(&self) -> Self {
        let mut settled = self.clone();
        let as_markdown = self.chunking.is_some_and(|it| it.by == ChunkBy::Markdown);
        let input = &mut settled.input;
        input.format = (input.format).or_else(|| implied_format(&self.sources, as_markdown));
        if let Some(chunking) = &mut settled.chunking
            && input.format == Some(InputFormat::File)
        {
            let is_heading = |keep: &Keep| keep.name == HEADING;
            chunking.heading |= input.keep.iter().any(is_heading);
            input.keep.retain(|keep| !is_heading(keep));
        }
        settled
    }

    pub(super) fn writes_a_matrix(&self) -> bool {
        let format = folder_format(&self.output).map_or_else(|| self.output.resolved_format(), Ok);
        format.is_ok_and(OutputFormat::is_matrix)
    }

    /// The type of a vector's components that will be written: into a folder also where no format is given.
    ///
    /// # Errors
    /// If the format is not known, or does not hold that type.
    pub fn written_dtype(&self) -> Result<Dtype> {
        self.run_output().options.resolved_dtype()
    }

    /// The output as it will be written.
    pub(super) fn run_output(&self) -> RunOutput {
        RunOutput {
            options: OutputOptions {
                format: folder_format(&self.output).or(self.output.format),
                ..self.output.clone()
            },
            nullable: self.on_error == OnError::Null,
            streams: self.input.batches.are_whole(),
            names_files: self.input.source_columns && self.writes_a_matrix(),
        }
    }

    /// The forms of the rows of `model`.
    ///
    /// # Errors
    /// If the output's format cannot hold them as they are asked for.
    pub(super) fn forms_of(&self, model: &Model) -> Result<Forms> {
        let output = self.run_output().options;
        let mut forms = model.config.forms();
        if output.sparse_tokens && model.config.any_sparse().is_some() {
            forms = forms.with_terms(&Terms::named(model.terms()));
        }
        output.check_forms(&forms)?;
        Ok(forms)
    }

    /// The output's columns beside those of records.
    pub(crate) fn extra(&self) -> ExtraColumns {
        ExtraColumns {
            chunks: self.chunking.is_some(),
            chunk_text: self.chunking.is_some_and(|chunking| chunking.text),
            chunk_id: self.chunking.is_some_and(|chunking| chunking.id),
            heading: self.chunking.is_some_and(|chunking| chunking.heading),
            uuid: self.uuid,
            // A batch that is answered as it came has no column of ids.
            no_ids: self.input.id_field.is_none() && !self.input.batches.are_whole(),
            errors: self.on_error == OnError::Null,
            labels: None,
        }
    }

    /// The same with those that are known by the model.
    pub(crate) fn extra_of(&self, model: &Model) -> ExtraColumns {
        ExtraColumns {
            labels: LabelColumns::of(model.config.scores.as_ref(), self.top_labels),
            ..self.extra()
        }
    }
}
