//! ARCHITECTURE.md draws the workspace as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

type Crates = BTreeMap<String, BTreeSet<String>>;

/// The crates and the crates of the workspace that each of them needs, by the manifests.
fn manifests() -> Crates {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .output()
        .expect("cargo runs this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let own: BTreeSet<String> = packages.iter().map(name).collect();
    let needs = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        let normal = dependencies.iter().filter(|one| one["kind"].is_null());
        normal.map(name).filter(|name| own.contains(name)).collect()
    };
    packages
        .iter()
        .map(|package| (name(package), needs(package)))
        .collect()
}

/// The same, as ARCHITECTURE.md draws it: `crate → crate crate`.
fn drawing() -> Crates {
    let page = std::fs::read_to_string("ARCHITECTURE.md").unwrap();
    page.lines()
        .filter_map(|line| line.split_once(" → "))
        .map(|(name, needs)| {
            let needs = needs.split_whitespace().map(str::to_owned).collect();
            (name.to_owned(), needs)
        })
        .collect()
}

#[test]
fn the_drawing_is_the_workspace() {
    let mut drawn = drawing();
    let found = manifests();
    for (name, needs) in &found {
        let drawn = drawn.remove(name).unwrap_or_default();
        assert_eq!(
            &drawn, needs,
            "ARCHITECTURE.md has other dependencies of {name}"
        );
    }
    assert!(
        drawn.is_empty(),
        "ARCHITECTURE.md draws crates that are not here: {drawn:?}"
    );
}

#[test]
fn no_crate_but_the_program_knows_options_of_the_command_line() {
    for name in manifests().into_keys().filter(|name| name != "embedctl") {
        let manifest = std::fs::read_to_string(format!("crates/{name}/Cargo.toml")).unwrap();
        assert!(!manifest.contains("clap"), "{name} depends on clap");
    }
}
