//! README.md as somebody follows it: every block, in order, in an empty folder. Blocks behind a comment
//! `<!-- parsed: why -->` are not run: shells and Python read them, and every `embedctl` in them must understand its
//! options.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::hub::{Files, Hub};
use crate::sandbox::{REAL_MODEL, Sandbox, in_repository};
use crate::support;

/// The reference that README.md links to.
const DOCS: &[&str] = &[
    "docs/bench.md",
    "docs/chunking.md",
    "docs/clusters.md",
    "docs/compare.md",
    "docs/configuration.md",
    "docs/devices.md",
    "docs/guarantees.md",
    "docs/hub.md",
    "docs/input.md",
    "docs/inspect.md",
    "docs/jobs.md",
    "docs/library.md",
    "docs/models.md",
    "docs/multi.md",
    "docs/numbers.md",
    "docs/object-stores.md",
    "docs/output.md",
    "docs/operator.md",
    "docs/providers.md",
    "docs/python.md",
    "docs/score.md",
    "docs/search.md",
    "docs/serve.md",
    "docs/sparse.md",
    "docs/speed.md",
];

/// The documents whose blocks are run, as README.md's are, where its two small inputs are; of the others the commands
/// are parsed.
const RUN: &[&str] = &[
    "docs/chunking.md",
    "docs/compare.md",
    "docs/configuration.md",
    "docs/input.md",
    "docs/inspect.md",
    "docs/numbers.md",
    "docs/operator.md",
    "docs/output.md",
    "docs/search.md",
];

/// The packages that `python` blocks import.
const MODULES: [&str; 5] = ["duckdb", "numpy", "pandas", "polars", "pyarrow"];

/// Cargo in a clone, whose program is built already.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "run --bin embedctl --no-default-features --features cli -- "*) shift 7; exec embedctl "$@" ;;
    "run -- "*) shift 2; exec embedctl "$@" ;;
    "test" | "install --path ." | "install embedctl") ;;
    *) echo "cargo $*: the README's test knows no such command" >&2; exit 1 ;;
esac
"#;

/// The vectors that README.md compares a model's with.
const REFERENCE: &str = "reference.npy";

/// Where blocks are run: a machine need not have jq.
const RUNNING: &str = "command -v jq > /dev/null || jq() { cat > /dev/null; }";

/// Puts functions in the place of programs: `embedctl` understands its options, the others do nothing.
const PARSED: &str = r#"
embedctl() { command embedctl "$@" --help > /dev/null; }
for name in pip psql python3 npm apt docker source jq; do eval "$name() { :; }"; done
SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=1 SLURM_CPUS_PER_TASK=1 JOB_COMPLETION_INDEX=0
"#;

struct Block {
    language: String,
    text: String,
    /// Whether it is to be parsed and not run.
    parsed: bool,
}

impl Block {
    /// To be parsed, whatever was said before it.
    fn into_parsed(self) -> Self {
        Self {
            parsed: true,
            ..self
        }
    }

    /// The shell's part of a manifest: what a `- |` holds.
    fn script(self) -> Self {
        let mut lines = self.text.lines().skip_while(|line| line.trim() != "- |");
        let first = lines.next().expect("a manifest runs a script");
        let indent = |line: &str| line.len() - line.trim_start().len();
        let lines = lines.take_while(|line| indent(line) > indent(first));
        let text = lines.collect::<Vec<_>>().join("\n");
        assert!(text.contains("embedctl embed"), "{text}");
        Self { text, ..self }.into_parsed()
    }
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    let mut before = "";
    for line in document.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(language) => {
                open = true;
                blocks.push(Block {
                    language: language.to_owned(),
                    text: String::new(),
                    parsed: before.starts_with("<!-- parsed: "),
                });
            }
            None if open => {
                let text = &mut blocks.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
        if !line.is_empty() {
            before = line;
        }
    }
    assert!(!open, "a block does not end");
    blocks
}

fn read(name: &str) -> String {
    fs::read_to_string(in_repository(name)).unwrap()
}

/// An empty folder but for what a clone has, a Hub, and programs.
struct Reader {
    hub: Hub,
    sandbox: Sandbox,
}

