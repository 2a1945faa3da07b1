//! `embedctl devices`: what is here, what works, and what is missing for the rest.

use anyhow::{Context, anyhow};
use embedctl::cancel::CancelToken;
use embedctl::device::{self, DeviceReport, State};
use embedctl::engine::Provider;

use crate::args::DevicesArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::interrupt;
use crate::printer::Printer;

/// Finds it out and prints it; then the providers that are required must work.
pub fn run(args: &DevicesArgs, printer: &Printer) -> Result<ExitCode, Failure> {
    let cancel = CancelToken::new();
    interrupt::watch(cancel.clone()).context("cannot watch for signals")?;
    let command = super::probe_command()
        .context("cannot find this program's own file, which probes libraries as a child")?;
    let report = device::report(&command, args.ort_lib.as_deref(), &cancel)?;
    if args.json {
        let mut json = serde_json::to_vec_pretty(&report).context("cannot write JSON")?;
        json.push(b'\n');
        printer.data(&json)?;
    } else {
        printer.devices(&report)?;
    }
    match unmet(&report, &args.require) {
        None => Ok(ExitCode::Done),
        Some(reasons) => Err(anyhow!(reasons).into()),
    }
}

/// Which of the required providers don't work, and why.
fn unmet(report: &DeviceReport, required: &[Provider]) -> Option<String> {
    let mut reasons = Vec::new();
    for provider in Provider::ALL {
        let Some(status) = report.status(provider) else {
            continue;
        };
        if !required.contains(&provider) || status.status == State::Works {
            continue;
        }
        let mut text = format!("--require {provider}: it does not work here");
        if let Some(reason) = &status.reason {
            text = format!("{text}: {reason}");
        }
        if let Some(remedy) = &status.remedy {
            text = format!("{text}. What helps: {remedy}");
        }
        reasons.push(text);
    }
    (!reasons.is_empty()).then(|| reasons.join("\n"))
}
