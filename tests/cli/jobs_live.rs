//! Runs of `embedctl embed` that are at work at the same time, or whose input pauses.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::jobs::code;
use crate::sandbox::Sandbox;
use crate::support;

/// Of two runs that are at work on one output at the same time, the second says so and changes nothing.
#[test]
fn of_two_runs_on_one_output_one_goes_on() {
    let sandbox = Sandbox::new();
    for line in [
        "-o out/ -f jsonl --window 1",
        "-o out.jsonl --window 1 --resume",
    ] {
        let mut first = sandbox
            .embed_command(line)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = first.stdin.take().unwrap();
        stdin.write_all(b"one\n").unwrap();
        let is_folder = line.contains("out/");
        let job = match is_folder {
            true => sandbox.path("_out.embedctl/job.json"),
            false => sandbox.path("out.jsonl.parts/_embedctl/job.json"),
        };
        while !job.exists() {
            assert!(first.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        for more in ["--resume", "--force"] {
            let line = line.replace(" --resume", "");
            let second = sandbox.embed_command(&format!("{line} {more}"));
            let second = sandbox.run_with_input(&mut { second }, b"two\n");
            let said = &code(&second, 2).stderr;
            assert!(said.contains("another run is writing it"), "{second}");
        }
        stdin.write_all(b"two\n").unwrap();
        drop(stdin);
        assert!(first.wait().unwrap().success());
        let whole = match is_folder {
            true => fs::read_to_string(sandbox.path("out/part-00001-00000.jsonl")),
            false => fs::read_to_string(sandbox.path("out.jsonl")),
        };
        assert_eq!(whole.unwrap().lines().count(), 2);
    }
}

/// The output for a pipe's records does not depend on the moments at which they come: neither the parts of a job, which
/// the next run compares, nor the types of a file's columns.
#[test]
fn a_pause_of_the_input_decides_nothing() {
    let sandbox = Sandbox::new();
    let lines = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4.5"), ("e", "5")];
    let lines = lines.map(|(text, k)| format!("{{\"text\": \"{text}\", \"k\": {k}}}\n"));
    let more = "-i jsonl --keep k --stats stats.json -o";
    for output in ["out.jsonl", "out/ -f jsonl --part-rows 4"] {
        let _ = fs::remove_file(sandbox.path("stats.json"));
        let mut command = sandbox.embed_command(&format!("{more} {output}"));
        let mut run = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = run.stdin.take().unwrap();
        stdin.write_all(lines[..3].concat().as_bytes()).unwrap();
        support::wait_for("the engine", || {
            let stats = fs::read_to_string(sandbox.path("stats.json")).ok()?;
            stats.contains("\"running\"").then_some(())
        });
        stdin.write_all(lines[3..].concat().as_bytes()).unwrap();
        drop(stdin);
        let output = run.wait_with_output().unwrap();
        code(&sandbox.outcome(&output), 0);
    }
    let whole = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    assert!(whole.starts_with("{\"id\":null,\"k\":1.0,"), "{whole}");
    let part = |number: u32| sandbox.path(&format!("out/part-00001-{number:05}.jsonl"));
    let rows = [0, 1].map(|number| fs::read_to_string(part(number)).unwrap().lines().count());
    assert_eq!(rows, [4, 1]);
    // The same bytes from a file are the same input.
    fs::remove_file(part(1)).unwrap();
    let mut again = sandbox.embed_command(&format!("{more} out/ -f jsonl --part-rows 4 --resume"));
    code(
        &sandbox.run_with_input(&mut again, lines.concat().as_bytes()),
        0,
    );
    assert!(part(1).exists());
}
