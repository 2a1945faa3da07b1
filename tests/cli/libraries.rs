//! The choice of library and provider, and the messages if there is none.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::fakes::{self, fake};
use crate::sandbox::{ONNX_MODEL, Run, Sandbox, in_repository};
use crate::support;

/// A sandbox with a text in it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    sandbox
}

fn command(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command(["embed", "texts.txt", "-o", "out.npy", "--threads", "1"]);
    command.env("EMBEDCTL_MODEL", in_repository(ONNX_MODEL));
    command.args(line.split_whitespace());
    command
}

fn run(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.finish(&mut command(sandbox, line))
}

fn broken(sandbox: &Sandbox, name: &str, code: &str, test: &str) -> Option<PathBuf> {
    fake(&sandbox.path(""), name, code, test)
}

/// ONNX Runtime under a name inside the sandbox, so that every machine shows the same path.
fn good(sandbox: &Sandbox, folder: &str, test: &str) -> Option<PathBuf> {
    let library = support::onnxruntime(test)?;
    let folder = sandbox.path(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("libonnxruntime.so");
    std::os::unix::fs::symlink(library, &link).unwrap();
    Some(link)
}

/// Where pip would put a library in an environment.
const CAPI: &str = "lib/python3.12/site-packages/onnxruntime/capi";

#[test]
fn a_named_library_that_crashes() {
    let sandbox = sandbox();
    if broken(&sandbox, "bad", fakes::SEGFAULTS, "a named crash").is_some() {
        assert_snapshot!(run(&sandbox, "--ort-lib bad"));
    }
}

#[test]
fn a_named_library_that_is_none() {
    let sandbox = sandbox();
    sandbox.write("libonnxruntime.so", "nothing of the kind");
    assert_snapshot!(run(&sandbox, "--ort-lib libonnxruntime.so"));
}

#[test]
fn a_named_library_that_is_not_there() {
    assert_snapshot!(run(&sandbox(), "--ort-lib lib/libonnxruntime.so"));
}

#[test]
fn a_named_library_that_is_too_old() {
    let sandbox = sandbox();
    if broken(&sandbox, "old", fakes::OLD, "a named old library").is_some() {
        assert_snapshot!(run(&sandbox, "--ort-lib old"));
    }
}

#[test]
fn a_named_library_that_cannot_be_used_is_the_reason_whatever_the_provider() {
    let sandbox = sandbox();
    sandbox.write("libonnxruntime.so", "nothing of the kind");
    let reason = "it is not a shared library";
    for provider in ["cuda", "tensorrt", "openvino", "webgpu", "cuda,cpu"] {
        let run = run(
            &sandbox,
            &format!("--ort-lib libonnxruntime.so -p {provider}"),
        );
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains(reason), "{provider}: {run}");
        assert!(!run.stderr.contains("no library here has"), "{run}");
    }
}

