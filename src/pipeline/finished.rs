//! Whether what a run is asked for is there already.

use std::path::Path;

use super::EmbedOptions;
use super::fingerprint::{SIZES, fingerprint, sizes};
use super::job::{MENDED, of, sources};
use super::reading::{range, shares, told};
use super::retry::hashes;
use crate::engine;
use crate::error::{Error, Place, Result};
use crate::identity::VectorIdentity;
use crate::input::{InputOptions, RecordReader, Source};
use crate::job::{
    self, Fingerprint, Job, JobReader, Manifest, Point, Rejected, ShardEnd, State, clear_parts,
    nothing_to_retry,
};
use crate::model::Model;
use crate::output::proof::Proof;
use crate::output::{self, Destination};
use crate::remedies;
use crate::setting::{FORCE, RESUME, RETRY_REJECTS, REUSE};
use crate::storage::Readable;
use crate::threads::usable_cores;
use crate::tokenize::TextTokenizer;

/// A complete output that there is nothing left to do for.
#[derive(Debug)]
pub struct Complete {
    /// What stands in the folder; nothing, of a single file.
    pub state: State,
    /// Whether all of it is complete: of a job in shards others may be missing, and this one is.
    pub all: bool,
    /// Records that it has rejected.
    pub rejected: u64,
    /// Those of them that were tried again, and embedded into parts that somebody has removed.
    pub removed: u64,
}

/// Under `--resume` and `--retry-rejects`, the output, if there is nothing left to do: it is complete and was made from
/// the same input with the same settings. Opens no engine; reads the input only where it is newer than what was read.
///
/// # Errors
/// If it is complete and was made with others, or cannot be read.
pub fn finished(options: &EmbedOptions) -> Result<Option<Complete>> {
    let Some(job) = of(options)?.filter(|_| options.job.goes_on()) else {
        return Ok(None);
    };
    let state = job.look()?;
    let file = match &options.output.destination {
        Destination::Path(path) if job.is_single() => Some(path),
        _ => None,
    };
    let made = match file {
        Some(path) => of_file(path, options)?,
        None => of_folder(&job, &state)?,
    };
    let made = made.filter(|made| !options.job.retry || made.rejected == 0);
    let Some(made) = made else {
        return Ok(None);
    };
    let Said {
        mut then,
        rejected,
        end,
        ..
    } = made;
    let mut input = RecordReader::open(&options.sources, options.input.clone())?;
    let (names, (stretches, columns)) = (input.names(), shares(job.shard(), options, &mut input)?);
    drop(input);
    let (model_options, _) = engine::settle(&options.model, &options.engine)?;
    let model = Model::open(&model_options)?;
    let weights = then.identity().weights();
    let identity = VectorIdentity::new(&model, &options.output())?;
    let identity = identity.with_files(&model, &model.provenance(weights)?, weights);
    let sources = sources(options, &names);
    let now = fingerprint(options, &sources, &identity)?;
    let mut except = Vec::new();
    if options.job.retry {
        except.extend(MENDED);
    }
    let manifest = match file {
        None => Manifest::read(job.storage().as_ref())?,
        Some(_) => None, // its parts are gone
    };
    // The input as it was when records were last tried again, be it that their part is gone.
    let index = job.shard().index;
    let named = manifest.iter().flat_map(|manifest| &manifest.parts);
    let parts = state.parts.values().chain(named).map(|part| &part.info);
    let retried = parts.filter(|part| part.retry && part.shard == index);
    let retried = retried.max_by_key(|part| part.number);
    let share = range(stretches.as_deref(), sources.len());
    let (last, present) = match retried {
        Some(part) => (&part.sources, &sources[..]),
        None => (
            &end.sources,
            &sources[share.start as usize..share.end as usize],
        ),
    };
    if retried.is_some() || job.shard().count == 1 {
        then.set(SIZES, sizes(last)); // the first run may have read another, and have stopped at a record
    }
    if let Err(error) = job.differ(&then, &now, &except) {
        except.push(SIZES);
        let has_other_size = rejected > 0 && job.differ(&then, &now, &except).is_ok();
        return Err(match has_other_size {
            true => error.with_remedy(format!(
                "give {RETRY_REJECTS} where rejected records were mended, else the same as then, or {}",
                job.anew()
            )),
            false => error,
        });
    }
    if last != present && !options.job.retry && !options.sources.contains(&Source::Stdin) {
        let tried = retried.map(|_| &state);
        let input = InputOptions {
            window_rows: end.window as usize,
            columns: tried.map_or(columns, |state| state.columns(index)),
            shares: told(stretches.as_deref()),
            ..options.input.clone()
        };
        same_input(&job, options, input, &end, tried, &model)?;
    }
    if let Some(path) = file {
        prove(&job, path, options)?;
        // Those of a run that was killed; one that tries rejected records again may be at work.
        clear_parts(path)?;
        return Ok(Some(Complete {
            state: State::default(),
            all: true,
            rejected,
            removed: 0,
        }));
    }
    let removed = job.renew_completion(&state, manifest.as_ref())?;
    job.tidy()?;
    Ok(Some(Complete {
        all: job.shard().count == 1 || job.state()?.success,
        state,
        rejected,
        removed,
    }))
}

