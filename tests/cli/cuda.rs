//! embedctl's own engine for NVIDIA GPUs, as a whole: NVIDIA's libraries are the emulator of `crates/embedctl-cuda`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{Run, Sandbox, in_repository};
use crate::support;

/// Where pip puts CUDA's libraries in an environment.
const FOLDER: &str = "env/lib/python3.12/site-packages/nvidia/cu13/lib";

/// A model with safetensors.
const MODEL: &str = "fixtures/parity/family-distilbert/model";

/// A sandbox with texts and an environment of Python's in which the emulator lies; `None`: there is no C++ compiler.
pub fn sandbox(test: &str) -> Option<Sandbox> {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\na second text, which is longer\nthree\n");
    let folder = sandbox.path(FOLDER);
    fs::create_dir_all(&folder).unwrap();
    let Some(emulator) = embedctl_testing::emulator() else {
        return support::skip(test, "c++", "a C++ compiler");
    };
    for name in ["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13"] {
        symlink(&emulator.library, folder.join(name)).unwrap();
    }
    Some(sandbox)
}

fn command(sandbox: &Sandbox, output: &str, line: &str) -> Command {
    let mut command = sandbox.command(["embed", "texts.txt", "-o", output, "--threads", "1"]);
    emulated(&mut command, sandbox, &in_repository(MODEL)).args(line.split_whitespace());
    command
}

/// A command with a model that finds the emulator and the compiler for its kernels.
pub fn emulated<'c>(command: &'c mut Command, sandbox: &Sandbox, model: &Path) -> &'c mut Command {
    for name in ["PATH", "CXX"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    with_emulator(command, sandbox)
        .env("EMBEDCTL_MODEL", model)
        // Nothing is measured, which takes an emulator long.
        .arg("--no-cache")
}

/// A command that finds the emulator.
fn with_emulator<'c>(command: &'c mut Command, sandbox: &Sandbox) -> &'c mut Command {
    let emulator = embedctl_testing::emulator().expect("the sandbox has it");
    command
        .env("EMBEDCTL_EMULATOR", &emulator.source)
        .env("EMBEDCTL_EMULATOR_CACHE", &emulator.cache)
        .env("VIRTUAL_ENV", sandbox.path("env"))
}

/// Chooses the engine by name.
pub const OWN: &str = "-p cuda --provider-option cuda.engine=own --weights safetensors";

fn own(sandbox: &Sandbox, output: &str, line: &str) -> Run {
    sandbox.finish(&mut command(sandbox, output, &format!("{OWN} {line}")))
}

/// The values of a NumPy file.
fn values(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let words = bytes[header..].as_chunks().0.iter();
    words.map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn our_engine_gives_the_native_engines_vectors_and_says_who_computed() {
    let Some(sandbox) = sandbox("our engine on the emulator") else {
        return;
    };
    let native = sandbox.finish(&mut command(&sandbox, "native.npy", "-p native"));
    assert_eq!(native.code, Some(0), "{native}");
    let exact = values(&sandbox.path("native.npy"));
    for (precision, most) in [("fp32", 2e-5), ("fp16", 2e-3), ("bf16", 2e-2)] {
        let output = format!("{precision}.npy");
        let run = own(
            &sandbox,
            &output,
            &format!("--precision {precision} --log-format json"),
        );
        assert_eq!(run.code, Some(0), "{run}");
        assert!(run.stderr.contains("\"engine\":\"cuda\""), "{run}");
        assert!(run.stderr.contains("Emulated GPU"), "{run}");
        let ours = values(&sandbox.path(&output));
        assert_eq!(ours.len(), exact.len());
        let apart = ours.iter().zip(&exact).map(|(a, b)| (a - b).abs());
        let apart = apart.fold(0.0_f32, |worst, one| if one <= worst { worst } else { one });
        assert!(apart <= most, "{precision}: {apart}");
    }
}

#[test]
fn a_card_that_is_lost_is_an_error_without_an_output() {
    let Some(sandbox) = sandbox("a lost card") else {
        return;
    };
    for launch in [0, 5, 12] {
        let mut command = command(&sandbox, "lost.npy", OWN);
        command.env("EMBEDCTL_EMULATED_CUDA", format!("1={launch}=700"));
        let run = sandbox.finish(&mut command);
        assert_ne!(run.code, Some(0), "{run}");
        assert!(run.stderr.contains("illegal memory access"), "{run}");
        assert!(!sandbox.path("lost.npy").exists(), "{run}");
    }
}

#[test]
fn a_machine_without_a_card_and_one_without_a_library_are_told_what_is_missing() {
    let Some(sandbox) = sandbox("missing libraries") else {
        return;
    };
    let mut command = command(&sandbox, "none.npy", OWN);
    command.env("EMBEDCTL_EMULATED_CUDA", "no-device");
    let run = sandbox.finish(&mut command);
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("no CUDA-capable device"), "{run}");
    fs::remove_file(sandbox.path(FOLDER).join("libcublasLt.so.13")).unwrap();
    let run = own(&sandbox, "none.npy", "");
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("libcublasLt.so.13"), "{run}");
    assert!(run.stderr.contains("pip install nvidia-cublas"), "{run}");
    assert!(!sandbox.path("none.npy").exists());
}