#[test]
fn a_list_does_not_fall_back_from_a_named_library_that_is_broken() {
    let sandbox = sandbox();
    sandbox.write("libonnxruntime.so", "");
    assert_snapshot!(run(&sandbox, "--ort-lib libonnxruntime.so -p cpu,rten"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_named_library_for_another_processor() {
    let sandbox = sandbox();
    let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    elf[18] = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    sandbox.write("libonnxruntime.so", elf);
    let run = run(&sandbox, "--ort-lib libonnxruntime.so");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("foreign architecture"), "{run}");
    assert!(run.stderr.contains(std::env::consts::ARCH), "{run}");
}

#[test]
#[cfg(target_os = "linux")] // elsewhere CUDA's reasons are others
fn a_provider_that_no_library_has() {
    let sandbox = sandbox();
    if good(&sandbox, "ort", "a provider that no library has").is_some() {
        let run = run(&sandbox, "--ort-lib ort -p cuda");
        assert_eq!(run.code, Some(1), "{run}");
        let lacking =
            "no library here has the provider cuda (ort/libonnxruntime.so (--ort-lib): it has cpu)";
        assert!(run.stderr.contains(lacking), "{run}");
        fits_the_machine(&run);
        assert_eq!(sandbox.files(), ["ort", "texts.txt"]);
    }
}

#[test]
fn a_provider_that_this_library_was_built_without() {
    let sandbox = sandbox();
    if good(&sandbox, "ort", "a library without WebGPU").is_some() {
        let run = run(&sandbox, "--ort-lib ort -p webgpu");
        assert_eq!(run.code, Some(1), "{run}");
        for part in [
            "has the provider webgpu",
            "ort/libonnxruntime.so",
            "it has cpu",
        ] {
            assert!(run.stderr.contains(part), "{part} is missing: {run}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_list_says_unasked_that_it_fell_back() {
    let sandbox = sandbox();
    if good(&sandbox, "ort", "lists of providers").is_some() {
        let told = run(&sandbox, "--ort-lib ort -p cuda,cpu");
        assert_eq!(told.code, Some(0), "{told}");
        let notes: Vec<&str> = told
            .stderr
            .lines()
            .filter(|line| line.starts_with("note: cpu is used"))
            .collect();
        let [note] = notes[..] else {
            panic!("{told}");
        };
        assert!(note.contains("cpu is used, not cuda: "), "{told}");
        assert!(
            note.contains("no library here has the provider cuda"),
            "{told}"
        );
        fits_the_machine(&told);
        let silent = run(&sandbox, "--ort-lib ort -p cpu,cuda --force");
        assert!(!silent.stderr.contains("is used, not"), "{silent}");
        let quiet = run(&sandbox, "--ort-lib ort -p cuda,cpu --force -q");
        assert_eq!(quiet.stderr, "", "{quiet}");
    }
}

/// CUDA's package is advised where there is a device for it, and nowhere else.
#[cfg(target_os = "linux")]
fn fits_the_machine(run: &Run) {
    let device = embedctl::device::Hardware::detect();
    let nvidia = device
        .gpus
        .iter()
        .any(|gpu| gpu.vendor == embedctl::device::Vendor::Nvidia);
    assert_eq!(
        run.stderr.contains("onnxruntime-gpu[cuda,cudnn]"),
        nvidia,
        "{run}"
    );
    assert_eq!(
        run.stderr.contains("no NVIDIA GPU was found"),
        !nvidia,
        "{run}"
    );
}

#[test]
fn a_provider_that_cannot_be_had_fails_while_the_input_is_silent() {
    let sandbox = sandbox();
    sandbox.write("libonnxruntime.so", "nothing of the kind");
    let line = "embed - -o out.npy --ort-lib libonnxruntime.so -p cuda -m";
    let mut command = sandbox.command(line.split(' '));
    command.arg(in_repository(ONNX_MODEL));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let open = child.stdin.take();
    let run = sandbox.outcome(&child.wait_with_output().unwrap());
    drop(open);
    assert_eq!(run.code, Some(1), "{run}");
    assert_eq!(sandbox.files(), ["libonnxruntime.so", "texts.txt"]);
}

/// A crashing library in the active environment, a good one in the next place.
#[test]
fn auto_goes_on_behind_a_library_that_crashes() {
    let sandbox = sandbox();
    let test = "auto behind a crash";
    let Some(bad) = broken(
        &sandbox,
        &format!("venv/{CAPI}"),
        fakes::ABORTS_AT_LOAD,
        test,
    ) else {
        return;
    };
    if good(&sandbox, &format!("conda/{CAPI}"), test).is_none() {
        return;
    }
    let mut command = command(&sandbox, "-v");
    command.env("VIRTUAL_ENV", sandbox.path("venv"));
    command.env("CONDA_PREFIX", sandbox.path("conda"));
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(0), "{run}");
    let passed_over = format!(
        "skipped {} (in $VIRTUAL_ENV): it crashed (SIGABRT)",
        bad.display()
    );
    let passed_over = passed_over.replace(&sandbox.path("").display().to_string(), "[FOLDER]/");
    assert!(run.stderr.contains(&passed_over), "{run}");
    assert!(run.stderr.contains("running on onnxruntime"), "{run}");
    assert!(run.stderr.contains("conda/lib"), "{run}");
}

#[test]
fn auto_falls_back_to_the_embedded_engine_behind_crashes() {
    let sandbox = sandbox();
    let test = "the embedded engine behind a crash";
    if broken(&sandbox, &format!("venv/{CAPI}"), fakes::SEGFAULTS, test).is_none() {
        return;
    }
    let mut command = command(&sandbox, "-v");
    command.env("VIRTUAL_ENV", sandbox.path("venv"));
    let run = sandbox.finish(&mut command);
    // A machine may have a library in its system folders.
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("it crashed (SIGSEGV)"), "{run}");
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn exists(process: i32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(process, 0) == 0 }
}

/// A run that waits for a probe which hangs, and the probe's process.
fn hanging(sandbox: &Sandbox, test: &str) -> Option<(std::process::Child, i32)> {
    broken(sandbox, "hangs", fakes::HANGS_BY_NAME, test)?;
    let pid = sandbox.path("pid");
    let mut command = command(sandbox, "--ort-lib hangs");
    let child = command.env("FAKE_PID", &pid).spawn().unwrap();
    let mut probe = 0;
    wait_until("the probe", || {
        let written = std::fs::read_to_string(&pid).unwrap_or_default();
        probe = written
            .strip_suffix('\n')
            .and_then(|pid| pid.parse().ok())
            .unwrap_or(0);
        probe > 0
    });
    Some((child, probe))
}

#[test]
fn an_interrupt_does_not_wait_for_a_probe() {
    let sandbox = sandbox();
    let Some((mut child, probe)) = hanging(&sandbox, "interrupting a probe") else {
        return;
    };
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the child has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until("the end of the probe", || !exists(probe));
    assert!(!sandbox.path("out.npy").exists());
}

#[test]
fn a_probe_does_not_outlive_a_program_that_was_killed() {
    let sandbox = sandbox();
    let Some((mut child, probe)) = hanging(&sandbox, "killing a probing program") else {
        return;
    };
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end of the probe", || !exists(probe));
}

#[test]
fn the_hidden_subcommand_is_nowhere_to_be_seen() {
    let sandbox = Sandbox::new();
    for line in ["--help", "man", "completions bash", "completions zsh"] {
        let run = sandbox.run(line);
        assert!(!run.stdout.contains("probe"), "{line}: {run}");
    }
    let run = sandbox.run("__probe");
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run}");
    assert_eq!(run.stderr, "these are not the arguments of a probe\n");
}
