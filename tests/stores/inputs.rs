//! `embed` from object stores.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::hub::http::{Reply, Server as Faulty, Step};
use crate::runs::World;
use crate::sandbox::{Run, Sandbox};
use crate::servers::moto;
use crate::support::python;

const ROWS: usize = 3000;

/// JSONL with as many rows, each text of its own.
fn rows() -> String {
    (0..ROWS)
        .map(|row| format!("{{\"id\": \"r{row}\", \"text\": \"row number {row}\"}}\n"))
        .collect()
}

fn ids(sandbox: &Sandbox, output: &str) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.path(output)).unwrap();
    let id = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["id"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn jsonl_text_and_patterns_come_from_s3() {
    let Some(store) = moto("jsonl_text_and_patterns_come_from_s3") else {
        return;
    };
    let world = World::new(store);
    store.bucket("inputs");
    store.boto(
        "import gzip\n\
         for name in 'ab':\n\
         \x20   row = f'{{\"id\": \"{name}\", \"text\": \"text {name}\"}}\\n'.encode()\n\
         \x20   s3.put_object(Bucket='inputs', Key=f'x/{name}.jsonl', Body=row)\n\
         \x20   s3.put_object(Bucket='inputs', Key=f'x/{name}.jsonl.gz', Body=gzip.compress(row))\n\
         s3.put_object(Bucket='inputs', Key='x/notes.md', Body=b'no input')\n\
         s3.put_object(Bucket='inputs', Key='x/_own/d.txt', Body=b'no data\\n')\n\
         s3.put_object(Bucket='inputs', Key='x/c.txt', Body=b'plain\\n')\n",
    );
    for (input, expected) in [
        ("s3://inputs/x/b.jsonl", vec!["b"]),
        ("s3://inputs/x/*.jsonl", vec!["a", "b"]),
        ("s3://inputs/x/*.jsonl.gz", vec!["a", "b"]),
        (
            "s3://inputs/x/b.jsonl s3://inputs/x/a.jsonl.gz",
            vec!["b", "a"],
        ),
        // Notes are in no known format.
        ("s3://inputs/x/", vec!["a", "a", "b", "b", "1"]),
    ] {
        world.done(&format!("{input} -o out.jsonl --force"));
        assert_eq!(ids(&world.sandbox, "out.jsonl"), expected, "{input}");
    }
    let said = world.run("s3://inputs/x/d.jsonl -o out.jsonl --force");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(
        said.stderr
            .contains("there is no object s3://inputs/x/d.jsonl"),
        "{}",
        said.stderr
    );
    let said = world.run("s3://inputs/x/b.jsonl -o s3://inputs/x/b.jsonl --force");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("is the same"), "{}", said.stderr);
    let said = world.run("s3://nobody/x.jsonl -o out.jsonl --force");
    assert!(
        said.stderr.contains("there is no bucket nobody"),
        "{}",
        said.stderr
    );
}

#[test]
fn parquet_goes_from_s3_to_s3() {
    let test = "parquet_goes_from_s3_to_s3";
    let Some(store) = moto(test) else { return };
    let Some(python) = python(test, &["pyarrow"]) else {
        return;
    };
    let world = World::new(store);
    store.bucket("tables");
    let script = "
import sys, pyarrow as pa, pyarrow.parquet as pq
n = 3000
table = pa.table({'id': [f'r{i}' for i in range(n)], 'text': [f'row number {i}' for i in range(n)],
                  'padding': [f'{i * 7919 % 1000003}' * 50 for i in range(n)]})
pq.write_table(table, sys.argv[1], row_group_size=500, compression='none')
";
    let file = world.sandbox.path("in.parquet");
    let made = Command::new(&python)
        .args(["-c", script])
        .arg(&file)
        .status();
    assert!(made.unwrap().success());
    store.boto(&format!(
        "s3.upload_file(r'{}', 'tables', 'in.parquet')",
        file.display()
    ));
    let run = world.done("s3://tables/in.parquet -o s3://tables/out.parquet");
    assert!(
        run.stderr.contains("3,000 records read = 3,000 embedded"),
        "{}",
        run.stderr
    );
    world.done("in.parquet -o local.parquet");
    let fetched = world.fetch("tables", "out.parquet");
    let script = "
import sys, pyarrow.parquet as pq
one, two = (pq.read_table(path) for path in sys.argv[1:])
assert one.num_rows == 3000 and one.equals(two)
";
    let same = Command::new(&python)
        .args(["-c", script])
        .arg(fetched)
        .arg(world.sandbox.path("local.parquet"))
        .status();
    assert!(same.unwrap().success());
}

