//! A job's end: what says that it is complete, and the single file that its parts may become.

use serde_json::Value;

use super::EmbedOptions;
use super::fingerprint::{SIZES, sizes};
use super::job::Aside;
use super::run::create;
use crate::error::{Error, Result};
use crate::job::{Fingerprint, Job, Parts, Point, SpoolReader, remove_parts};
use crate::output::{Destination, Finish};
use crate::progress::Counts;
use crate::record::SourceNames;
use arrow::buffer::NullBuffer;
use arrow::datatypes::SchemaRef;

/// What is left to do when all is embedded.
pub(super) struct Ending {
    pub(super) job: Job,
    pub(super) fingerprint: Fingerprint,
    pub(super) names: SourceNames,
    /// Widths of a row's vectors.
    pub(super) dimensions: Vec<usize>,
    pub(super) options: EmbedOptions,
    pub(super) _aside: Option<Aside>,
}

impl Ending {
    /// Says that all is there; a single file is put together first. Whether it is: of a job in shards others may
    /// be missing.
    pub(super) fn complete(
        &self,
        mut parts: Parts,
        end: Point,
        schema: SchemaRef,
        made: &dyn Fn(&Counts) -> Result<Value>,
    ) -> Result<bool> {
        parts.finish(end, schema.clone(), made)?;
        if !self.job.is_single() {
            return self.job.complete();
        }
        self.assemble(&parts, schema, made)?;
        // Its lock goes first, which the folder holds.
        drop(parts);
        if let Destination::Path(path) = &self.options.output.destination {
            remove_parts(path)?;
        }
        Ok(true)
    }

    /// Puts a single file together from its parts.
    fn assemble(
        &self,
        parts: &Parts,
        mut schema: SchemaRef,
        made: &dyn Fn(&Counts) -> Result<Value>,
    ) -> Result<()> {
        let storage = self.job.storage();
        let names = self.names.clone();
        let (mut writer, mut rejects) = create(&self.options, &self.dimensions, names, &schema)?;
        let mut counts = Counts::default();
        for part in parts.known() {
            let mut reader = SpoolReader::open(&storage.file(&part.file)?)?;
            while let Some(rows) = reader.next_rows()? {
                schema = rows.columns.schema();
                let missing = rows.missing.as_ref().map_or(0, NullBuffer::null_count);
                counts.rows += (rows.len() - missing) as u64;
                writer.write(rows)?;
            }
            if let Some(rejects) = &mut rejects {
                rejects.append(&part.rejected(storage.as_ref())?)?;
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
            let failed = |error| Error::internal(format!("writing the fingerprint: {error}"));
            let (mut fingerprint, end) = (self.fingerprint.clone(), parts.end());
            // The first run may have read another input, and have stopped at a record of it.
            if let Some(end) = end {
                fingerprint.set(SIZES, sizes(&end.sources));
            }
            let fingerprint = serde_json::to_value(&fingerprint).map_err(failed)?;
            object.insert("job".to_owned(), fingerprint);
            object.insert("end".to_owned(), serde_json::to_value(end).map_err(failed)?);
        }
        writer.finish(Finish {
            schema,
            provenance: &provenance,
            rejects,
        })
    }
}
