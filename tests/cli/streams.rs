//! Runs that answer while their input is still open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A run whose standard input is held open.
struct Open {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Open {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
        }
    }

    fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
    }

    fn answer(&self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE).expect("an answer");
        serde_json::from_str(&line).unwrap()
    }

    /// Closes standard input; the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

#[test]
fn lines_are_answered_as_they_come() {
    let sandbox = Sandbox::new();
    let mut run = Open::start(&mut sandbox.embed_command("-o -"));
    for number in 1..=3 {
        run.say("a line\nhalf ");
        assert_eq!(run.answer()["id"], (2 * number - 1).to_string());
        run.say("a line\n");
        assert_eq!(run.answer()["id"], (2 * number).to_string());
    }
    assert_eq!(run.end(), Some(0));
}

#[test]
fn rejected_lines_hold_nobody_up() {
    let sandbox = Sandbox::new();
    let arguments = "-i jsonl --on-error skip -o -";
    let mut run = Open::start(&mut sandbox.embed_command(arguments));
    run.say("{\"id\": \"a\", \"text\": \"one\"}\n{\n");
    assert_eq!(run.answer()["id"], "a");
    run.say("}\n");
    run.say("{\"id\": \"b\", \"text\": \"two\"}\n");
    assert_eq!(run.answer()["id"], "b");
    assert_eq!(run.end(), Some(3));
}

#[test]
fn records_of_a_file_do_not_wait_for_a_pipe_behind_it() {
    let sandbox = Sandbox::new();
    sandbox.write("first.txt", "one\n");
    let mut run = Open::start(&mut sandbox.embed_command("first.txt - -i text -o -"));
    assert_eq!(run.answer()["id"], "1");
    run.say("two\n");
    assert_eq!(run.answer()["embedding"].as_array().unwrap().len(), 48);
    assert_eq!(run.end(), Some(0));
}

#[test]
fn whole_records_of_csv_do_not_wait_for_the_end_of_one_that_goes_on() {
    let sandbox = Sandbox::new();
    let arguments = "-i csv --csv-delimiter ; --on-error skip -o -";
    let mut run = Open::start(&mut sandbox.embed_command(arguments));
    run.say("id;text\n1;one\n2;\"two\n");
    assert_eq!(run.answer()["id"], "1");
    run.say("lines\"\n3;three\n4;\"never closed\n");
    assert_eq!(run.answer()["id"], "2");
    assert_eq!(run.answer()["id"], "3");
    run.say("5;five\n6;\"six\"\n");
    // It is only at a second quote that the fourth record's is known to be wrong.
    assert_eq!(run.answer()["id"], "5");
    assert_eq!(run.answer()["id"], "6");
    assert_eq!(run.end(), Some(3));
}
