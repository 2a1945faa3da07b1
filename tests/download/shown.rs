//! The display of a download while it lasts.

use insta::assert_snapshot;

use crate::hub::{At, Fault};
use crate::terminal::{at_a_terminal, at_a_terminal_of, drawn};
use crate::world::{ONNX, World, json};

/// A Hub whose largest file takes a moment.
fn slow() -> World {
    let world = World::new();
    world
        .hub
        .spoil_all(At::Content(ONNX.into()), Fault::Trickle(1_000));
    world
}

#[test]
fn bars_are_drawn_and_taken_away() {
    let world = slow();
    let mut command = world.command("download org/small");
    let (code, shown) = at_a_terminal(&mut command, b"");
    assert_eq!(code, Some(0), "{shown}");
    let bars = |name: &str| {
        shown
            .lines()
            .any(|line| line.contains(name) && line.contains(" of "))
    };
    assert!(bars(ONNX) && bars("total"), "{shown}");
    assert!(
        shown.contains("B/s, ") && shown.contains(" left"),
        "{shown}"
    );
    let (_, after) = shown
        .rsplit_once("\u{1b}[2K")
        .expect("the bars should be cleared");
    assert!(after.contains("9 files, 473.0 kB, verified"), "{shown}");
}

#[test]
fn bars_fit_the_terminal() {
    let world = slow();
    let (code, shown) = at_a_terminal_of(40, &mut world.command("download org/small"), b"");
    assert_eq!(code, Some(0), "{shown}");
    // Bars are drawn without line ends between them, each filled up to the terminal's edge.
    let bar = regex::Regex::new("^[=> ]{10} [0-9.]+ k?B of ").unwrap();
    let lines = drawn(&shown);
    assert!(
        lines.iter().any(|line| line.contains("onnx/mod")),
        "{lines:?}"
    );
    for line in &lines {
        let line: Vec<char> = line.chars().collect();
        let bars = line.chunks(40).map(|bars| bars.iter().collect::<String>());
        for bars in bars.filter(|bars| !bars.trim().is_empty()) {
            assert!(bar.is_match(&bars), "{bars:?} of {lines:?}");
        }
    }
}

#[test]
fn bars_of_what_embed_fetches_are_drawn_too() {
    let world = slow();
    let mut command = world.embed_command("--model org/small");
    let (code, shown) = at_a_terminal(&mut command, b"");
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains(ONNX) && shown.contains("embedded 3 rows"),
        "{shown}"
    );
}

#[test]
fn bars_can_be_forbidden() {
    for option in ["-q", "--progress never", "--log-format json"] {
        let world = World::new();
        let mut command = world.command(&format!("download org/small {option}"));
        let (code, shown) = at_a_terminal(&mut command, b"");
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{option}: {shown}");
    }
}

#[test]
fn lines_where_there_is_no_terminal() {
    let world = slow();
    let run = world.done("download org/small --progress always");
    let is_progress = |line: &&str| line.contains(" of ") && line.contains("B/s");
    assert!(run.stderr.lines().any(|line| is_progress(&line)), "{run}");
    assert!(
        run.stderr
            .contains("fetched onnx/model.onnx (445.2 kB) in "),
        "{run}"
    );
}

#[test]
fn quiet_is_quiet() {
    let world = World::new();
    assert_snapshot!(world.done("download org/small -q"));
}

#[test]
fn events_for_programs() {
    let world = World::new();
    let run = world.done("download org/small --log-format json --json");
    assert_eq!(json(&run.stdout).len(), 1);
    let events = json(&run.stderr);
    let fetched: Vec<&str> = events
        .iter()
        .filter(|event| event["event"] == "fetched")
        .map(|event| event["file"].as_str().unwrap())
        .collect();
    assert_eq!(fetched.len(), 9, "{run}");
    let onnx = events.iter().find(|event| event["file"] == ONNX).unwrap();
    assert_eq!(onnx["bytes"], 445_206);
    let run = world.run("download org/none --log-format json");
    let errors = json(&run.stderr);
    assert_eq!(errors[0]["level"], "error", "{run}");
}