impl Reader {
    fn new() -> Self {
        let hub = Hub::start();
        for id in [
            "sentence-transformers/all-MiniLM-L6-v2",
            "BAAI/bge-small-en-v1.5",
        ] {
            hub.publish(id, Files::of(&in_repository(REAL_MODEL)));
        }
        let sandbox = Sandbox::new();
        symlink(in_repository("fixtures"), sandbox.path("fixtures")).unwrap();
        // What its Python makes with sentence-transformers.
        let reference = in_repository(REAL_MODEL).join("reference");
        fs::copy(reference.join("expected.npy"), sandbox.path(REFERENCE)).unwrap();
        fs::copy(
            reference.join("texts.jsonl"),
            sandbox.path("reference.jsonl"),
        )
        .unwrap();
        let programs = sandbox.path(".programs");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_embedctl"), programs.join("embedctl")).unwrap();
        fs::write(programs.join("cargo"), CARGO).unwrap();
        fs::set_permissions(programs.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        Self { hub, sandbox }
    }

    /// Runs a program of which nothing of the caller's environment is known but where programs are.
    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.sandbox.path(".programs").display());
        Command::new(program)
            .args(arguments)
            .current_dir(self.sandbox.path(""))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.sandbox.path(""))
            .env("HF_ENDPOINT", self.hub.url())
            .output()
            .unwrap()
    }

    /// The output of a block, whether it succeeds or not.
    fn said(&self, block: &Block) -> Output {
        let prelude = if block.parsed { PARSED } else { RUNNING };
        let script = format!("set -euo pipefail\n{prelude}\n{}", block.text);
        self.run(Path::new("/bin/bash"), &["-c", &script])
    }

    /// A check of equality fails where each text has another one's vector.
    fn refuses_another_reference(&self, block: &Block) {
        let file = self.sandbox.path(REFERENCE);
        let right = fs::read(&file).unwrap();
        let mut wrong = right.clone();
        let start = 10 + usize::from(u16::from_le_bytes([right[8], right[9]]));
        wrong[start..].rotate_left(384 * size_of::<f32>());
        fs::write(&file, wrong).unwrap();
        let output = self.said(block);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("the least cosine"),
            "{}\n{said}",
            block.text
        );
        fs::write(&file, right).unwrap();
    }

    fn shell(&self, block: &Block) -> Output {
        let output = self.said(block);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{said}", block.text);
        output
    }

    fn python(&self, python: &Path, block: &Block) {
        let script = if block.parsed {
            format!("import ast; ast.parse({:?})", block.text)
        } else {
            // Whatever the reader, three vectors come out as they went in.
            let check =
                "assert matrix.shape == (3, 384) and abs((matrix[0] ** 2).sum() - 1) < 1e-5";
            let lines = block
                .text
                .lines()
                .map(|line| match line.starts_with("matrix = ") {
                    true => format!("{line}\n{check}\n"),
                    false => format!("{line}\n"),
                });
            let end = block
                .text
                .contains("table = duckdb")
                .then_some("assert len(table) == 3\n");
            lines.chain(end.map(str::to_owned)).collect()
        };
        let output = self.run(python, &["-c", &script]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{said}");
    }
}

#[test]
fn every_block_of_the_readme_works_in_order() {
    let reader = Reader::new();
    let python = support::python("the README's Python", &MODULES);
    let mut said = None;
    // Machines differ in their cores and in what the engine found in them.
    let here = regex::Regex::new(r"\(\w+\), fp32|\d+ threads?").unwrap();
    for block in blocks(&read("README.md")) {
        match (block.language.as_str(), &python) {
            ("sh", _) => {
                said = Some(reader.shell(&block));
                if block.text.contains(REFERENCE) {
                    reader.refuses_another_reference(&block);
                }
            }
            ("python", Some(python)) => reader.python(python, &block),
            ("text", _) => {
                let said = said
                    .take()
                    .expect("a command stands before what it says")
                    .stderr;
                let filter = |text: &str| here.replace_all(text, "[HERE]").into_owned();
                let said = filter(&String::from_utf8_lossy(&said));
                let shown = filter(&block.text);
                assert!(
                    said.ends_with(&shown),
                    "README.md shows\n{shown}\nfor\n{said}"
                );
            }
            ("yaml", _) => drop(reader.shell(&block.script())),
            // Rust is a documentation test of the library.
            ("python" | "rust", _) => {}
            (other, _) => panic!("nobody tests blocks of '{other}'"),
        }
    }
    let files: BTreeSet<String> = reader.sandbox.files().into_iter().collect();
    for made in [
        "quotes.parquet",
        "texts.parquet",
        "texts.npy",
        "dump.parquet",
        "rejects.jsonl",
    ] {
        assert!(files.contains(made), "{made} of {files:?}");
    }
}