/// A web server with the rows; `spoil` may change what is answered to the `count`th request for content.
fn web(spoil: impl Fn(usize, Reply) -> Reply + Send + Sync + 'static) -> Faulty {
    let count = AtomicUsize::new(0);
    Faulty::start(None, move |request| {
        let reply = Reply::ranged(request, rows().as_bytes());
        let reply = reply.with("ETag", "\"1\"");
        if request.method == "HEAD" {
            return reply;
        }
        spoil(count.fetch_add(1, Ordering::SeqCst), reply)
    })
}

fn from_web(server: &Faulty) -> (Sandbox, Run) {
    let sandbox = Sandbox::new();
    let url = format!("http://{}/rows.jsonl?signature=5ecret", server.host());
    let run = sandbox.embed(&format!("{url} -o out.jsonl"));
    assert!(!run.stderr.contains("5ecret"), "{}", run.stderr);
    (sandbox, run)
}

#[test]
fn a_web_server_that_cuts_connections_is_read_to_the_end() {
    let server = web(|count, mut reply| {
        if count < 2 {
            reply.steps.push((40_000, Step::Cut));
        }
        reply
    });
    let (sandbox, run) = from_web(&server);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let expected: Vec<String> = (0..ROWS).map(|row| format!("r{row}")).collect();
    assert_eq!(ids(&sandbox, "out.jsonl"), expected);
}

#[test]
fn an_input_that_changes_or_vanishes_ends_the_run_with_nothing_written() {
    let changed = web(|count, mut reply| {
        if count == 0 {
            reply.steps.push((40_000, Step::Cut));
        } else {
            reply.headers.retain(|(name, _)| name != "ETag");
            reply = reply.with("ETag", "\"2\"");
        }
        reply
    });
    let gone = web(|_, _| Reply::new(404));
    for (server, part) in [
        (changed, "replaced by another object while it was read"),
        (gone, "there is no such object (any more)"),
    ] {
        let (sandbox, run) = from_web(&server);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains(part), "{}", run.stderr);
        assert!(run.stderr.contains("/rows.jsonl"), "{}", run.stderr);
        assert_eq!(sandbox.files(), Vec::<String>::new());
    }
}

#[test]
fn an_interrupt_ends_a_run_whose_store_is_silent() {
    let stalled = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&stalled);
    let server = web(move |_, mut reply| {
        let seen = Arc::clone(&seen);
        let call = move || {
            seen.fetch_add(1, Ordering::SeqCst);
        };
        reply.steps.push((40_000, Step::Call(Arc::new(call))));
        reply.steps.push((40_000, Step::Stall));
        reply
    });
    let sandbox = Sandbox::new();
    let url = format!("http://{}/rows.jsonl", server.host());
    let child = sandbox
        .embed_command(&format!("{url} -o out.jsonl"))
        .spawn()
        .unwrap();
    crate::support::wait_for("the input", || {
        (stalled.load(Ordering::SeqCst) > 0).then_some(())
    });
    let began = std::time::Instant::now();
    crate::stopped::signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(began.elapsed() < std::time::Duration::from_secs(4));
    assert_eq!(sandbox.files(), Vec::<String>::new());
}

