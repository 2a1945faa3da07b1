//! Checks whether the output of a run is already complete.

use std::path::Path;

use super::fingerprint::{line_ids, sizes};
use super::plan::RunPlan;
use super::shares::{input_range, range, shares, source_states, with_inputs};
use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, Resolved};
use crate::error::{Error, Place, Result};
use crate::identity::{self, Computation, VectorIdentity};
use crate::input::Source;
use crate::job::{
    Fingerprint, INPUT_SIZES, Job, JobReader, Manifest, ShardEnd, State, clear_parts,
};
use crate::model::Model;
use crate::output::proof::Proof;
use crate::output::{self, Destination, RunOutput};
use crate::remedies;
use crate::setting::{FORCE, OUTPUT, RESUME};
use crate::storage::Readable;
use embedctl_records::marks::WindowStart;
use embedctl_records::options::InputOptions;

/// A complete output: nothing is left to do.
#[derive(Debug)]
pub struct Complete {
    /// The state of the folder; `None` for a single file.
    pub state: State,
    /// Whether all of it is complete: of a job in shards others may be missing, and this one is.
    pub all: bool,
    /// Records that it has rejected.
    pub rejected: u64,
}

impl RunPlan {
    /// Under `--resume`, the output, if there is nothing left to do: it is complete and was made from the same input with
    /// the same settings. Opens an engine only where another one than the first of the choice has made it; reads the input
    /// only where it is newer than what was read.
    ///
    /// # Errors
    /// If it is complete and was made with others, or cannot be read.
    pub fn finished(&self, cancel: &CancelToken) -> Result<Option<Complete>> {
        let options = self.options();
        let Some(job) = self.job().filter(|_| options.job.resume) else {
            return Ok(None);
        };
        let state = job.look()?;
        let file = match &options.output.destination {
            Destination::Path(path) if job.is_single() => Some(path),
            _ => None,
        };
        let made = match file {
            Some(path) => of_file(path, self)?,
            None => of_folder(job, &state)?,
        };
        let Some(made) = made else {
            return Ok(None);
        };
        let CompletedOutput {
            mut then,
            rejected,
            end,
        } = made;
        let mut as_then = self.clone();
        as_then.set_line_ids(line_ids(&then));
        let options = as_then.options();
        let job = &with_inputs(job, options);
        let mut input = options.reader()?;
        let (names, (stretches, columns)) =
            (input.names(), shares(job.shard(), options, &mut input)?);
        let resolved = self.resolved();
        let model = resolved.open_files()?;
        // As the run that goes on: what it would refuse is refused here, too.
        let plan = as_then.for_model(&model)?;
        let identity = identity::of_output(&model, &plan.output().options)?;
        let sources = source_states(options, &names);
        let manifest = match file {
            None => Manifest::read(job.storage().as_ref())?,
            Some(_) => None, // its parts are gone
        };
        let share = range(stretches.as_deref(), sources.len());
        let present = &sources[share.start as usize..share.end as usize];
        if job.shard().count == 1 {
            then.set(INPUT_SIZES, sizes(&end.sources)); // the first run may have read another, and have stopped at a record
        }
        job.differ(&then, &plan.fingerprint(&sources, &identity)?, &[])?;
        let identity = identified(identity, (&model, resolved), &then.identity(), cancel)?;
        job.differ(&then, &plan.fingerprint(&sources, &identity)?, &[])?;
        if end.sources != present && !options.sources.contains(&Source::Stdin) {
            let how = InputOptions {
                window_rows: end.window as usize,
                ..options.record_options()
            };
            let input = input.again(how, &input_range(stretches.as_deref(), columns))?;
            JobReader::new(input, WindowStart::default(), Vec::new(), job).compare(&end.end)?;
        }
        if let Some(path) = file {
            prove(job, path, self.output())?;
            // Those of a run that was killed.
            clear_parts(path)?;
            return Ok(Some(Complete {
                state: State::default(),
                all: true,
                rejected,
            }));
        }
        job.renew_completion(&state, manifest.as_ref())?;
        job.tidy()?;
        Ok(Some(Complete {
            all: job.shard().count == 1 || job.state()?.success,
            state,
            rejected,
        }))
    }
}

/// The identity of the vectors that a run would compute. An engine is opened only if the first one of the choice would not
/// compute as that of `then` did: whether it works is not known before.
fn identified(
    identity: VectorIdentity,
    (model, resolved): (&Model, &Resolved),
    then: &VectorIdentity,
    cancel: &CancelToken,
) -> Result<VectorIdentity> {
    let identified = |info: &EngineInfo| -> Result<VectorIdentity> {
        let files = model.provenance(info.provider.weights_of(model))?;
        Ok(identity.clone().with_engine(model, &files, info))
    };
    if let Some(info) = resolved.expected(model, cancel)
        && then.computation == Some(Computation::of(&info))
    {
        return identified(&info);
    }
    identified(resolved.open_engine(model, cancel)?.info())
}

/// Checks the complete file at `path` against the hashes in its provenance.
fn prove(job: &Job, path: &Path, output: &RunOutput) -> Result<()> {
    let (file, format) = (Readable::file(path)?, output.format()?);
    let made = output::provenance(&file, format)?.unwrap_or_default();
    let Proof::Other(name) = output::prove(&file, format, &made)? else {
        return Ok(());
    };
    Err(Error::input(
        Place::file(job.shown()),
        format!("is not what was written: `{name}` has another SHA-256 than its provenance says"),
    )
    .with_remedy(format!("restore the file, or write it anew with {FORCE}")))
}

/// The facts that a complete output records about itself.
struct CompletedOutput {
    /// The fingerprint of the run that made it.
    then: Fingerprint,
    /// Records that are rejected.
    rejected: u64,
    /// The end of what its shard has read.
    end: ShardEnd,
}

/// The facts of a complete folder of parts; `None` if it is not complete.
fn of_folder(job: &Job, state: &State) -> Result<Option<CompletedOutput>> {
    // A run may have been killed between its end and the completion marker, and a part be removed since.
    let Some(settled) = (state.job.as_ref()).filter(|_| state.has_ended(job.shard().index)) else {
        return Ok(None);
    };
    state.check_lists(job.storage().as_ref())?;
    Ok(Some(CompletedOutput {
        then: settled.fingerprint.clone(),
        rejected: state.rejected(),
        end: state.ends[&job.shard().index].clone(),
    }))
}

/// The same for a single file, from its provenance: its parts are gone.
fn of_file(path: &Path, plan: &RunPlan) -> Result<Option<CompletedOutput>> {
    // The parts of a run that was stopped here are all in it.
    plan.files().complete_stopped(path);
    if !path.is_file() {
        return Ok(None);
    }
    let made = output::provenance(&Readable::file(path)?, plan.output().format()?)?;
    let made = made.and_then(|all| {
        let job = serde_json::from_value(all.get("job")?.clone()).ok()?;
        Some(CompletedOutput {
            then: job,
            rejected: all["rows"]["rejected"].as_u64()?,
            end: serde_json::from_value(all.get("end")?.clone()).ok()?,
        })
    });
    if made.is_some() {
        return Ok(made);
    }
    let shown = path.display();
    Err(Error::usage(format!(
        "{OUTPUT} {shown}: the file exists, but was not made with {RESUME}"
    ))
    .with_remedy(remedies::taken()))
}
