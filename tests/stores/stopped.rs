//! Runs that are stopped in the middle, politely or not.

use std::io::Write;
use std::process::{Child, Stdio};

use crate::runs::World;
use crate::servers::{Server, moto};
use crate::support::wait_for;

pub fn signal(child: &Child, signal: i32) {
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the child has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// A run that is stopped while its input is silent and its upload was begun.
fn stopped(store: &Server, bucket: &str, kind: i32) -> (Option<i32>, String) {
    store.bucket(bucket);
    let world = World::new(store);
    let mut command = world.command(&format!("- -o s3://{bucket}/out.jsonl"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").unwrap();
    wait_for("the upload", || {
        (store.contents(bucket).1 == 1).then_some(())
    });
    signal(&child, kind);
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn an_interrupt_aborts_the_upload() {
    let Some(store) = moto("an_interrupt_aborts_the_upload") else {
        return;
    };
    for (kind, bucket) in [(libc::SIGINT, "interrupted"), (libc::SIGTERM, "terminated")] {
        let (code, said) = stopped(store, bucket, kind);
        assert_eq!(code, Some(130), "{said}");
        assert_eq!(store.contents(bucket), (vec![], 0), "{said}");
    }
}

#[test]
fn of_two_runs_on_one_folder_one_wins() {
    let Some(store) = moto("of_two_runs_on_one_folder_one_wins") else {
        return;
    };
    store.bucket("contested");
    let world = World::new(store);
    let lines: String = (0..60).map(|n| format!("text {n}\n")).collect();
    world.sandbox.write("many.txt", lines);
    let run = || {
        let line = "many.txt -f jsonl --part-rows 6 -o s3://contested/out/";
        let mut command = world.command(line);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let runs = [run(), run()].map(|child| child.wait_with_output().unwrap());
    let mut codes = runs.each_ref().map(|run| run.status.code());
    codes.sort_unstable();
    let said = runs
        .each_ref()
        .map(|run| String::from_utf8_lossy(&run.stderr).into_owned());
    assert_eq!(codes, [Some(0), Some(2)], "{said:?}");
    let words = [
        "another run has written",
        "an unfinished output is there",
        "the output exists",
    ];
    assert!(
        said.iter()
            .any(|said| words.iter().any(|words| said.contains(words))),
        "{said:?}"
    );
    let (names, _) = store.contents("contested");
    let parts = names.iter().filter(|name| name.ends_with(".jsonl"));
    assert_eq!(parts.count(), 10, "{names:?}");
    assert!(names.contains(&"out/_SUCCESS".to_owned()), "{names:?}");
}

#[test]
fn a_kill_leaves_no_object() {
    let Some(store) = moto("a_kill_leaves_no_object") else {
        return;
    };
    let (code, _) = stopped(store, "killed", libc::SIGKILL);
    assert_eq!(code, None);
    assert_eq!(store.contents("killed").0, Vec::<String>::new());
}