/// Without an option, a checkpoint is run by our engine; ONNX Runtime runs it where an option says so, or is its own.
#[test]
fn a_checkpoint_is_run_by_our_engine_unless_an_option_chooses_onnx_runtime() {
    let Some(sandbox) = sandbox("the engine of -p cuda") else {
        return;
    };
    let plain = "-p cuda --weights safetensors --log-format json";
    let run = |line: &str| {
        let output = format!("{}.npy", line.len());
        let line = format!("{plain} {line}");
        sandbox.finish(&mut command(&sandbox, &output, &line))
    };
    let ours = run("");
    assert_eq!(ours.code, Some(0), "{ours}");
    assert!(ours.stderr.contains("\"engine\":\"cuda\""), "{ours}");
    for option in [
        "cuda.engine=onnxruntime",
        "cuda.memory-limit=1GiB",
        "cuda.binding=false",
    ] {
        let other = run(&format!("--provider-option {option}"));
        assert_ne!(other.code, Some(0), "{option}: {other}");
        assert!(other.stderr.contains("ONNX Runtime: "), "{option}: {other}");
        assert!(
            !other.stderr.contains("cuda.engine=own"),
            "{option}: {other}"
        );
    }
    let both = run("--provider-option cuda.engine=own --provider-option cuda.arena=exact");
    assert_eq!(both.code, Some(2), "{both}");
    assert!(both.stderr.contains("cuda.arena"), "{both}");
}

/// Where a library of ours is missing, ONNX Runtime is asked, and both reasons are given.
#[test]
fn without_its_libraries_our_engine_gives_way_to_onnx_runtime() {
    let Some(sandbox) = sandbox("our engine without a library") else {
        return;
    };
    fs::remove_file(sandbox.path(FOLDER).join("libnvrtc.so.13")).unwrap();
    let line = "-p cuda --weights safetensors";
    let run = sandbox.finish(&mut command(&sandbox, "none.npy", line));
    assert_ne!(run.code, Some(0), "{run}");
    for words in ["libnvrtc.so.13", "nvidia-cuda-nvrtc", "no NVIDIA GPU"] {
        assert!(run.stderr.contains(words), "{words}: {run}");
    }
}

/// Rows go to several cards, and have the same bits on each.
#[test]
fn several_cards_share_the_rows_and_give_the_bits_of_one() {
    let Some(sandbox) = sandbox("several cards") else {
        return;
    };
    let texts: String = (0..90)
        .map(|row| format!("text {row} of {}\n", "some words ".repeat(row % 9)))
        .collect();
    sandbox.write("texts.txt", &texts);
    let line = format!("{OWN} --precision fp16 --log-format json --batch-tokens 64");
    let one = sandbox.finish(&mut command(&sandbox, "one.npy", &line));
    assert_eq!(one.code, Some(0), "{one}");
    for devices in ["0,1,2", "all"] {
        let line = format!("{line} --device {devices} --force");
        let mut several = command(&sandbox, "several.npy", &line);
        let run = sandbox.finish(several.env("EMBEDCTL_EMULATED_CARDS", "3"));
        assert_eq!(run.code, Some(0), "{run}");
        assert!(run.stderr.contains("\"devices\":[0,1,2]"), "{run}");
        // One for each card, though one is asked for.
        assert!(run.stderr.contains("\"threads\":3"), "{run}");
        let [one, several] = ["one.npy", "several.npy"].map(|name| fs::read(sandbox.path(name)));
        assert!(one.unwrap() == several.unwrap(), "{devices}");
    }
    let run = own(&sandbox, "none.npy", "--device 0,1");
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("no device 1"), "{run}");
}

