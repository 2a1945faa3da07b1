//! ARCHITECTURE.md draws the workspace as it is, and what it says of the crates is so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
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
    let page = fs::read_to_string("ARCHITECTURE.md").unwrap();
    page.lines()
        .filter_map(|line| line.split_once(" → "))
        .filter(|(name, _)| name.starts_with("embedctl") && !name.contains(' '))
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

/// A page names a file or a folder by its path, or by the end of its path: `formats/rows.rs`.
#[test]
fn files_that_pages_name_are_there() {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = ["src", "crates", "tests", "benches", "fixtures", "python"]
        .map(PathBuf::from)
        .into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
        files.push(folder);
    }
    for page in ["ARCHITECTURE.md", "docs/internals.md"] {
        let text = fs::read_to_string(page).unwrap();
        let named: Vec<&str> = named_files(&text).collect();
        assert!(named.len() > 50, "{page} names few files: {named:?}");
        let is_there = |name: &&str| files.iter().any(|file| file.ends_with(name));
        let missing: Vec<&str> = named.into_iter().filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{page} names {missing:?}");
    }
}

/// The texts in backticks that look like files of ours, or like folders: these end with `/`.
fn named_files(page: &str) -> impl Iterator<Item = &str> {
    let is_path = |text: &&str| {
        let is_letter = |it: char| it.is_ascii_alphanumeric() || "_-./".contains(it);
        let ending = [".rs", ".py", ".txt", ".jsonl", ".sh", "/"];
        text.chars().all(is_letter) && ending.iter().any(|ending| text.ends_with(ending))
    };
    // A fenced block has six backticks, so the count is even behind it.
    page.split('`').skip(1).step_by(2).filter(is_path)
}

#[test]
fn a_file_that_is_named_wrongly_is_found() {
    let page = "`a b`, `src/x.rs`\n```\n`no`\n```\nand `formats/`, `config.json`, `f::g`, `b.py`";
    let named: Vec<_> = named_files(page).collect();
    assert_eq!(named, ["src/x.rs", "formats/", "b.py"]);
}

/// The measures of `.ci/house`: each with its number.
#[cfg(unix)]
fn measures() -> BTreeMap<String, u64> {
    let output = Command::new("sh").arg(".ci/house").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let fault = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{fault}");
    let measure = |line: &str| {
        let (number, name) = line.split_once('\t').unwrap();
        (name.to_owned(), number.parse().unwrap())
    };
    text.lines().map(measure).collect()
}

/// Kernels whose loops must keep their sums in registers.
#[cfg(unix)]
const LONG_FUNCTIONS: u64 = 5;

/// A second assembly would be a model ready to run that lacks what the first one has learnt, and a second resolution may come
/// to another result.
#[cfg(unix)]
#[test]
fn a_model_is_put_together_once_and_the_readme_stays_short() {
    let measures = measures();
    assert_eq!(measures["assemblies of a LoadedModel"], 1, "{measures:?}");
    assert_eq!(measures["calls of Resolved::of"], 1, "{measures:?}");
    assert!(measures["bytes of README.md"] <= 12_000, "{measures:?}");
    // What a run adds to what the user said stands in types of the run.
    assert_eq!(measures["handles inside option structs"], 0, "{measures:?}");
    assert!(
        measures["functions over 100 lines"] <= LONG_FUNCTIONS,
        "{measures:?}"
    );
    // What the numbers of a row are is known in one place; formats and models know how they write and give them.
    assert!(measures["types for the form of rows"] <= 2, "{measures:?}");
    let named = measures["files that name sparse vectors or vectors of tokens"];
    assert!(named <= 12, "{measures:?}");
    let made = measures["files that make or write entries or lists of vectors"];
    assert!(made <= 15, "{measures:?}");
    // What a reader meets between a line of input and its row of output.
    let files = measures["files of one record's way"];
    let types = measures["types of the workspace in these files"];
    assert!(files <= 30 && types <= 200, "{measures:?}");
    // Measures that find nothing measure nothing.
    for (name, number) in &measures {
        assert!(*number > 0 || name.contains("handles"), "{name}");
    }
}

#[test]
fn no_crate_but_the_program_knows_options_of_the_command_line() {
    for name in manifests().into_keys().filter(|name| name != "embedctl") {
        let manifest = fs::read_to_string(format!("crates/{name}/Cargo.toml")).unwrap();
        assert!(!manifest.contains("clap"), "{name} depends on clap");
    }
}

/// A unit test stands at the end of its file, or in files and folders named `*_tests` beside it.
#[test]
fn files_of_unit_tests_are_named_by_what_they_test() {
    let mut folders: Vec<PathBuf> = fs::read_dir("crates")
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    folders.push("src".into());
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert_ne!(name, "tests", "{}", path.display());
            found += u64::from(name.ends_with("_tests"));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(found > 40, "{found}");
}

