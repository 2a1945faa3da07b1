//! Probes of broken libraries of every kind, and of one that works.
//!
//! The broken ones are made here with the C compiler; where there is none, those tests say so.

mod support;

#[cfg(unix)]
#[path = "support/fakes.rs"]
mod fakes;

use std::fs;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
#[cfg(unix)]
use std::time::{Duration, Instant};

use embedctl::cancel::CancelToken;
use embedctl::engine::Provider;
use embedctl::runtime::ProbeCommand;
use embedctl::runtime::probe::{LibraryReport, survey};
use tempfile::TempDir;

#[cfg(unix)]
use fakes::fake;

fn command() -> ProbeCommand {
    let program = env!("CARGO_BIN_EXE_embedctl").into();
    ProbeCommand::new(program, vec!["__probe".into()])
}

fn ask(library: &Path) -> LibraryReport {
    let mut reports = survey(&command(), Some(library), &CancelToken::new());
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

/// The message about a library that cannot be used.
fn reason(library: &Path) -> String {
    let report = ask(library);
    assert_eq!(report.providers, [], "{report:?}");
    report.unusable.expect("it should not be usable")
}

#[test]
fn a_library_says_what_it_has_and_computes_right() {
    let Some(library) = support::onnxruntime("probing a library") else {
        return;
    };
    let report = ask(&library);
    assert_eq!(report.unusable, None);
    assert_eq!(report.path, library);
    assert_eq!(report.origin, "--ort-lib");
    assert!(
        report
            .version
            .as_ref()
            .is_some_and(|version| version.starts_with("1."))
    );
    assert!(report.has(Provider::Cpu));
    let cpu = report.provider(Provider::Cpu).unwrap();
    assert!(cpu.works, "{cpu:?}");
    assert_eq!(
        cpu.placement.as_deref(),
        Some("MatMul on CPUExecutionProvider")
    );
    assert!(cpu.millis.is_some_and(|millis| millis > 0.0));
}

#[cfg(unix)]
#[test]
fn crashes_are_named_by_their_signals() {
    let folder = TempDir::new().unwrap();
    for (name, code, expected) in [
        ("at-load", fakes::ABORTS_AT_LOAD, "it crashed (SIGABRT)"),
        ("asked", fakes::SEGFAULTS, "it crashed (SIGSEGV)"),
        ("illegal", fakes::ILLEGAL, "it crashed (SIGILL)"),
    ] {
        let Some(library) = fake(folder.path(), name, code, "crashing libraries") else {
            return;
        };
        let reason = reason(&library);
        assert!(reason.contains(expected), "{name}: {reason}");
    }
}

#[cfg(unix)]
#[test]
fn the_last_words_of_a_crash_are_kept() {
    let folder = TempDir::new().unwrap();
    let Some(library) = fake(
        folder.path(),
        "words",
        fakes::ABORTS_WITH_WORDS,
        "last words",
    ) else {
        return;
    };
    assert_eq!(
        reason(&library),
        "it crashed (SIGABRT): terminate called after throwing an instance of 'fake'"
    );
}

#[cfg(unix)]
#[test]
fn a_library_that_hangs_is_stopped() {
    let folder = TempDir::new().unwrap();
    let Some(library) = fake(folder.path(), "hangs", fakes::HANGS, "hanging libraries") else {
        return;
    };
    let command = ProbeCommand {
        time_limit: Duration::from_millis(300),
        ..command()
    };
    let reports = survey(&command, Some(&library), &CancelToken::new());
    let reason = reports[0].unusable.as_deref().unwrap_or_default();
    assert_eq!(reason, "it was still busy after 0.3 s and was stopped");
}

/// A child of the library's holds the pipes on which it is listened to.
#[cfg(target_os = "linux")]
#[test]
fn a_library_that_forks_does_not_escape_its_limit() {
    let folder = TempDir::new().unwrap();
    for leaves in [false, true] {
        let file = folder.path().join(if leaves { "left" } else { "forked" });
        let code = fakes::FORKS
            .replace("getenv(\"FAKE_PID\")", &format!("{file:?}"))
            .replace("getenv(\"FAKE_LEAVES\")", if leaves { "1" } else { "0" });
        let name = if leaves { "leaves" } else { "forks" };
        let Some(library) = fake(folder.path(), name, &code, "forking libraries") else {
            return;
        };
        let command = ProbeCommand {
            time_limit: Duration::from_millis(500),
            ..command()
        };
        let start = Instant::now();
        let reports = survey(&command, Some(&library), &CancelToken::new());
        assert!(start.elapsed() < Duration::from_secs(30));
        let reason = reports[0].unusable.as_deref().unwrap_or_default();
        assert_eq!(reason, "it was still busy after 0.5 s and was stopped");
        if leaves {
            // It has a session of its own and is not waited for.
            let number: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            // SAFETY: the number is that of the process that the library has started.
            unsafe { libc::kill(number, libc::SIGKILL) };
        } else {
            support::wait_for_end(&file);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_library_that_talks_for_ever_is_stopped() {
    let folder = TempDir::new().unwrap();
    let Some(library) = fake(folder.path(), "talks", fakes::TALKS, "talking libraries") else {
        return;
    };
    let command = ProbeCommand {
        time_limit: Duration::from_millis(300),
        ..command()
    };
    let reports = survey(&command, Some(&library), &CancelToken::new());
    let reason = reports[0].unusable.as_deref().unwrap_or_default();
    assert_eq!(reason, "it was still busy after 0.3 s and was stopped");
}

#[cfg(unix)]
#[test]
fn a_survey_can_be_called_off() {
    let folder = TempDir::new().unwrap();
    let Some(library) = fake(folder.path(), "hangs", fakes::HANGS, "calling a survey off") else {
        return;
    };
    let cancel = CancelToken::new();
    let start = Instant::now();
    cancel.cancel();
    let reports = survey(&command(), Some(&library), &cancel);
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(
        reports[0].unusable.as_deref(),
        Some("its probe was interrupted")
    );
}

#[cfg(unix)]
#[test]
fn what_is_no_onnx_runtime_and_what_is_too_old_says_so() {
    let folder = TempDir::new().unwrap();
    for (name, code, expected) in [
        (
            "other",
            fakes::OTHER,
            "it is not an ONNX Runtime library (OrtGetApiBase is missing)",
        ),
        (
            "null",
            fakes::NULL,
            "it is not an ONNX Runtime library (OrtGetApiBase is missing)",
        ),
        (
            "old",
            fakes::OLD,
            "it is version 1.23.2, but 1.24 or later is needed",
        ),
        (
            "quits",
            fakes::EXITS,
            "it ended the process that asked it (exit status: 7) without an answer",
        ),
    ] {
        let Some(library) = fake(folder.path(), name, code, "libraries of other kinds") else {
            return;
        };
        assert_eq!(reason(&library), expected, "{name}");
    }
}

#[test]
fn files_that_are_no_libraries_are_not_even_opened() {
    let folder = TempDir::new().unwrap();
    let library = folder.path().join("libonnxruntime.so");
    fs::write(&library, "#!/bin/sh\n").unwrap();
    assert_eq!(reason(&library), "it is not a shared library");
    fs::write(&library, "").unwrap();
    assert_eq!(reason(&library), "the file is empty");
}

#[cfg(target_os = "linux")]
#[test]
fn a_foreign_architecture_is_named() {
    let folder = TempDir::new().unwrap();
    let library = folder.path().join("libonnxruntime.so");
    // This test itself, with another machine in its header.
    let mut elf = fs::read(std::env::current_exe().unwrap()).unwrap();
    let (machine, name) = if cfg!(target_arch = "aarch64") {
        (62, "x86_64")
    } else {
        (183, "aarch64")
    };
    elf[18] = machine;
    fs::write(&library, elf).unwrap();
    let report = ask(&library);
    let reason = report.unusable.unwrap();
    assert!(
        reason.starts_with(&format!("foreign architecture: the file is for {name}, ")),
        "{reason}"
    );
    assert!(report.remedy.unwrap().contains(std::env::consts::ARCH));
}

#[cfg(unix)]
#[test]
fn broken_libraries_do_not_hide_a_good_one_behind_them() {
    let Some(good) = support::onnxruntime("several libraries") else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let Some(bad) = fake(folder.path(), "bad", fakes::SEGFAULTS, "several libraries") else {
        return;
    };
    // In one folder the name without a version goes first.
    let place = |from: &Path, name: &str| -> PathBuf {
        let to = folder.path().join("all").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(from, &to).unwrap();
        to
    };
    let bad = place(&bad, "libonnxruntime.so");
    let good = place(&good, "libonnxruntime.so.1.99.0");
    let reports = survey(
        &command(),
        Some(&folder.path().join("all")),
        &CancelToken::new(),
    );
    let paths: Vec<&Path> = reports.iter().map(|report| report.path.as_path()).collect();
    assert_eq!(paths, [bad, good]);
    assert!(reports[0].unusable.as_ref().unwrap().contains("SIGSEGV"));
    assert!(reports[1].provider(Provider::Cpu).unwrap().works);
}

#[test]
fn a_program_that_cannot_be_started_is_a_finding() {
    let Some(library) = support::onnxruntime("probing without a program") else {
        return;
    };
    let command = ProbeCommand::new("/nowhere/embedctl".into(), Vec::new());
    let reports = survey(&command, Some(&library), &CancelToken::new());
    let reason = reports[0].unusable.as_deref().unwrap_or_default();
    assert!(reason.starts_with("it could not be probed: "), "{reason}");
}
