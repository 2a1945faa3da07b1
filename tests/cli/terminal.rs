//! What a person at a terminal sees.

use crate::sandbox::Sandbox;
use crate::support_terminal::at_a_terminal;

#[test]
fn progress_is_drawn_and_taken_away() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a text\n".repeat(2000));
    let mut command = sandbox.embed_command("texts.txt -o out.npy --window 100");
    let (code, shown) = at_a_terminal(&mut command, b"");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("opening the model"), "{shown}");
    let (_, after) = shown
        .rsplit_once("\u{1b}[2K")
        .expect("the bar should be cleared");
    assert!(after.contains("embedded 2,000 rows"), "{shown}");
}

#[test]
fn progress_can_be_forbidden() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a text\n");
    for option in ["--progress never", "--quiet", "--log-format json"] {
        let mut command = sandbox.embed_command("texts.txt -o out.npy --force");
        command.args(option.split(' '));
        let (code, shown) = at_a_terminal(&mut command, b"");
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains("opening the model"), "{option}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{option}: {shown}");
    }
}

#[test]
fn errors_are_coloured_unless_no_color_is_set() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("missing.txt -o out.npy --progress never");
    let (_, shown) = at_a_terminal(&mut command, b"");
    assert!(shown.contains("\u{1b}[31merror:"), "{shown}");
    let (_, shown) = at_a_terminal(command.env("NO_COLOR", "1"), b"");
    assert!(shown.starts_with("error:"), "{shown}");
}

#[test]
fn records_can_be_typed() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("-o out.npy --progress never");
    let (code, shown) = at_a_terminal(&mut command, b"one\ntwo\n\x04");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("until Ctrl-D"), "{shown}");
    assert!(shown.contains("embedded 2 rows"), "{shown}");
}
