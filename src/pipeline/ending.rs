//! A job's end: its last words, and the single file that its parts may become.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::job::{Fingerprint, Job, Parts, Point, SpoolReader};
use crate::output::{self, Finish, OutputOptions, RunFiles};
use crate::progress::Counts;
use crate::record::SourceNames;
use crate::rejects::RejectsWriter;

/// What is left to do when all is embedded.
pub(super) struct Ending {
    pub(super) job: Job,
    pub(super) fingerprint: Fingerprint,
    pub(super) names: SourceNames,
    /// Widths of a row's vectors.
    pub(super) dimensions: Vec<usize>,
    pub(super) output: OutputOptions,
    pub(super) rejects: Option<PathBuf>,
    pub(super) files: RunFiles,
}

impl Ending {
    /// Says that all is there; a single file is put together first. Whether it is: of a job in shards others may
    /// be missing.
    pub(super) fn complete(
        &self,
        mut parts: Parts,
        end: Point,
        schema: arrow::datatypes::SchemaRef,
        made: &dyn Fn(&Counts) -> Result<Value>,
    ) -> Result<bool> {
        parts.finish(end, schema.clone(), made)?;
        if !self.job.is_single() {
            return self.job.complete();
        }
        self.assemble(&parts, schema, made)?;
        // Its lock goes first, which the folder holds.
        drop(parts);
        self.job.discard().map(|()| true)
    }

    /// Puts a single file together from its parts.
    fn assemble(
        &self,
        parts: &Parts,
        schema: arrow::datatypes::SchemaRef,
        made: &dyn Fn(&Counts) -> Result<Value>,
    ) -> Result<()> {
        let (storage, mut schema) = (self.job.storage(), schema);
        let (names, files) = (self.names.clone(), &self.files);
        let mut writer = output::create(&self.output, &self.dimensions, names, &schema, files)?;
        let rejects = self.rejects.as_ref();
        let mut rejects = rejects
            .map(|path| RejectsWriter::create(path, self.output.force, files))
            .transpose()?;
        let mut counts = Counts::default();
        for part in parts.known() {
            let mut reader = SpoolReader::open(&storage.file(&part.file)?)?;
            while let Some(rows) = reader.next_rows()? {
                schema = rows.columns.schema();
                writer.write(rows)?;
            }
            if part.info.rejected > 0
                && let Some(rejects) = &mut rejects
                && let Some(lines) = storage.read(&part.rejects())?
            {
                rejects.append(&lines)?;
            }
            counts.read += part.info.embedded + part.info.rejected;
            counts.embedded += part.info.embedded;
            counts.rejected += part.info.rejected;
            counts.truncated += part.info.truncated;
            counts.tokens += part.info.tokens;
            counts.reused += part.info.reused;
        }
        let mut provenance = made(&counts)?;
        if let Some(object) = provenance.as_object_mut() {
            let fingerprint = serde_json::to_value(&self.fingerprint);
            let fingerprint = fingerprint
                .map_err(|error| Error::internal(format!("writing the fingerprint: {error}")))?;
            object.insert("job".to_owned(), fingerprint);
        }
        writer.finish(Finish {
            schema,
            provenance: &provenance,
            rejects,
        })
    }
}
