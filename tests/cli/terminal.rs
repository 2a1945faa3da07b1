//! What a person at a terminal sees: a pseudo-terminal stands for the person.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;

use crate::sandbox::Sandbox;

/// A pseudo-terminal: our end, and the end that a program gets.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: both descriptors are written before they are read; a null name and null attributes are
    // allowed; `size` lives as long as the call.
    unsafe {
        let opened = libc::openpty(
            &raw mut ours,
            &raw mut theirs,
            std::ptr::null_mut(),
            std::ptr::null_mut(), // coerces to the constant pointer that some systems want
            (&raw const size).cast_mut(),
        );
        assert_eq!(opened, 0);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

/// Runs a command at a terminal, types into it, and returns what the terminal showed.
fn at_a_terminal(command: &mut Command, typed: &[u8]) -> (Option<i32>, String) {
    let (mut ours, theirs) = terminal();
    let stdin = Stdio::from(theirs.try_clone().unwrap());
    let mut child = command
        .env("TERM", "xterm")
        .stdin(stdin)
        .stderr(theirs)
        .spawn()
        .unwrap();
    // The command holds their end open until it is given new ones.
    command.stdin(Stdio::null()).stderr(Stdio::null());
    ours.write_all(typed).unwrap();
    let mut screen = ours.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut shown = Vec::new();
        // The read fails when the last holder of the other end is gone.
        let _ = screen.read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let code = child.wait().unwrap().code();
    (code, reader.join().unwrap())
}

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
