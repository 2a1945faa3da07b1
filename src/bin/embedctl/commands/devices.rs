//! `embedctl devices`: hardware, working providers, and remedies for the others.

use anyhow::{Context, anyhow};
use embedctl::engine::Provider;
use embedctl::engine::availability::{self, AvailabilityState, DeviceReport};
use embedctl::output::RunFiles;

use crate::args::DevicesArgs;
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, devices_table};

/// Prints the report, then checks the required providers.
pub fn run(args: &DevicesArgs, printer: &Printer) -> Result<ExitCode, CommandFailure> {
    let cancel = interrupt::watch(RunFiles::new())?;
    let command = super::probe_command().context(
        "cannot find the path of this program, which tests libraries in a child process",
    )?;
    let report = availability::report(&command, args.library.ort_lib.as_deref(), &cancel)?;
    for status in &report.providers {
        if let Some(detail) = &status.detail {
            printer.detail(format!("{}: {detail}", status.provider));
        }
    }
    let is_verbose = printer.is_verbose();
    printer.found(args.json, &report, |report| {
        devices_table(report, is_verbose)
    })?;
    if let Some(path) = &args.library.ort_lib {
        let unusable = report.libraries.iter().all(|one| one.unusable.is_some());
        let words = format!("--ort-lib: no ONNX Runtime library in {}", path.display());
        // A broken library is part of the report; a missing path is an error.
        if unusable && !path.exists() {
            return Err(anyhow!(
                "{words}: the path does not exist; name the library file or its folder"
            )
            .into());
        }
        if report.libraries.is_empty() {
            printer.warning(format!("{words}; name the library file or its folder"));
        }
    }
    match unmet(&report, &args.require) {
        None => Ok(ExitCode::Done),
        Some(reasons) => Err(anyhow!(reasons).into()),
    }
}

/// The required providers that don't work, with their reasons.
fn unmet(report: &DeviceReport, required: &[Provider]) -> Option<String> {
    let reasons: Vec<String> = required
        .iter()
        .filter_map(|&provider| report.status(provider))
        .filter(|status| status.status != AvailabilityState::Works)
        .map(|status| {
            let mut text = format!("--require {}: it does not work here", status.provider);
            if let Some(reason) = &status.reason {
                text = format!("{text}: {reason}");
            }
            if let Some(remedy) = &status.remedy {
                text = format!("{text}. Remedy: {remedy}");
            }
            text
        })
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
