//! Packed weights and measured cosines, which a run keeps for the next one.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::sandbox::{Sandbox, in_repository};

const MODEL: &str = "fixtures/parity/family-qwen3/model";

/// Embeds some texts into `name`; the vectors' file, and what the provenance says about the engine.
fn embed(sandbox: &Sandbox, name: &str, options: &str) -> (Vec<u8>, Value) {
    sandbox.write("texts.txt", "a cat\nthe dog runs over the moon\n");
    let model = in_repository(MODEL);
    let line = format!(
        "embed -m {} --provider native --threads 1 --min-cosine 0.5 texts.txt -o {name}.npy {options}",
        model.display()
    );
    let mut command = sandbox.command(line.split_whitespace());
    let run = sandbox.finish(command.env("XDG_CACHE_HOME", sandbox.path(".cache")));
    assert_eq!(run.code, Some(0), "{run}");
    let vectors = fs::read(sandbox.path(&format!("{name}.npy"))).unwrap();
    let made = fs::read(sandbox.path(&format!("{name}.npy.json"))).unwrap();
    let made: Value = serde_json::from_slice(&made).unwrap();
    (vectors, made["engine"].clone())
}

fn kept(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(sandbox.path(".cache/embedctl/native"));
    let entries = entries.into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_second_run_takes_weights_and_cosine_from_the_cache_and_gives_the_same() {
    for precision in ["int16", "int8"] {
        let sandbox = Sandbox::new();
        let reduced = format!("--precision {precision}");
        let plain = embed(&sandbox, "plain", &format!("{reduced} --no-cache"));
        assert!(kept(&sandbox).is_empty());
        let first = embed(&sandbox, "first", &reduced);
        let files = kept(&sandbox);
        let of = |ending: &str| {
            let own = |path: &&PathBuf| path.extension().is_some_and(|it| it == ending);
            files.iter().filter(own).count()
        };
        // The built-in texts, and those of the first window.
        assert_eq!((of("weights"), of("note")), (1, 2), "{files:?}");
        let whole: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        let second = embed(&sandbox, "second", &reduced);
        assert_eq!(kept(&sandbox), files);
        for path in &files {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        let damaged = embed(&sandbox, "damaged", &reduced);
        let mended: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        assert!(mended == whole);
        for (other, name) in [(first, "first"), (second, "second"), (damaged, "damaged")] {
            assert!(other.0 == plain.0, "{precision} {name}");
            assert_eq!(other.1, plain.1, "{precision} {name}");
        }
    }
}

#[test]
fn single_precision_keeps_nothing() {
    let sandbox = Sandbox::new();
    embed(&sandbox, "exact", "");
    assert!(kept(&sandbox).is_empty());
}

/// A whole run with tiles, by plain code in their place: packed weights of one instruction set are none of another, and the
/// vectors are those of the usual one.
#[test]
fn a_run_by_tiles_keeps_weights_of_its_own_and_is_verified_by_the_usual_instructions() {
    for precision in ["fp32", "bf16", "int16", "int8"] {
        let sandbox = Sandbox::new();
        let cache = sandbox.path(".cache");
        let (_, usual) = embed(&sandbox, "usual", &format!("--precision {precision}"));
        let packed = kept(&sandbox).len();
        let model = in_repository(MODEL);
        let line = format!(
            "embed -m {} --provider native --min-cosine 0.5 --precision {precision} --keep text \
             texts.txt -o tiles.npy",
            model.display()
        );
        let mut command = sandbox.command(line.split_whitespace());
        command
            .env("XDG_CACHE_HOME", &cache)
            .env("EMBEDCTL_CPU", "portable-tiles");
        let run = sandbox.finish(&mut command);
        if !embedctl_kernels::Isa::EMULATES_TILES {
            assert!(run.stderr.contains("is not an instruction set"), "{run}");
            eprintln!("skipped: a run by tiles: only builds of the profile `dev` have plain ones");
            return;
        }
        assert_eq!(run.code, Some(0), "{precision}: {run}");
        let made = fs::read(sandbox.path("tiles.npy.json")).unwrap();
        let made: Value = serde_json::from_slice(&made).unwrap();
        let version = made["engine"]["version"].as_str().unwrap();
        assert!(version.contains("portable-tiles"), "{version}");
        assert_ne!(usual["version"], made["engine"]["version"]);
        if packed > 0 {
            assert!(kept(&sandbox).len() > packed, "{precision}");
        }
        let mut command = sandbox.command(["inspect", "tiles.npy", "--verify", "2"]);
        let run = sandbox.finish(command.env("XDG_CACHE_HOME", &cache));
        assert_eq!(run.code, Some(0), "{precision}: {run}");
        assert!(run.stdout.contains("verified"), "{run}");
    }
}