/// Servers without ranges, without lengths, and without both: of each file the records are the same, it is fetched into a
/// temporary file at most once, and the run tells so.
#[test]
fn a_server_without_ranges_or_lengths_gives_whole_files() {
    let local = Sandbox::new();
    local.write("rows.jsonl", rows());
    let made =
        local.embed("rows.jsonl --limit 300 --keep text --embedding-field v -o rows.parquet");
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let parquet = std::fs::read(local.path("rows.parquet")).unwrap();
    let size = embedctl::size::words(parquet.len() as u64);
    // Longer than all that waits between a server and its reader.
    let pad = format!(", \"pad\": \"{}\"}}\n", "x".repeat(500));
    let lines = rows().replace("}\n", &pad);
    for (has_length, has_version) in [(true, true), (true, false), (false, true), (false, false)] {
        let count = Arc::new(AtomicUsize::new(0));
        let (seen, content, lines) = (Arc::clone(&count), parquet.clone(), lines.clone());
        let server = Faulty::start(None, move |request| {
            let body = match request.path.ends_with(".parquet") {
                true => content.clone(),
                false => lines.clone().into_bytes(),
            };
            if request.method != "HEAD" && request.header("Range").is_none() {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            let mut reply = Reply::new(200).body(body);
            reply.unmeasured = !has_length;
            match has_version {
                true => reply.with("ETag", "\"1\""),
                false => reply,
            }
        });
        for (name, number) in [("rows.parquet", 300), ("rows.jsonl", ROWS)] {
            let sandbox = Sandbox::new();
            let url = format!("http://{}/{name}", server.host());
            let run = sandbox.embed(&format!("{url} -o out.jsonl"));
            let case = format!("{name} {has_length} {has_version}: {}", run.stderr);
            assert_eq!(run.code, Some(0), "{case}");
            let expected: Vec<String> = (0..number).map(|row| format!("r{row}")).collect();
            assert_eq!(ids(&sandbox, "out.jsonl"), expected, "{case}");
            assert_eq!(count.swap(0, Ordering::SeqCst), 1, "{case}");
            let reason = match (has_length, has_version) {
                (false, _) => "does not say how long the file is",
                (true, true) => "gives no parts of a file",
                (true, false) => "gives neither an ETag nor a settled Last-Modified",
            };
            if name == "rows.parquet" {
                let told = format!("its server {reason}, so all of it ({size}) was fetched");
                assert!(run.stderr.contains(&told), "{case}");
            }
            assert_eq!(
                run.stderr.contains("was fetched"),
                name == "rows.parquet" || !has_length
            );
        }
    }
}

#[test]
fn a_connection_that_is_always_cut_is_to_be_tried_later() {
    let server = Faulty::start(None, |_| Reply {
        instead: Some(Step::Cut),
        ..Reply::default()
    });
    let (_, run) = from_web(&server);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("was cut"), "{}", run.stderr);
    assert!(run.stderr.contains("; try again later"), "{}", run.stderr);
    assert!(!run.stderr.contains("sign"), "{}", run.stderr);
}

/// A body without a length that is cut is not taken for a shorter file.
#[test]
fn a_cut_body_without_a_length_is_no_shorter_file() {
    let server = Faulty::start(None, |_| {
        let rows = rows();
        let chunk = format!("{:x}\r\n{rows}\r\n0\r\n\r\n", rows.len());
        let mut reply = Reply::new(200).with("Transfer-Encoding", "chunked");
        reply = reply.body(chunk);
        reply.unmeasured = true;
        reply.steps.push((40_000, Step::Cut));
        reply
    });
    let (sandbox, run) = from_web(&server);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(sandbox.files(), Vec::<String>::new());
}

/// Where the whole of such a file finds no room here, the run says so at once.
#[test]
fn no_room_for_a_body_without_a_length_is_told_with_the_folder() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let server = Faulty::start(None, move |request| {
        if request.method != "HEAD" {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        let mut reply = Reply::new(200).body(rows());
        reply.unmeasured = true;
        reply
    });
    let sandbox = Sandbox::new();
    let url = format!("http://{}/rows.jsonl", server.host());
    let mut command = sandbox.embed_command(&format!("{url} -o out.jsonl"));
    let output = command
        .env("TMPDIR", sandbox.path("gone"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("set TMPDIR to a folder with room"),
        "{stderr}"
    );
    assert!(!stderr.contains("try again later"), "{stderr}");
    assert_eq!(count.load(Ordering::SeqCst), 1, "{stderr}");
    assert_eq!(sandbox.files(), Vec::<String>::new());
}
