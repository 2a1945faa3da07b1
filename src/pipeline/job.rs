//! A run that is a job: its fingerprint, its parts, and the single file that they may become.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::EmbedOptions;
use crate::engine::{EngineInfo, Provider};
use crate::error::{Error, Result};
use crate::input::{InputOptions, RecordReader, Source};
use crate::job::{
    About, Begun, Create, Fingerprint, Found, Job, JobReader, Objects, Parts, Point, SourceState,
    Spool, SpoolReader, State, is_inside,
};
use crate::model::{Model, ModelProvenance};
use crate::output::{self, Destination, Finish, OutputOptions, RunFiles};
use crate::progress::Counts;
use crate::provenance::Provenance;
use crate::record::SourceNames;
use crate::rejects::RejectsWriter;
use crate::storage::Address;
use crate::tokenize::Chunking;

/// A job that is begun.
pub(super) struct JobRun {
    job: Job,
    begun: Begun,
    names: SourceNames,
    sources: Vec<SourceState>,
    options: EmbedOptions,
}

/// The options' job; none where the run is no job.
pub(super) fn of(options: &EmbedOptions) -> Result<Option<Job>> {
    let job = Job::of(&options.output, &options.job)?;
    let Some(mut job) = job.filter(|job| !job.is_single()) else {
        return Job::of(&options.output, &options.job);
    };
    if let Destination::Path(path) = &options.output.destination
        && Address::is_url_path(path)
    {
        let address = Address::parse(&path.to_string_lossy())?;
        let objects = Objects::new(options.files.storage()?, &address);
        job = job.with_storage(Arc::new(objects));
    }
    if let Some(path) = &options.rejects {
        return Err(Error::usage(format!(
            "--rejects {}: a folder keeps the rejects of its parts itself, in {}_embedctl/rejects; leave the \
             option out",
            path.display(),
            with_slash(job.shown())
        )));
    }
    if let Destination::Path(folder) = &options.output.destination {
        let inside = options.sources.iter().filter_map(Source::path);
        if let Some(path) = inside.into_iter().find(|path| is_inside(path, folder)) {
            return Err(Error::usage(format!(
                "the input {} lies in the folder that -o names; write to a folder of its own",
                path.display()
            )));
        }
    }
    Ok(Some(job))
}

fn with_slash(folder: &str) -> String {
    format!("{}/", folder.trim_end_matches('/'))
}

/// Whether what the options ask for is there already: what stands there, if it is complete and was made with
/// the same settings. Opens no engine.
pub(super) fn finished(options: &EmbedOptions) -> Result<Option<State>> {
    let Some(job) = of(options)?.filter(|_| options.job.resume) else {
        return Ok(None);
    };
    let (state, stored) = match (&options.output.destination, job.is_single()) {
        (Destination::Path(path), true) => {
            let state = job.look()?;
            if state.job.is_some() || !path.is_file() {
                return Ok(None);
            }
            let stored = output::provenance(path, options.output.resolved_format()?)?;
            let stored =
                stored.and_then(|all| serde_json::from_value(all.get("job")?.clone()).ok());
            let Some(stored) = stored else {
                return Err(Error::usage(format!(
                    "-o {}: the file exists, and was not made with --resume; pass --force to replace it, or \
                     write elsewhere",
                    path.display()
                )));
            };
            (state, stored)
        }
        _ => {
            let state = job.look()?;
            let Some(stored) = state.job.as_ref().filter(|_| state.success) else {
                return Ok(None);
            };
            let stored = stored.fingerprint.clone();
            (state, stored)
        }
    };
    let reader = RecordReader::open(&options.sources, options.input.clone())?;
    let (model_options, _) = crate::engine::settle(&options.model, &options.engine)?;
    let model = Model::open(&model_options)?;
    let native = stored.get("precision").and_then(|it| it.get("engine")) == Some(&json!("native"));
    let provider = if native {
        Provider::Native
    } else {
        Provider::Cpu
    };
    let info = EngineInfo::new("", String::new(), provider);
    let files = model.provenance(native)?;
    let sources = sources(options, &reader.names());
    let now = fingerprint(options, &sources, &model, &files, &info)?;
    job.differ(&stored, &now, &["precision"])?;
    Ok(Some(state))
}