/// Makes sure that the complete file at `path` is what was written.
fn prove(job: &Job, path: &Path, options: &EmbedOptions) -> Result<()> {
    let (file, format) = (Readable::file(path)?, options.output.resolved_format()?);
    let made = output::provenance(&file, format)?.unwrap_or_default();
    let Proof::Other(name) = output::prove(&file, format, &made)? else {
        return Ok(());
    };
    Err(Error::input(
        Place::file(job.shown()),
        format!("is not what was written: `{name}` has another SHA-256 than its provenance says"),
    )
    .with_remedy(format!(
        "put it back as it was, or write it anew with {FORCE}"
    )))
}

/// What a complete output says of itself.
pub(super) struct Said {
    /// What it was made with.
    pub(super) then: Fingerprint,
    /// Records that were read for it.
    pub(super) read: u64,
    /// Those of them that are rejected.
    pub(super) rejected: u64,
    /// The end of what its shard has read.
    end: ShardEnd,
}

/// Reads an input that has changed in its times, and refuses one that has in its records. Of an output in whose `state`
/// records were tried again, texts are compared, but for theirs: these were mended since the `end` was written.
fn same_input(
    job: &Job,
    options: &EmbedOptions,
    input: InputOptions,
    end: &ShardEnd,
    state: Option<&State>,
    model: &Model,
) -> Result<()> {
    let reader = RecordReader::open(&options.sources, input)?;
    let Some(state) = state else {
        return JobReader::new(reader, Point::default(), Vec::new(), job).compare(&end.end);
    };
    let (storage, index) = (job.storage().as_ref(), job.shard().index);
    let rejected = Rejected::read(storage, state, Some(index))?;
    let mut places = rejected.places();
    places.add_all(&rejected.embedded);
    let tokenizer = match &options.chunking {
        Some(chunking) => {
            let tokenizer = TextTokenizer::new(model, usable_cores())?;
            let chunked = tokenizer.chunked(chunking)?;
            Some((tokenizer, chunked))
        }
        None => None,
    };
    let chunks = (tokenizer.as_ref()).map(|(tokenizer, chunked)| (tokenizer, *chunked));
    let parts: Vec<_> = state.of_shard(index).cloned().collect();
    job::compare(reader, storage, &parts, places, &mut hashes(chunks))
}

/// What a complete folder of parts says; `None` if it is not complete.
fn of_folder(job: &Job, state: &State) -> Result<Option<Said>> {
    if job.retries() {
        job.ended(state)?;
    }
    // A run may have been killed between its end and the completion marker, and a part be removed since.
    let Some(settled) = (state.job.as_ref()).filter(|_| state.has_ended(job.shard().index)) else {
        return Ok(None);
    };
    state.check_lists(job.storage().as_ref())?;
    Ok(Some(Said {
        then: settled.fingerprint.clone(),
        read: state.ends.values().map(|end| end.end.records).sum(),
        rejected: state.rejected(),
        end: state.ends[&job.shard().index].clone(),
    }))
}

/// The same of a single file: its parts, which knew, are gone.
pub(super) fn of_file(path: &Path, options: &EmbedOptions) -> Result<Option<Said>> {
    if !path.is_file() {
        return match options.job.retry {
            true => Err(nothing_to_retry(&path.display().to_string())),
            false => Ok(None),
        };
    }
    let made = output::provenance(&Readable::file(path)?, options.output.resolved_format()?)?;
    let made = made.and_then(|all| {
        let job = serde_json::from_value(all.get("job")?.clone()).ok()?;
        let count = |key: &str| all["rows"][key].as_u64();
        Some(Said {
            then: job,
            read: count("read")?,
            rejected: count("rejected")?,
            end: serde_json::from_value(all.get("end")?.clone()).ok()?,
        })
    });
    if made.is_some() {
        return Ok(made);
    }
    let shown = path.display();
    Err(Error::usage(format!(
        "-o {shown}: the file exists, and was not made with {RESUME}"
    ))
    .with_remedy(match options.job.retry {
        true => format!("make it anew, with the vectors that it has: {FORCE} {REUSE} {shown}"),
        false => remedies::taken(),
    }))
}
