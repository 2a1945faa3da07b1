//! Arrow in, Arrow out: each record batch is answered by one, as soon as it comes.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::support;
use arrow::array::{Array, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

/// Only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A run's result.
#[derive(Debug)]
enum Answer {
    Schema(SchemaRef),
    Batch(RecordBatch),
    End,
}

/// A run whose standard input is held open.
struct Operator {
    child: Child,
    answers: Receiver<Answer>,
}

impl Operator {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, answers) = channel();
        thread::spawn(move || read(stdout, &sender));
        Self { child, answers }
    }

    /// Begins a stream; its schema comes back before any batch.
    fn begin(&mut self, schema: &SchemaRef) -> (StreamWriter<impl Write + use<>>, SchemaRef) {
        struct Input(std::process::ChildStdin);
        impl Write for Input {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                self.0.flush()
            }
        }
        let stdin = Input(self.child.stdin.take().unwrap());
        let writer = StreamWriter::try_new(stdin, schema).unwrap();
        let Answer::Schema(schema) = self.answer() else {
            panic!("no schema")
        };
        (writer, schema)
    }

    fn answer(&self) -> Answer {
        self.answers.recv_timeout(DEADLINE).expect("an answer")
    }

    fn batch(&self) -> RecordBatch {
        match self.answer() {
            Answer::Batch(batch) => batch,
            other => panic!("no batch: {other:?}"),
        }
    }

    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut stderr = String::new();
        let mut said = self.child.stderr.take().unwrap();
        said.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

fn read(mut stdout: ChildStdout, answers: &Sender<Answer>) {
    while let Ok(stream) = StreamReader::try_new(&mut stdout, None) {
        let _ = answers.send(Answer::Schema(stream.schema()));
        for batch in stream {
            let Ok(batch) = batch else { return };
            let _ = answers.send(Answer::Batch(batch));
        }
        let _ = answers.send(Answer::End);
    }
}

fn schema(names: [&str; 2]) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(names[0], DataType::Int32, false),
        Field::new(names[1], DataType::Utf8, true),
    ]))
}

fn batch(schema: &SchemaRef, texts: &[Option<&str>]) -> RecordBatch {
    let numbers: Int32Array = (0..).take(texts.len()).collect();
    let texts: StringArray = texts.iter().copied().collect();
    RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(texts)]).unwrap()
}

/// Its columns come back as they are, and every row has a vector.
fn check(sent: &RecordBatch, back: &RecordBatch) {
    assert_eq!(sent.num_rows(), back.num_rows());
    for (column, field) in sent.columns().iter().zip(sent.schema().fields()) {
        assert_eq!(column, back.column_by_name(field.name()).unwrap());
    }
    let vectors = back
        .column_by_name("embedding")
        .unwrap()
        .as_fixed_size_list();
    assert_eq!((vectors.value_length(), vectors.null_count()), (48, 0));
}

#[test]
fn each_batch_is_answered_as_it_comes() {
    let sandbox = Sandbox::new();
    let mut operator = Operator::start(&mut sandbox.embed_command("-i arrow -f arrow -o -"));
    let schema = schema(["n", "text"]);
    let (mut writer, back) = operator.begin(&schema);
    let names: Vec<_> = back
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["n", "text", "embedding"]);
    for texts in [
        &[Some("one"), Some("two"), Some("one")][..],
        &[],
        &[Some("")],
    ] {
        let sent = batch(&schema, texts);
        writer.write(&sent).unwrap();
        check(&sent, &operator.batch());
    }
    writer.finish().unwrap();
    assert!(matches!(operator.answer(), Answer::End));
    drop(writer);
    let (code, stderr) = operator.end();
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn streams_of_other_schemas_follow_one_another() {
    let sandbox = Sandbox::new();
    let line = "-i arrow -f arrow -o - --streams --text-field t";
    let mut command = sandbox.embed_command(line);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = child.stdout.take().unwrap();
    let (sender, answers) = channel();
    thread::spawn(move || read(stdout, &sender));
    let operator = Operator { child, answers };
    for names in [["n", "t"], ["other", "t"], ["n", "t"]] {
        let schema = schema(names);
        let mut writer = StreamWriter::try_new(&mut stdin, &schema).unwrap();
        let Answer::Schema(back) = operator.answer() else {
            panic!("no schema")
        };
        assert_eq!(back.field(0).name(), names[0]);
        let sent = batch(&schema, &[Some("one"), Some("two")]);
        writer.write(&sent).unwrap();
        check(&sent, &operator.batch());
        writer.finish().unwrap();
        assert!(matches!(operator.answer(), Answer::End));
    }
    drop(stdin);
    let (code, stderr) = operator.end();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("6 records read = 6 embedded"), "{stderr}");
}