/// Removes what an unfinished run has left of a single file that is made anew.
pub(super) fn forget(options: &EmbedOptions) -> Result<()> {
    match &options.output.destination {
        Destination::Path(path) if options.output.force => crate::job::forget(path),
        _ => Ok(()),
    }
}

/// Looks at the job's folder, and locks it.
pub(super) fn begin(job: Job, options: &EmbedOptions) -> Result<JobRun> {
    let found = job.begin(options.input.window_rows)?;
    let Found::Begun(begun) = found else {
        return Err(Error::usage(format!(
            "{}: the output is complete; there is nothing to go on with",
            job.shown()
        )));
    };
    Ok(JobRun {
        job,
        begun: *begun,
        names: [].into(),
        sources: Vec::new(),
        options: EmbedOptions {
            output: options.output(),
            ..options.clone()
        },
    })
}

impl JobRun {
    /// How to read: in windows that whole parts are made of.
    pub(super) fn input(&self) -> InputOptions {
        InputOptions {
            window_rows: self.begun.window,
            ..self.options.input.clone()
        }
    }

    /// Reads past what is embedded.
    pub(super) fn reader(&mut self, reader: RecordReader) -> JobReader {
        self.names = reader.names();
        self.sources = sources(&self.options, &self.names);
        let shown = self.job.shown().to_owned();
        JobReader::new(reader, self.begun.covered(), shown)
    }

    /// Refuses what can be known to differ before an engine is open.
    pub(super) fn check(&self, model: &Model) -> Result<()> {
        let info = EngineInfo::new("", String::new(), Provider::Native);
        let files = ModelProvenance {
            id: String::new(),
            revision: None,
            files: Vec::new(),
        };
        let now = fingerprint(&self.options, &self.sources, model, &files, &info)?;
        let later = ["model", "model_file", "precision", SIZES];
        self.job.compare(self.begun.state(), &now, &later)
    }

    /// What earlier runs have done, for the user.
    pub(super) fn note(&self) -> Option<String> {
        let state = self.begun.state();
        let parts = state.parts.len();
        let these = if parts == 1 { "part" } else { "parts" };
        (parts > 0).then(|| {
            format!(
                "went on behind {} rows in {parts} {these} of earlier runs, which are not counted here",
                state.rows()
            )
        })
    }

    /// Settles the fingerprint and begins to write.
    pub(super) fn parts(
        self,
        model: &Model,
        files: &ModelProvenance,
        info: &EngineInfo,
        schema: arrow::datatypes::SchemaRef,
    ) -> Result<(Parts, Ending)> {
        let Self {
            job,
            begun,
            names,
            sources,
            options,
        } = self;
        let fingerprint = fingerprint(&options, &sources, model, files, info)?;
        let fingerprint = job.settle(&begun, &fingerprint, &[SIZES])?;
        let width = model.config.width;
        let dimensions = model.config.vectors().0;
        let about = About {
            fingerprint: fingerprint.hash(),
            ..About::of(&job, sources)
        };
        let create: Create = match job.format() {
            None => Box::new(move |path| Ok(Box::new(Spool::new(path, width)))),
            Some(format) => {
                let (output, run, names) =
                    (options.output.clone(), options.files.clone(), names.clone());
                let dimensions = dimensions.clone();
                Box::new(move |path| {
                    let output = OutputOptions {
                        destination: Destination::Path(path.to_path_buf()),
                        format: Some(format),
                        force: true,
                        ..output.clone()
                    };
                    output::create(&output, &dimensions, names.clone(), &schema, &run)
                })
            }
        };
        let limits = job.limits(width, begun.window);
        let ending = Ending {
            job,
            fingerprint,
            names,
            dimensions,
            output: options.output,
            rejects: options.rejects,
            files: options.files,
        };
        Ok((begun.parts(about, create, limits)?, ending))
    }
}

/// What is left to do when all is embedded.
pub(super) struct Ending {
    job: Job,
    fingerprint: Fingerprint,
    names: SourceNames,
    /// Widths of a row's vectors.
    dimensions: Vec<usize>,
    output: OutputOptions,
    rejects: Option<PathBuf>,
    files: RunFiles,
}