/// A setting's name in a message is the program's choice (`embedctl_common::setting`).
#[test]
fn no_message_of_a_library_names_options_of_the_command_line() {
    let settings = settings();
    let mut found = Vec::new();
    for path in library_sources() {
        let source = fs::read_to_string(&path).unwrap();
        let (source, _) = source
            .split_once("#[cfg(test)]\nmod tests {")
            .unwrap_or((&source, ""));
        for text in strings(source) {
            let option = options(&text).find(|option| settings.contains(*option));
            let option = option.map(|option| format!("--{option}"));
            // Of other programs' options these two messages tell.
            let others = ["iconv -f", "ulimit -f"];
            let letter =
                letters(&text).filter(|_| !others.iter().any(|other| text.contains(other)));
            let named = option.into_iter().chain(letter);
            found.extend(named.map(|option| format!("{}: {option}: {text}", path.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The first option of one letter in a message that a setting is written as.
fn letters(text: &str) -> Option<String> {
    let words = text.split(|it: char| !(it == '-' || it.is_alphanumeric()));
    let mut options = words.filter(|word| ["-f", "-i", "-o"].contains(word));
    // An option alone is an argument of another program.
    options
        .next()
        .filter(|option| *option != text)
        .map(str::to_owned)
}

/// The words of all settings: `max-length`.
fn settings() -> BTreeSet<String> {
    let source = fs::read_to_string("crates/embedctl-common/src/setting.rs").unwrap();
    let words = source.lines().filter_map(|line| {
        let (_, words) = line.strip_prefix("pub const ")?.split_once("Setting::")?;
        Some(words.split('"').nth(1)?.to_owned())
    });
    let settings: BTreeSet<_> = words.collect();
    assert!(settings.contains("max-length"), "{settings:?}");
    settings
}

/// The sources of all libraries, without those of tests.
fn library_sources() -> Vec<PathBuf> {
    let crates = fs::read_dir("crates").unwrap();
    let mut folders: Vec<PathBuf> = crates
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    folders.push("src".into());
    let (mut sources, mut tests) = (Vec::new(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path != Path::new("src/bin") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let source = fs::read_to_string(&path).unwrap();
                let of_tests = source.split("#[cfg(test)]\nmod ").skip(1);
                let named = of_tests.filter_map(|rest| rest.lines().next()?.strip_suffix(';'));
                let parent = match path.file_stem().unwrap().to_str().unwrap() {
                    "mod" | "lib" => path.parent().unwrap().to_owned(),
                    _ => path.with_extension(""),
                };
                tests.extend(named.map(|name| parent.join(name)));
                sources.push(path);
            }
        }
    }
    sources.retain(|path| {
        let parts = path.components().filter_map(|it| it.as_os_str().to_str());
        let is_test = (parts.map(|it| it.trim_end_matches(".rs"))).any(|it| it.ends_with("_tests"));
        let in_tests = |test: &PathBuf| path.starts_with(test) || path.with_extension("") == *test;
        !is_test && !tests.iter().any(in_tests)
    });
    assert!(sources.len() > 200, "{sources:?}");
    sources
}

/// The contents of a source's string literals, escapes as they are written.
fn strings(source: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut rest = source;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let hashes = rest[first.len_utf8()..]
            .chars()
            .take_while(|&it| it == '#')
            .count();
        let is_raw = first == 'r'
            && (before == 'b' || !(before.is_alphanumeric() || before == '_'))
            && rest[1 + hashes..].starts_with('"');
        let (skipped, text) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), None)
        } else if is_raw {
            let end = format!("\"{}", "#".repeat(hashes));
            let inner = &rest[hashes + 2..];
            let length = inner.find(&end).expect("a string ends");
            (hashes + 2 + length + end.len(), Some(&inner[..length]))
        } else if first == '"' {
            let length = unescaped(&rest[1..], '"').expect("a string ends");
            (length + 2, Some(&rest[1..=length]))
        } else if rest.starts_with("'\\") {
            let length = unescaped(&rest[1..], '\'').expect("a character ends");
            (length + 2, None)
        } else if first == '\'' && rest.chars().nth(2) == Some('\'') {
            (
                rest.char_indices()
                    .nth(3)
                    .map_or(rest.len(), |(end, _)| end),
                None,
            )
        } else {
            (first.len_utf8(), None)
        };
        strings.extend(text.map(str::to_owned));
        before = first;
        rest = &rest[skipped..];
    }
    strings
}

/// Where `end` stands first without a backslash that is its own.
fn unescaped(text: &str, end: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, it)| {
        let found = it == end && !escaped;
        escaped = it == '\\' && !escaped;
        found.then_some(at)
    })
}

/// The options that a text names, without their hyphens; not those of other programs' commands.
fn options(text: &str) -> impl Iterator<Item = &str> {
    const OTHERS: [&str; 2] = ["optimum-cli export onnx ", "start the container with: "];
    text.match_indices("--").filter_map(move |(at, _)| {
        let (before, rest) = (&text[..at], &text[at + 2..]);
        let end = rest.find(|it: char| !it.is_ascii_lowercase() && it != '-');
        let is_other =
            OTHERS.iter().any(|other| before.ends_with(other)) || rest.starts_with("device /dev/");
        (!is_other).then(|| rest[..end.unwrap_or(rest.len())].trim_end_matches('-'))
    })
}

#[test]
fn strings_are_told_from_code() {
    let source = r##"let a = 'x'; let b: &'a str = "--one \" two"; // "no"
        f('"', '\'', r#"a "b""#, b"c"); /* "no" */ let r = "d";"##;
    assert_eq!(strings(source), ["--one \\\" two", "a \"b\"", "c", "d"]);
    let named: Vec<_> =
        options("`--max-length`, --x--y or optimum-cli export onnx --model").collect();
    assert_eq!(named, ["max-length", "x--y", "y"]);
}
