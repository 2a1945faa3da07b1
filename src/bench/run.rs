//! A whole benchmark: workers are opened one after another, warmed up, and then sampled in turn, so that a
//! machine that slows down meanwhile is as unfair to one as to the others.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::configuration::Configuration;
use super::lane::{Lane, Track};
use super::machine::Machine;
use super::peak;
use super::report::{Report, Row, SCHEMA, now};
use super::stats::Spread;
use super::tune::{TuneOptions, tune};
use super::workload::{Workload, WorkloadOptions};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};

/// The interval of the median is tight when half of it is below this share of the median.
pub(super) const TIGHT: f64 = 0.02;

/// Samples without which an interval says nothing.
pub(super) const LEAST_SAMPLES: usize = 6;

/// Single texts that are timed after each sample.
const SINGLE_TEXTS: usize = 16;

/// How long the machine's peak is measured, each time.
const PEAK_TIME: Duration = Duration::from_millis(200);

/// What to measure.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Each gets a row.
    pub configurations: Vec<Configuration>,
    /// What is embedded.
    pub workload: WorkloadOptions,
    /// How long each is sampled at most, warm-up not counted.
    pub duration: Duration,
    /// Samples of each; `None`: until the interval is tight or the time is up.
    pub samples: Option<usize>,
    /// The command that runs [`super::serve`] on its standard input and output.
    pub worker: Vec<OsString>,
    /// Look for the best of the configurations, and for its best settings.
    pub tune: Option<TuneOptions>,
}

/// Hears what is going on.
pub trait Watcher {
    /// Something else is being done now: `cpu: warming up`.
    fn state(&self, what: &str) {
        let _ = what;
    }

    /// A sample was taken: what it is of, and its rows a second.
    fn sampled(&self, name: &str, rows_per_second: f64) {
        let _ = (name, rows_per_second);
    }
}

/// Measures everything that `options` ask for. A configuration that fails is a row with its reason.
///
/// # Errors
/// If the workload cannot be read, worker processes cannot be started at all, or the run is cancelled;
/// all workers have ended then.
pub fn run(options: &BenchOptions, watcher: &dyn Watcher, cancel: &CancelToken) -> Result<Report> {
    let date = now();
    let folder = Folder::make()?;
    let mut track = Track {
        workload: Workload::open(&options.workload, &folder.0, cancel)?,
        folder: &folder.0,
        worker: &options.worker,
        target: (options.duration / 8).clamp(Duration::from_millis(50), Duration::from_secs(1)),
        cancel,
    };
    let mut machine = Machine::here();
    watcher.state("measuring the machine's peak");
    let mut measured = peak::measure(machine.cores, PEAK_TIME);
    let all = &options.configurations;
    let mut lanes = Vec::new();
    for (number, configuration) in all.iter().enumerate() {
        let name = configuration.label(all);
        watcher.state(&format!("{name}: loading"));
        let mut lane = Lane::start(configuration.clone(), number, &track)?;
        watcher.state(&format!("{name}: warming up"));
        lane.warm_up(&mut track)?;
        lanes.push(lane);
    }
    share_out(&mut lanes, options, &mut track)?;
    let mut tuning = None;
    if let Some(tune_options) = &options.tune
        && let Some((found, best)) = tune(
            tune_options,
            options,
            &mut lanes,
            &mut track,
            &machine,
            watcher,
        )?
    {
        tuning = Some(found);
        lanes.extend(best);
        lanes.retain(|lane| !lane.redundant);
    }
    rounds(&mut lanes, options, &mut track, watcher)?;
    for lane in &mut lanes {
        lane.count_work(&track)?;
        lane.end();
    }
    // A shared machine may have been busy the first time.
    let again = peak::measure(machine.cores, PEAK_TIME);
    if again.gflops > measured.gflops {
        measured = again;
    }
    machine.peak_gflops = Some(measured.gflops);
    machine.peak_vectors = Some(measured.vectors.to_owned());
    let all: Vec<Configuration> = lanes
        .iter()
        .map(|lane| lane.configuration.clone())
        .collect();
    let rows: Vec<Row> = lanes
        .iter()
        .map(|lane| Row::of(lane, &all, machine.peak_gflops))
        .collect();
    let notes = notes(&rows, &track);
    Ok(Report {
        schema: SCHEMA,
        tool: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned(),
        date,
        machine,
        workload: track.workload.info,
        rows,
        notes,
        comparison: None,
        tuning,
    })
}

