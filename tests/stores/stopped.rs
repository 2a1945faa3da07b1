//! Runs that are stopped in the middle, politely or not.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use embedctl::cancel::CancelToken;
use embedctl::error::{ErrorKind, Result};
use embedctl::storage::Address;

use crate::hub::http::{self, Reply, Step};
use crate::runs::World;
use crate::servers::{Server, every_store, moto, storage_at};
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
    // However long this machine needs for others.
    command.env("EMBEDCTL_LAST_SECONDS", "600");
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

/// Writes an object of two parts into a store whose answer to one request (`interrupted`: the beginning of its query) has
/// this status, and is on its way when the run is interrupted. Returns whether the object was written, and the uploads
/// that were aborted.
fn written_while(interrupted: &'static str, status: u16) -> (Result<()>, Vec<String>) {
    let cancel = CancelToken::with_patience(std::time::Duration::from_secs(600));
    let aborted = Arc::new(Mutex::new(Vec::new()));
    let (stop, seen) = (cancel.clone(), Arc::clone(&aborted));
    let store = http::Server::start(None, move |request| {
        let mut reply = match (request.method.as_str(), request.query.as_str()) {
            ("POST", query) if query.starts_with("uploads") => Reply::new(200).body(
                "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>k</Key><UploadId>one</UploadId>\
                 </InitiateMultipartUploadResult>",
            ),
            ("POST", _) => Reply::new(200).body(
                "<CompleteMultipartUploadResult><Bucket>bucket</Bucket><Key>k</Key><ETag>&quot;e&quot;</ETag>\
                 </CompleteMultipartUploadResult>",
            ),
            ("PUT", _) => Reply::new(200).with("ETag", "\"e\""),
            ("DELETE", query) => {
                seen.lock().unwrap().push(query.to_owned());
                Reply::new(204)
            }
            _ => Reply::new(404),
        };
        if request.method == "POST" && request.query.starts_with(interrupted) {
            reply.status = status;
            let stop = stop.clone();
            let interrupt = Step::Call(Arc::new(move || stop.cancel()));
            reply.steps.push((10, interrupt));
        }
        reply
    });
    let address = Address::parse("s3://bucket/k").unwrap();
    let written = storage_at(&store.host(), &cancel)
        .create(&address, true)
        .and_then(|mut object| {
            let written = object.write_all(&vec![7; (16 << 20) + 1]);
            written.unwrap();
            object.finish()
        });
    let aborted = aborted.lock().unwrap().clone();
    (written, aborted)
}

#[test]
fn an_upload_that_is_being_begun_is_aborted() {
    let (written, aborted) = written_while("uploads", 200);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Interrupted);
    assert_eq!(aborted, ["uploadId=one"]);
}

#[test]
fn an_upload_that_is_being_completed_is_complete_or_aborted() {
    let (written, aborted) = written_while("uploadId", 200);
    written.unwrap();
    assert!(aborted.is_empty(), "{aborted:?}");
    let (written, aborted) = written_while("uploadId", 403);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Interrupted);
    assert_eq!(aborted, ["uploadId=one"]);
}

/// A run into parts that is interrupted with a row in hand, which it publishes.
fn interrupted(world: &World<'_>, scheme: &str) {
    let temporary = world.sandbox.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut command = world.command(&format!("- -f jsonl --window 1 -o {scheme}://inhand/out/"));
    // However long this machine needs for others.
    command.env("EMBEDCTL_LAST_SECONDS", "600");
    let command = command.env("TMPDIR", &temporary).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").unwrap();
    wait_for("a row", || {
        assert!(child.try_wait().unwrap().is_none());
        begun(&temporary).then_some(())
    });
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("parts are safe; resume with the same standard input and: ")
            && said.contains("embedctl embed --resume"),
        "{said}"
    );
    let (names, uploads) = world.store.contents("inhand");
    assert_eq!(uploads, 0);
    let part = "out/part-00001-00000.jsonl".to_owned();
    assert!(names.contains(&part), "{names:?} {said}");
}

#[test]
fn an_interrupt_publishes_the_part_in_hand() {
    for (store, scheme) in every_store("an_interrupt_publishes_the_part_in_hand") {
        store.bucket("inhand");
        let world = World::new(store);
        interrupted(&world, scheme);
        // And the next run resumes after it.
        let line = format!("- -f jsonl --window 1 -o {scheme}://inhand/out/ --resume");
        let mut command = world.command(&line);
        let done = (world.sandbox).run_with_input(&mut command, b"one\ntwo\nthree\n");
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stderr.contains("resumed after"), "{}", done.stderr);
    }
}

/// Whether a part with a row lies in that folder.
fn begun(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_part = name.contains("part-00001") && path.is_file();
        begun(&path) || (is_part && fs::metadata(&path).is_ok_and(|it| it.len() > 0))
    })
}

#[test]
fn of_two_runs_on_one_folder_one_wins() {
    for (store, scheme) in every_store("of_two_runs_on_one_folder_one_wins") {
        one_wins(store, scheme);
    }
}

fn one_wins(store: &Server, scheme: &str) {
    store.bucket("contested");
    let world = World::new(store);
    let lines: String = (0..60).map(|n| format!("text {n}\n")).collect();
    world.sandbox.write("many.txt", lines);
    let run = || {
        let line = format!("many.txt -f jsonl --part-rows 6 -o {scheme}://contested/out/");
        let mut command = world.command(&line);
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