/// `devices` says that the provider works, and by whom.
#[test]
fn devices_shows_our_engine_and_who_runs_onnx_files() {
    let Some(sandbox) = sandbox("devices with our engine") else {
        return;
    };
    let mut command = sandbox.command(["devices", "--json"]);
    let run = sandbox.finish(with_emulator(&mut command, &sandbox));
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let cuda = &report["providers"]["cuda"];
    assert_eq!(cuda["status"], "works", "{cuda}");
    assert_eq!(cuda["device"], "Emulated GPU", "{cuda}");
    let detail = cuda["detail"].as_str().unwrap();
    assert!(detail.contains("ONNX files not"), "{detail}");
    assert_eq!(cuda["engine"], "cuda", "{cuda}");
    assert_eq!(report["providers"]["cpu"]["engine"], "onnxruntime");
}

/// `info` says which weights the provider takes here: a checkpoint by our engine, an ONNX file only with ONNX Runtime.
#[test]
fn info_tells_checkpoints_of_our_engine_from_files_of_onnx_runtime() {
    let Some(sandbox) = sandbox("info with our engine") else {
        return;
    };
    let cuda = |more: &[&str]| {
        let model = in_repository(MODEL);
        let mut command = sandbox.command(["info", "--json"]);
        command.arg(model).args(more);
        let run = sandbox.finish(with_emulator(&mut command, &sandbox));
        assert_eq!(run.code, Some(0), "{run}");
        let info: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        let providers = info["providers"].as_array().unwrap().iter();
        let mut cuda = providers.filter(|one| one["provider"] == "cuda");
        cuda.next().unwrap().clone()
    };
    let checkpoint = cuda(&[]);
    assert_eq!(checkpoint["runs"], true, "{checkpoint}");
    assert_eq!(checkpoint["weights"], "model.safetensors", "{checkpoint}");
    assert!(checkpoint["built"].is_null(), "{checkpoint}");
    let file = cuda(&["--weights", "onnx"]);
    assert_eq!(file["runs"], false, "{file}");
    let reason = file["reason"].as_str().unwrap();
    assert!(reason.contains("ONNX files not"), "{reason}");
}

/// A driver fails with libraries of a newer version of CUDA than its own: those of its version are asked for.
#[test]
fn libraries_that_are_newer_than_the_driver_are_not_taken() {
    let Some(sandbox) = sandbox("an older driver") else {
        return;
    };
    for (version, words) in [
        ("12040", "pip install nvidia-cuda-nvrtc-cu12"),
        ("11080", "the driver runs CUDA 11 at most"),
    ] {
        let mut command = command(&sandbox, "old.npy", OWN);
        let run = sandbox.finish(command.env("EMBEDCTL_EMULATED_VERSION", version));
        assert_ne!(run.code, Some(0), "{run}");
        assert!(run.stderr.contains(words), "{version}: {run}");
        assert!(!sandbox.path("old.npy").exists());
    }
    let lib = sandbox.path(FOLDER);
    for name in ["libnvrtc.so", "libcublasLt.so"] {
        let (newer, own) = (format!("{name}.13"), format!("{name}.12"));
        fs::rename(lib.join(newer), lib.join(own)).unwrap();
    }
    let mut command = command(&sandbox, "old.npy", OWN);
    let run = sandbox.finish(command.env("EMBEDCTL_EMULATED_VERSION", "12040"));
    assert_eq!(run.code, Some(0), "{run}");
}
