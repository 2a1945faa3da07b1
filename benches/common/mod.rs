//! What both benchmarks of the pipeline need.

use std::path::{Path, PathBuf};

use embedctl::input::Source;
use embedctl::output::{Destination, OutputOptions};
use embedctl::pipeline::EmbedOptions;

/// A run with all defaults, from the file `corpus` to Parquet in `folder`.
pub fn whole_run(corpus: &str, folder: &Path) -> EmbedOptions {
    EmbedOptions {
        sources: vec![Source::Path(PathBuf::from(corpus))],
        output: OutputOptions::new(Destination::Path(folder.join("out.parquet"))),
        ..EmbedOptions::default()
    }
}

/// Processor time of this process so far.
#[cfg(unix)]
pub fn processor_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the one timespec that the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(not(unix))]
pub fn processor_seconds() -> f64 {
    f64::NAN
}
