//! The parts of a release agree: its workflow, the archives, `cargo binstall`'s metadata, and the image.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

/// The package as cargo knows it.
fn package() -> Value {
    let arguments = [
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ];
    let output = Command::new(env!("CARGO")).args(arguments).output();
    let metadata: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let own = packages.iter().find(|it| it["name"] == "embedctl");
    own.unwrap().clone()
}

/// The targets of `release.yml`.
fn targets() -> BTreeSet<String> {
    let workflow = read(".github/workflows/release.yml");
    let targets = workflow.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" target: ")?;
        Some(rest.split(',').next()?.to_owned())
    });
    targets.collect()
}

#[test]
fn wheels_are_built_for_all_systems_whose_licences_are_checked() {
    let list = read("deny.toml");
    let (_, list) = list.split_once("targets = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let checked: BTreeSet<String> = list
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    assert_eq!(targets(), checked);
}

/// `cargo binstall` finds an archive by its address, and the program in it by its path.
#[test]
fn binstall_looks_for_the_archives_that_are_made() {
    let package = package();
    let version = package["version"].as_str().unwrap();
    let metadata = &package["metadata"]["binstall"];
    for target in targets() {
        let format = &metadata["overrides"][&target]["pkg-fmt"];
        let format = format.as_str().or(metadata["pkg-fmt"].as_str()).unwrap();
        let is_windows = target.contains("windows");
        let (suffix, ending) = match format {
            "tgz" => (".tar.gz", ""),
            "zip" => (".zip", ".exe"),
            other => panic!("{other}"),
        };
        assert_eq!(is_windows, format == "zip", "{target}");
        let rendered = |key: &str| {
            let mut text = metadata[key].as_str().unwrap().to_owned();
            for (name, value) in [
                ("repo", package["repository"].as_str().unwrap()),
                ("version", version),
                ("target", &target),
                ("archive-suffix", suffix),
                ("bin", "embedctl"),
                ("binary-ext", ending),
            ] {
                text = text.replace(&format!("{{ {name} }}"), value);
            }
            assert!(!text.contains('{'), "{text}");
            text
        };
        // As `.ci/archive` names them.
        let name = format!("embedctl-{version}-{target}");
        let tag = format!("/releases/download/v{version}/{name}{suffix}");
        assert!(
            rendered("pkg-url").ends_with(&tag),
            "{}",
            rendered("pkg-url")
        );
        assert_eq!(rendered("bin-dir"), format!("{name}/embedctl{ending}"));
    }
    let script = read(".ci/archive");
    assert!(script.contains("name = f\"embedctl-{version}-{target}\""));
}

/// There is no engine for images here, so that the file is read only.
#[test]
fn the_image_is_made_of_what_is_there() {
    let file = read("Dockerfile");
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let (mut stages, mut compiler) = (Vec::new(), None);
    for line in &lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["FROM", image, "AS", stage] => {
                compiler = compiler.or(image.strip_prefix("rust:").map(str::to_owned));
                stages.push(stage);
            }
            ["COPY", from, ..] if from.starts_with("--from=") => {
                let stage = from.trim_start_matches("--from=");
                assert!(stages.contains(&stage), "{line}");
            }
            ["COPY", ref sources @ .., _] => {
                for source in sources {
                    assert!(Path::new(source).exists(), "{line}");
                }
            }
            _ => {}
        }
    }
    assert_eq!(stages.last(), Some(&"cpu"), "the default");
    assert!(stages.contains(&"cuda"));
    // Each variant that the workflow builds is a stage.
    let workflow = read(".github/workflows/release.yml");
    let variants = workflow.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" variant: ")?;
        rest.split(',').next()
    });
    let variants: BTreeSet<&str> = variants.collect();
    assert_eq!(variants, BTreeSet::from(["cpu", "cuda"]));
    let number = |version: &str| -> Vec<u32> {
        let digits = version.split('-').next().unwrap().split('.');
        digits.map(|it| it.parse().unwrap()).collect()
    };
    let package = package();
    let needed = package["rust_version"].as_str().unwrap();
    let compiler = compiler.unwrap();
    assert!(
        number(&compiler) >= number(needed),
        "rust:{compiler}, {needed}"
    );
    // Cargo wants all files that manifests name.
    let ignored = read(".dockerignore");
    let manifest = read("Cargo.toml");
    for path in manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \""))
    {
        let folder = path.split(['/', '"']).next().unwrap();
        assert!(!ignored.lines().any(|line| line == folder), "{path}");
    }
}
