//! A pseudo-terminal that stands for a person.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;

/// A pseudo-terminal of so many columns: our end, and the end that a program gets.
fn terminal(columns: u16) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
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
pub fn at_a_terminal(command: &mut Command, typed: &[u8]) -> (Option<i32>, String) {
    at_a_terminal_of(80, command, typed)
}

/// The same at a terminal of so many columns.
pub fn at_a_terminal_of(
    columns: u16,
    command: &mut Command,
    typed: &[u8],
) -> (Option<i32>, String) {
    run_at(terminal(columns), command, typed)
}

/// The same with standard output at the terminal, too.
#[allow(dead_code)] // Not every test file has results for people.
pub fn all_at_a_terminal_of(columns: u16, command: &mut Command) -> (Option<i32>, String) {
    let (ours, theirs) = terminal(columns);
    command.stdout(theirs.try_clone().unwrap());
    run_at((ours, theirs), command, b"")
}

fn run_at(
    (mut ours, theirs): (File, OwnedFd),
    command: &mut Command,
    typed: &[u8],
) -> (Option<i32>, String) {
    let stdin = Stdio::from(theirs.try_clone().unwrap());
    let mut child = command
        .env("TERM", "xterm")
        .stdin(stdin)
        .stderr(theirs)
        .spawn()
        .unwrap();
    // The command holds their end open until it is given new ones.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
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

/// Lines that were drawn to be taken away again: everything before the last clearing of a line, without
/// what moves the cursor or colours.
#[allow(dead_code)] // Not every test file looks so closely.
pub fn drawn(shown: &str) -> Vec<String> {
    let moves = regex::Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]").unwrap();
    let (drawn, _) = shown.rsplit_once("\u{1b}[2K").unwrap_or_default();
    moves
        .replace_all(drawn, "\n")
        .split(['\r', '\n'])
        .map(|line| line.trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}
