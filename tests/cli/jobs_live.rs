//! Two runs of `embedctl embed` that are at work at the same time.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::jobs::code;
use crate::sandbox::Sandbox;

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
        let folder = if line.contains("out/") {
            "out"
        } else {
            "out.jsonl.parts"
        };
        let job = sandbox.path(folder).join("_embedctl/job.json");
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
        let whole = match folder {
            "out" => fs::read_to_string(sandbox.path("out/part-00001-00000.jsonl")),
            _ => fs::read_to_string(sandbox.path("out.jsonl")),
        };
        assert_eq!(whole.unwrap().lines().count(), 2);
    }
}