/// Gives all lanes the same sample, the largest that one of them wishes for, or as much of it as a lane can
/// do in a quarter of its time.
fn share_out(lanes: &mut [Lane], options: &BenchOptions, track: &mut Track<'_>) -> Result<()> {
    let most = lanes.iter().map(|lane| lane.rows).max().unwrap_or_default();
    for lane in lanes.iter_mut().filter(|lane| lane.is_alive()) {
        let rows = most.min(lane.rows_within(options.duration.as_secs_f64() / 4.0));
        lane.set_rows(rows, track)?;
    }
    Ok(())
}

/// Samples all lanes in turn until each has had its time, or all intervals are tight.
fn rounds(
    lanes: &mut [Lane],
    options: &BenchOptions,
    track: &mut Track<'_>,
    watcher: &dyn Watcher,
) -> Result<()> {
    let all: Vec<Configuration> = lanes
        .iter()
        .map(|lane| lane.configuration.clone())
        .collect();
    let duration = options.duration.as_secs_f64();
    // Tuning has sampled already, which uses up nobody's time.
    let begun: Vec<f64> = lanes.iter().map(Lane::spent).collect();
    for round in 0.. {
        let is_open = |(lane, begun): (&Lane, &f64)| {
            lane.is_alive()
                && match options.samples {
                    Some(samples) => round < samples,
                    None => lane.spent() - begun < duration,
                }
        };
        if !lanes.iter().zip(&begun).any(is_open) {
            return Ok(());
        }
        let mut alive = lanes.iter().filter(|lane| lane.is_alive());
        if options.samples.is_none() && round > 0 && alive.all(is_tight) {
            return Ok(());
        }
        // Nobody always follows the same neighbour.
        let count = lanes.len();
        for place in 0..count {
            let number = (round + place) % count;
            if !is_open((&lanes[number], &begun[number])) {
                continue;
            }
            let lane = &mut lanes[number];
            let name = lane.configuration.label(&all);
            if let Some(rate) = lane.sample(track)? {
                watcher.sampled(&name, rate);
                lane.single_texts(SINGLE_TEXTS, track)?;
            }
        }
    }
    Ok(())
}

fn is_tight(lane: &Lane) -> bool {
    let rates = lane.rates();
    rates.len() >= LEAST_SAMPLES && Spread::of(&rates).is_some_and(|rates| rates.is_tight(TIGHT))
}

fn notes(rows: &[Row], track: &Track<'_>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let info = &track.workload.info;
    if info.cut {
        notes.push(format!(
            "the input is large: its first {} records are used",
            info.records
        ));
    }
    if info.rejected > 0 {
        notes.push(format!(
            "{} records of the input cannot be read and are left out",
            info.rejected
        ));
    }
    for row in rows {
        let Some(measured) = &row.measured else {
            continue;
        };
        for note in &measured.opened.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        let count = measured.rows_per_second.values.len();
        if count < LEAST_SAMPLES {
            notes.push(format!(
                "{}: {count} samples are too few for an interval; ± is half their range, and a longer \
                 --duration gives more",
                row.name
            ));
        }
    }
    notes
}

/// A folder of our own among the temporary ones, removed with everything in it.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        let base = std::env::temp_dir();
        for number in 0..u32::MAX {
            let path = base.join(format!("embedctl-bench-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Self(path);
                    folder.close()?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", &path, error)),
            }
        }
        Err(Error::Internal(format!(
            "no name is free in {}",
            base.display()
        )))
    }

    /// The user's texts are nobody else's business.
    fn close(&self) -> Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let only_owner = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(&self.0, only_owner)
                .map_err(|error| Error::io("protect", &self.0, error))?;
        }
        Ok(())
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind at worst, where the system cleans up itself.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