/// Fixtures in the place of the models that recipes name for other kinds than dense vectors: folders, and repositories of
/// the Hub.
const OTHER_MODELS: [(&str, &str); 5] = [
    (
        "./my-sparse-model",
        "fixtures/sparse/prompt-of-a-document/model",
    ),
    ("./my-colbert", "fixtures/multi/bert-document/model"),
    ("./my-classifier", "fixtures/scores/bert-three-labels/model"),
    ("BAAI/bge-m3", "fixtures/heads/xlm-roberta/model"),
    (
        "cross-encoder/ms-marco-MiniLM-L6-v2",
        "fixtures/scores/bert/model",
    ),
];

/// What each output of those recipes holds: its vectors or scores, and the columns that have them.
const OTHER_OUTPUTS: [(&str, &[&str]); 8] = [
    ("scores.parquet", &["score"]),
    ("labels.parquet", &["scores"]),
    ("dense.parquet", &["embedding"]),
    ("sparse.parquet", &["embedding"]),
    (
        "all.parquet",
        &["embedding", "embedding_multi", "embedding_sparse"],
    ),
    ("sparse.npz", &[""]),
    ("documents.parquet", &["embedding"]),
    ("queries.parquet", &["embedding"]),
];

/// The recipes of rerankers, classifiers, sparse vectors and late interaction, which are parsed above, with small models.
#[test]
fn recipes_of_every_kind_work_with_small_models() {
    let reader = Reader::new();
    for (name, fixture) in OTHER_MODELS {
        match name.strip_prefix("./") {
            Some(folder) => symlink(in_repository(fixture), reader.sandbox.path(folder)).unwrap(),
            None => drop(reader.hub.publish(name, Files::of(&in_repository(fixture)))),
        }
    }
    let texts = "A cat sits on a mat.\nInterest rates rose.\nwho is it?\n";
    reader.sandbox.write("texts.txt", texts);
    reader.sandbox.write("queries.txt", "who is on the mat?\n");
    let mut ran = String::new();
    for (document, title) in [
        ("docs/score.md", "Reranking and labelling"),
        ("docs/sparse.md", "Hybrid search"),
        (
            "docs/multi.md",
            "A vector for each token (late interaction)",
        ),
    ] {
        let text = read(document);
        let (_, recipe) = text.split_once(&format!("# {title}\n")).expect(title);
        let end = recipe.find("\n##").expect("another title follows");
        for block in blocks(&recipe[..end]) {
            assert_eq!(block.language, "sh", "{title}");
            ran.push_str(&block.text);
            reader.shell(&Block {
                parsed: false,
                ..block
            });
        }
    }
    for (name, _) in OTHER_MODELS {
        assert!(ran.contains(name), "no recipe names {name}");
    }
    for (name, columns) in OTHER_OUTPUTS {
        let run = reader.sandbox.run(&format!("inspect --json {name}"));
        assert_eq!(run.code, Some(0), "{run}");
        let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        let found = found["files"][0]["columns"].as_array().unwrap().iter();
        let mut names: Vec<&str> = found.map(|it| it["column"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, columns, "{name}");
    }
    // Maps from tokens to weights are for other programs.
    let maps = fs::read_to_string(reader.sandbox.path("queries.jsonl")).unwrap();
    let map: serde_json::Value = serde_json::from_str(&maps).unwrap();
    assert!(
        map["embedding"]
            .as_object()
            .is_some_and(|it| it.values().all(serde_json::Value::is_f64)),
        "{map}"
    );
    assert!(
        fs::metadata(reader.sandbox.path("sparse.pgcopy"))
            .unwrap()
            .len()
            > 21
    );
    let test = "recipes_of_every_kind_work_with_small_models";
    if let Some(python) = support::python(test, &["duckdb"]) {
        let scores = read("docs/score.md");
        let (_, query) = scores
            .split_once("the ten best passages of each query are `")
            .unwrap();
        let (query, _) = query.split_once('`').unwrap();
        let script = format!(
            "import duckdb\nfound = duckdb.sql({query:?})\nrows = [dict(zip(found.columns, row)) for row in found.fetchall()]\n\
             assert sorted((row['qid'], row['pid']) for row in rows) == [(1, 7), (1, 8)], rows"
        );
        let output = reader.run(&python, &["-c", &script]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{said}");
    }
}

/// The first minute ends with a search and the tests' command, and CI runs that one to the letter.
#[test]
fn the_first_minute_ends_with_the_tests() {
    let readme = read("README.md");
    let mut commands = blocks(&readme)
        .into_iter()
        .filter(|block| block.language == "sh");
    let first = commands.next().unwrap().text;
    // Cargo's target folder may lie anywhere.
    assert!(
        first
            .starts_with("cargo run --bin embedctl --no-default-features --features cli -- embed ")
            && !first.contains("target"),
        "{first}"
    );
    let second = commands.next().unwrap().text;
    assert!(
        second.starts_with(
            "cargo run --bin embedctl --no-default-features --features cli -- search quotes.parquet "
        ),
        "{second}"
    );
    let third = commands.next().unwrap().text;
    assert_eq!(third, "cargo test\n");
    assert!(read(".ci/run").contains(&format!("step \"test\" {third}")));
}

#[test]
fn every_block_of_the_reference_works_in_order() {
    let test = "every_block_of_the_reference_works_in_order";
    let Some(python) = support::python(test, &MODULES) else {
        return;
    };
    let readme = blocks(&read("README.md"));
    let makes = |block: &&Block| block.text.contains("> texts.txt");
    let inputs = readme.iter().find(makes).expect("README.md makes inputs");
    let figures = regex::Regex::new(r" *\d+\.\d+").unwrap();
    let mask = |text: &str| figures.replace_all(text, " N").into_owned();
    for &name in RUN {
        let reader = Reader::new();
        let mut said = reader.shell(inputs).stdout;
        for block in blocks(&read(name)) {
            match block.language.as_str() {
                "sh" => said = reader.shell(&block).stdout,
                // Processors differ in the last digits of vectors, and so in shares.
                "text" if name == "docs/compare.md" => {
                    let (said, shown) = (String::from_utf8_lossy(&said), &block.text);
                    assert_eq!(mask(&said).trim(), mask(shown).trim(), "{name}: {said}");
                }
                "python" => reader.python(&python, &block),
                _ => {}
            }
        }
    }
}

#[test]
fn commands_of_the_documentation_are_understood() {
    let reader = Reader::new();
    for &name in DOCS.iter().filter(|name| !RUN.contains(name)) {
        for block in blocks(&read(name)) {
            match block.language.as_str() {
                "sh" => drop(reader.shell(&block.into_parsed())),
                "yaml" => drop(reader.shell(&block.script())),
                _ => {}
            }
        }
    }
}

/// Links lead to files and headings that are there.
#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let anchor_of = |title: &str| {
        let title = title.trim_start_matches('#').trim_start();
        title
            .to_lowercase()
            .replace(' ', "-")
            .replace([',', '\''], "")
    };
    for &name in ["README.md"].iter().chain(DOCS) {
        let text = read(name);
        for (_, [target]) in link.captures_iter(&text).map(|found| found.extract()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(name).parent().unwrap();
            let file = match file {
                "" => in_repository(name),
                file => in_repository(folder.join(file).to_str().unwrap()),
            };
            assert!(file.exists(), "{name}: {target}");
            if !anchor.is_empty() {
                let text = fs::read_to_string(file).unwrap();
                let mut titles = text.lines().filter(|line| line.starts_with("##"));
                let is_there = titles.any(|title| anchor_of(title) == anchor);
                assert!(is_there, "{name}: {target}");
            }
        }
    }
}