#[test]
fn no_stream_at_all_is_answered_by_none() {
    let sandbox = Sandbox::new();
    let run = sandbox.run_with_input(
        &mut sandbox.embed_command("-i arrow -f arrow -o - --streams -q"),
        b"",
    );
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run}");
}

#[test]
fn rows_without_a_text_stay_where_they_are() {
    let sandbox = Sandbox::new();
    let line = "-i arrow -f arrow -o - --on-error null --vector-type list --max-record-bytes 10";
    let mut operator = Operator::start(&mut sandbox.embed_command(line));
    let schema = schema(["n", "text"]);
    let (mut writer, _) = operator.begin(&schema);
    let sent = batch(
        &schema,
        &[
            None,
            Some("two"),
            Some("longer than ten bytes"),
            Some("four"),
            None,
        ],
    );
    writer.write(&sent).unwrap();
    let back = operator.batch();
    assert_eq!(sent.columns(), &back.columns()[..2]);
    let vectors = back.column_by_name("embedding").unwrap().as_list::<i32>();
    let errors = back.column_by_name("embedding_error").unwrap();
    let errors = errors.as_string::<i32>();
    for row in 0..5 {
        let is_bad = [0, 2, 4].contains(&row);
        assert_eq!(vectors.is_null(row), is_bad, "row {row}");
        assert_eq!(errors.is_valid(row), is_bad, "row {row}");
    }
    assert!(errors.value(0).contains("null") && errors.value(2).contains("10"));
    // Nothing but bad rows.
    let sent = batch(&schema, &[None]);
    writer.write(&sent).unwrap();
    assert_eq!(operator.batch().num_rows(), 1);
    writer.finish().unwrap();
    drop(writer);
    let (code, stderr) = operator.end();
    assert_eq!(code, Some(3), "{stderr}");
}

fn stream(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// The written lines may be read, and then comes no end.
fn broken_off(stream: &[u8]) {
    let mut reader = StreamReader::try_new(stream, None).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 1);
    assert!(reader.next().unwrap().is_err());
    if let Some(python) = support::python("a_bad_row_ends_the_stream_without_its_end", &["pyarrow"])
    {
        let script = "import sys, pyarrow as pa\ntry: pa.ipc.open_stream(sys.stdin.buffer).read_all()\nexcept pa.ArrowInvalid: sys.exit(7)";
        let mut reader = Command::new(python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        reader.stdin.take().unwrap().write_all(stream).unwrap();
        assert_eq!(reader.wait().unwrap().code(), Some(7));
    }
}

#[test]
fn a_bad_row_ends_the_stream_without_its_end() {
    let sandbox = Sandbox::new();
    let schema = schema(["n", "text"]);
    let batches = [batch(&schema, &[Some("one")]), batch(&schema, &[None])];
    let mut command = sandbox.embed_command("-i arrow -f arrow -o - -q");
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&stream(&schema, &batches)).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let run = sandbox.outcome(&output);
    assert!(run.stderr.contains("standard input:2: "), "{}", run.stderr);
    broken_off(&output.stdout);
    // So do lines that become a stream; a stream alone ends where a reader takes it for complete.
    let mut command = sandbox.embed_command("-i jsonl -f arrow -o - --window 1 -q");
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"text\":\"one\"}\n{}\n").unwrap();
    drop(stdin);
    broken_off(&child.wait_with_output().unwrap().stdout);
}