impl Ending {
    /// Says that all is there; a single file is put together first.
    pub(super) fn complete(
        &self,
        mut parts: Parts,
        end: Point,
        schema: arrow::datatypes::SchemaRef,
        made: &dyn Fn(&Counts) -> Result<Value>,
    ) -> Result<()> {
        parts.finish(end, schema.clone(), made)?;
        if !self.job.is_single() {
            self.job.complete()?;
            return Ok(());
        }
        self.assemble(&parts, schema, made)?;
        // Its lock goes first, which the folder holds.
        drop(parts);
        self.job.discard()
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

fn sources(options: &EmbedOptions, names: &SourceNames) -> Vec<SourceState> {
    let sources = options.sources.iter().zip(names.iter());
    sources
        .map(|(source, name)| SourceState::of(source, name))
        .collect()
}

/// Key of the inputs' sizes: a complete output is one of them, while a run that goes on compares what it reads.
const SIZES: &str = "input_sizes";

/// A few values, or the hash of many.
fn listed(values: impl Iterator<Item = Value>) -> Value {
    let values: Vec<Value> = values.collect();
    if values.len() <= LISTED {
        return values.into();
    }
    let count = values.len();
    let mut all = Fingerprint::default();
    all.set("values", values);
    json!({"count": count, "sha256": all.hash()})
}

/// Names of inputs that a fingerprint lists; of more it holds a hash.
const LISTED: usize = 20;

/// All that decides a vector or a column.
fn fingerprint(
    options: &EmbedOptions,
    sources: &[SourceState],
    model: &Model,
    files: &ModelProvenance,
    info: &EngineInfo,
) -> Result<Fingerprint> {
    let mut all = Fingerprint::default();
    all.set("version", env!("CARGO_PKG_VERSION"));
    // What the provenance says of the model and of vectors, but for what differs between runs.
    let provenance = Provenance::new(model, files, info, None, &Counts::default(), None);
    let provenance = serde_json::to_value(&provenance);
    let Ok(Value::Object(mut provenance)) = provenance else {
        return Err(Error::internal("the provenance is no object"));
    };
    for key in [
        "schema", "tool", "model", "engine", "profile", "rows", "tokens",
    ] {
        provenance.remove(key);
    }
    let hashes: Map<String, Value> = (files.files.iter())
        .map(|file| (file.path.clone(), file.sha256.clone().into()))
        .collect();
    all.set("model", hashes);
    for (key, value) in provenance {
        all.set(&key, value);
    }
    let native = info.provider == Provider::Native;
    let engine = if native { "native" } else { "onnx" };
    all.set(
        "precision",
        json!({"engine": engine, "precision": info.precision}),
    );

    all.set(
        "inputs",
        listed(sources.iter().map(|source| json!(source.name))),
    );
    all.set(
        SIZES,
        listed(sources.iter().map(|source| json!(source.size))),
    );
    // Whoever adds an option decides here whether it changes what is written.
    let InputOptions {
        format,
        text_field,
        id_field,
        id_type,
        keep,
        max_record_bytes,
        window_rows: _,
        window_bytes,
        text_template,
        source_columns,
        limit,
        sample,
        seed,
        window_per_batch: _,
        streams: _,
        start: _,
        shares: _,
    } = &options.input;
    all.set("input_format", format!("{format:?}"));
    all.set("text", text_field.clone());
    if let Some(template) = text_template {
        all.set("text_template", template.to_string());
    }
    all.set("source_columns", *source_columns);
    all.set("records", json!([limit, sample, seed]));
    all.set("id", json!([id_field, id_type.to_string()]));
    let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
    all.set("keep", keep);
    all.set("reading", json!([max_record_bytes, window_bytes]));
    let OutputOptions {
        destination: _,
        format,
        force: _,
        dtype,
        calibration: _,
        vector_type,
        embedding_field,
        nullable,
        streams: _,
    } = &options.output;
    all.set("format", format!("{format:?}"));
    all.set("dtype", format!("{dtype:?}"));
    all.set("calibration", output::calibration_hash(&options.output)?);
    all.set("vector_type", format!("{vector_type:?}"));
    all.set("embedding_field", embedding_field.clone());
    all.set(
        "nullable",
        *nullable || options.on_error == super::OnError::Null,
    );
    let chunking = options.chunking.map(
        |Chunking {
             by,
             tokens,
             overlap,
             text,
         }| json!([by, tokens, overlap, text]),
    );
    all.set("chunking", chunking);
    all.set("part_rows", options.job.part_rows);
    Ok(all)
}
