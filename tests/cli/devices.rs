//! `embedctl devices`. What it finds differs between machines, so that these tests name the library that
//! it may look at, and ask for what holds everywhere.

use std::path::Path;

use serde_json::Value;

#[cfg(unix)]
use crate::fakes::{self, fake};
use crate::sandbox::{Run, Sandbox};
use crate::support;

/// A run that looks at `library` alone.
fn devices(sandbox: &Sandbox, library: &Path, options: &str) -> Run {
    let mut command = sandbox.command(["devices"]);
    command.args(options.split_whitespace());
    command.env("EMBEDCTL_ORT_LIB", library);
    sandbox.finish(&mut command)
}

/// A run without any library.
fn without_libraries(options: &str) -> Run {
    let sandbox = Sandbox::new();
    let empty = sandbox.path("empty");
    std::fs::create_dir(&empty).unwrap();
    devices(&sandbox, &empty, options)
}

fn json(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{run}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// The line of the table that is about `provider`.
fn line<'a>(run: &'a Run, provider: &str) -> &'a str {
    let providers = run.stdout.split("Providers\n").nth(1).unwrap_or_default();
    let start = format!("  {provider} ");
    providers
        .lines()
        .find(|line| line.starts_with(&start))
        .unwrap_or_else(|| panic!("no line about {provider} in:\n{run}"))
}

#[test]
fn the_table_fits_and_tells_all() {
    let run = without_libraries("-v");
    assert_eq!(run.code, Some(0), "{run}");
    for title in ["Hardware", "Runtimes", "Providers"] {
        assert!(run.stdout.lines().any(|line| line == title), "{run}");
    }
    for provider in [
        "cpu", "cuda", "tensorrt", "directml", "coreml", "openvino", "webgpu", "xnnpack",
        "migraphx",
    ] {
        assert!(line(&run, provider).contains("not here"), "{run}");
    }
    assert!(line(&run, "rten").contains("works"), "{run}");
    assert!(run.stdout.contains("no library was found"), "{run}");
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 80, "too long: {line}");
    }
}

/// Without `-v`, providers for which there is neither a device nor a library are one entry.
#[test]
fn what_is_not_here_is_folded() {
    let run = without_libraries("");
    assert_eq!(run.code, Some(0), "{run}");
    let folded = run.stdout.split("  not here: ").nth(1).unwrap();
    for provider in ["cpu", "directml", "coreml", "xnnpack"] {
        assert!(folded.contains(provider), "{run}");
    }
    assert!(folded.contains("(-v: why, and what helps)"), "{run}");
    assert!(!run.stdout.contains("pip install"), "{run}");
    assert!(line(&run, "rten").contains("works"), "{run}");
}

#[test]
fn a_named_folder_without_a_library_is_warned_of() {
    let run = without_libraries("");
    assert!(run.stderr.contains("[FOLDER]/empty"), "{run}");
    assert!(
        run.stderr
            .starts_with("warning: --ort-lib: no ONNX Runtime library in"),
        "{run}"
    );
}

#[test]
fn json_has_everything_by_name() {
    let report = json(&without_libraries("--json"));
    assert_eq!(report["schema"], 1);
    assert_eq!(report["os"], std::env::consts::OS);
    let cpu = &report["hardware"]["cpu"];
    assert!(cpu["usable"].as_u64() >= Some(1) && cpu["usable"].as_u64() <= cpu["threads"].as_u64());
    assert!(!cpu["name"].as_str().unwrap().is_empty());
    for list in ["gpus", "npus"] {
        assert!(report["hardware"][list].is_array(), "{list}");
    }
    assert_eq!(report["libraries"], Value::Array(Vec::new()));
    let providers = report["providers"].as_object().unwrap();
    assert_eq!(providers.len(), 12);
    for (name, status) in providers {
        for member in [
            "status",
            "reason",
            "detail",
            "remedy",
            "library",
            "version",
            "placement",
            "milliseconds",
            "device",
            "software",
        ] {
            assert!(status.get(member).is_some(), "{name} has no {member}");
        }
    }
    for inside in ["native", "rten"] {
        assert_eq!(providers[inside]["status"], "works");
    }
    assert_eq!(providers["cpu"]["status"], "absent");
    assert!(providers["cpu"]["reason"].is_string());
}

#[test]
fn what_is_required_and_works_is_no_failure() {
    let run = without_libraries("--require rten -q");
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.stderr, "");
}

#[test]
fn what_is_required_and_does_not_work_is_one_with_its_reason() {
    let run = without_libraries("--require rten,dml,cpu -q");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        line(&run, "rten").contains("works"),
        "the table comes all the same"
    );
    let (directml, cpu) = run.stderr.split_once("--require cpu: ").unwrap();
    assert!(
        directml.starts_with("error: --require directml: it does not work here: "),
        "{run}"
    );
    assert!(cpu.contains("no ONNX Runtime library was found"), "{run}");
    assert!(cpu.contains("pip install onnxruntime"), "{run}");
    assert!(!run.stderr.contains("--require rten"), "{run}");
}