/// The answers to `streams`, each as one batch.
fn answers(sandbox: &Sandbox, more: &str, streams: &[u8]) -> Vec<RecordBatch> {
    let mut command = sandbox.embed_command(&format!("-i arrow -f arrow -o - -q {more}"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(streams).unwrap();
    let output = child.wait_with_output().unwrap();
    let run = sandbox.outcome(&output);
    assert!([Some(0), Some(3)].contains(&run.code), "{}", run.stderr);
    let mut rest = output.stdout.as_slice();
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let stream = StreamReader::try_new(&mut rest, None).unwrap();
        let schema = stream.schema();
        let batches: Vec<_> = stream.map(Result::unwrap).collect();
        answers.push(concat_batches(&schema, &batches).unwrap());
    }
    answers
}

/// Of two batches, and of rows that are rejected too, as these are rows of their batch.
#[test]
fn a_row_that_is_drawn_has_the_vector_of_its_own_text() {
    let sandbox = Sandbox::new();
    let schema = schema(["n", "text"]);
    let texts: [_; 7] = [
        Some("one"),
        None,
        Some("two"),
        Some("three"),
        Some("four"),
        None,
        Some("five"),
    ];
    let all = batch(&schema, &texts);
    let bytes = stream(&schema, &[all.slice(0, 4), all.slice(4, 3)]);
    let more = "--on-error null --window 2";
    let whole = answers(&sandbox, more, &bytes).remove(0);
    for (sample, seed) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)] {
        let more = format!("{more} --sample {sample} --seed {seed}");
        let drawn = answers(&sandbox, &more, &bytes).remove(0);
        assert_eq!(drawn.num_rows(), sample);
        let rows = drawn.column(0).as_primitive::<Int32Type>().values();
        for (row, &of) in rows.iter().enumerate() {
            let of = usize::try_from(of).unwrap();
            assert_eq!(drawn.slice(row, 1), whole.slice(of, 1), "{sample} {seed}");
        }
    }
}

#[test]
fn a_limit_that_falls_inside_of_a_stream_leaves_the_next_ones_whole() {
    let sandbox = Sandbox::new();
    let schema = schema(["n", "text"]);
    let three = batch(&schema, &[Some("one"), Some("two"), Some("three")]);
    let one = stream(&schema, &[three.slice(0, 2), three.slice(2, 1)]);
    for (limit, expected) in [(1, [1, 0, 0]), (3, [3, 0, 0]), (4, [3, 1, 0])] {
        let answers = answers(
            &sandbox,
            &format!("--streams --limit {limit}"),
            &one.repeat(3),
        );
        let rows: Vec<_> = answers.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, expected);
    }
}

#[test]
fn streams_are_for_arrow_alone() {
    assert_snapshot!(Sandbox::new().embed("--streams -i jsonl -o -"));
    let run = Sandbox::new().embed("--streams -i arrow -f arrow -o - --sample 2");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--sample cannot draw"), "{run}");
}

#[test]
fn a_column_that_would_be_there_twice() {
    let sandbox = Sandbox::new();
    let schema = schema(["embedding", "text"]);
    let bytes = stream(&schema, &[batch(&schema, &[Some("one")])]);
    let mut command = sandbox.embed_command("-i arrow -f arrow -o - -q");
    assert_snapshot!(sandbox.run_with_input(&mut command, &bytes));
}

#[test]
fn a_stream_that_is_cut_short_is_an_error() {
    let sandbox = Sandbox::new();
    let schema = schema(["n", "text"]);
    let bytes = stream(&schema, &[batch(&schema, &[Some("one")])]);
    let mut command = sandbox.embed_command("-i arrow -f arrow -o - -q");
    let run = sandbox.run_with_input(&mut command, &bytes[..bytes.len() - 30]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("record batch 1"), "{}", run.stderr);
}