#[test]
fn a_requirement_of_no_provider_is_a_usage_error() {
    for wrong in ["--require npu", "--require auto", "--require cuda,"] {
        let run = without_libraries(wrong);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run}");
        assert!(run.stderr.contains("--require"), "{run}");
    }
}

#[test]
fn a_library_that_is_not_there_is_a_failure() {
    let sandbox = Sandbox::new();
    for line in [
        "devices --ort-lib nowhere",
        "devices --ort-lib ./no.so --json",
    ] {
        let run = sandbox.run(line);
        assert_eq!(run.code, Some(1), "{run}");
        let error = "error: --ort-lib: no ONNX Runtime library in ";
        assert!(run.stderr.contains(error), "{run}");
        assert!(
            !run.stdout.is_empty(),
            "what else is here is told all the same"
        );
    }
}

#[test]
fn a_broken_library_is_a_finding() {
    let sandbox = Sandbox::new();
    sandbox.write("libonnxruntime.so", "not a library");
    let run = sandbox.run("devices --ort-lib libonnxruntime.so");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(line(&run, "cpu").contains("unusable"), "{run}");
    assert!(run.stdout.contains("found by --ort-lib"), "{run}");
    let run = sandbox.run("devices --ort-lib libonnxruntime.so --json");
    let report = json(&run);
    let library = &report["libraries"][0];
    assert!(
        library["unusable"].is_string() && library["version"].is_null(),
        "{run}"
    );
    assert_eq!(report["providers"]["cpu"]["reason"], library["unusable"]);
    let run = sandbox.run("devices --ort-lib libonnxruntime.so --require cpu");
    assert_eq!(run.code, Some(1), "{run}");
}

#[test]
#[cfg(unix)]
fn a_library_that_crashes_is_a_finding() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("");
    let Some(library) = fake(&folder, "crash", fakes::SEGFAULTS, "devices, a crash") else {
        return;
    };
    let run = devices(&sandbox, &library, "");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("it crashed (SIGSEGV)"), "{run}");
    assert!(line(&run, "rten").contains("works"), "{run}");
}

#[test]
fn a_real_library_computes() {
    let Some(library) = support::onnxruntime("devices with ONNX Runtime") else {
        return;
    };
    let sandbox = Sandbox::new();
    let run = devices(&sandbox, &library, "--require cpu");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(line(&run, "cpu").contains("works"), "{run}");
    let report = json(&devices(&sandbox, &library, "--json"));
    let cpu = &report["providers"]["cpu"];
    assert_eq!(cpu["status"], "works");
    assert_eq!(cpu["library"], report["libraries"][0]["path"]);
    assert!(cpu["milliseconds"].as_f64() > Some(0.0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_closed_pipe_is_no_failure() {
    use std::process::Stdio;
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(["devices"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The answers of NVIDIA's management library, given here by a library of our own.
#[test]
#[cfg(target_os = "linux")]
fn nvidia_gpus_are_shown_with_their_memory_and_load() {
    let sandbox = Sandbox::new();
    let Some(library) = fake(&sandbox.path(""), "driver", fakes::NVML, "NVIDIA's GPUs") else {
        return;
    };
    let folder = library.parent().unwrap();
    std::fs::rename(&library, folder.join("libnvidia-ml.so.1")).unwrap();
    let ask = |options: &str, visible: Option<&str>| {
        let mut command = sandbox.command(["devices"]);
        command
            .args(options.split_whitespace())
            .env("LD_LIBRARY_PATH", folder)
            .env("EMBEDCTL_ORT_LIB", folder);
        if let Some(visible) = visible {
            command.env("CUDA_VISIBLE_DEVICES", visible);
        }
        sandbox.finish(&mut command)
    };
    let found = json(&ask("--json", None));
    let hardware = &found["hardware"];
    assert_eq!(hardware["nvidia"]["version"], "580.95.05");
    assert_eq!(hardware["nvidia"]["cuda"], "13.0");
    let gpus = hardware["gpus"].as_array().unwrap();
    let gpus: Vec<&Value> = gpus
        .iter()
        .filter(|gpu| gpu["vendor"] == "nvidia")
        .collect();
    assert_eq!(gpus.len(), 2, "{found}");
    for (index, gpu) in gpus.iter().enumerate() {
        assert_eq!(gpu["number"], index);
        assert_eq!(gpu["name"], "NVIDIA Fake 80");
        assert_eq!(gpu["memory"], 80_u64 << 30);
    }
    assert_eq!(gpus[1]["memory_free"], 40_u64 << 30);
    assert_eq!(gpus[1]["utilization"], 97);

    let run = ask("", Some("1"));
    for part in [
        "NVIDIA Fake 80",
        "driver 580.95.05",
        "hidden by CUDA_VISIBLE_DEVICES",
    ] {
        assert!(run.stdout.contains(part), "{part} is missing:\n{run}");
    }
    // A GPU and its driver are here; what is missing is a library.
    assert!(line(&run, "cuda").contains("not here"), "{run}");
    assert!(run.stdout.contains("onnxruntime-gpu[cuda,cudnn]"), "{run}");
}
