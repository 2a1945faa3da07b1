//! `embedctl embed --shard`: runs that write one folder together.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::jobs::{code, joined, json};
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use embedctl_testing::stride;

#[test]
fn shards_agree_without_speaking() {
    let sandbox = Sandbox::new();
    // A file that is cut twice and more, a small one, and an empty one.
    let lines = |from: usize, to: usize| {
        (from..to)
            .map(|n| format!("text {n}\n"))
            .collect::<String>()
    };
    sandbox.write("a.txt", lines(0, 500));
    sandbox.write("b.txt", lines(500, 510));
    sandbox.write("c.txt", "");
    let inputs = "a.txt b.txt c.txt";
    code(
        &sandbox.embed(&format!("{inputs} -o plain.jsonl --keep text")),
        0,
    );
    let shard = |number: u32| {
        format!("{inputs} -o out/ -f jsonl --part-rows 40 --keep text --shard {number}/4")
    };
    for number in [3, 1, 4] {
        let run = sandbox.embed(&shard(number));
        assert!(
            code(&run, 0).stderr.contains("when all other shards are"),
            "{run}"
        );
        assert!(!sandbox.path("out/_SUCCESS").exists());
    }
    // Who asks is told what is missing.
    let found = sandbox.run("inspect out/");
    let said = &code(&found, 1).stdout;
    assert!(
        said.contains("shard 2 of 4 is not at its end: 0 of its records are done"),
        "{found}"
    );
    // Once more is nothing to do, with the option; without it, it is refused.
    let again = sandbox.embed(&format!("{} --resume", shard(3)));
    let said = &code(&again, 0).stderr;
    assert!(
        said.contains("nothing to do: this shard is complete"),
        "{again}"
    );
    let refused = sandbox.embed(&shard(3));
    let said = &code(&refused, 2).stderr;
    assert!(
        said.contains("or remove it and _out.embedctl/ and run all shards anew"),
        "{refused}"
    );
    // Another number of shards, or another listing, would divide the input otherwise.
    let other = sandbox.embed(&shard(2).replace("/4", "/5"));
    assert!(
        code(&other, 2).stderr.contains("shards (4 then, 5 now)"),
        "{other}"
    );
    sandbox.write("c.txt", "more\n");
    let other = sandbox.embed(&shard(2));
    assert!(code(&other, 2).stderr.contains("input_sizes"), "{other}");
    sandbox.write("c.txt", "");
    let last = sandbox.embed(&shard(2));
    assert!(
        !code(&last, 0).stderr.contains("when all other shards are"),
        "{last}"
    );
    let manifest = json(&sandbox.path("_out.embedctl/manifest.json"));
    assert_eq!(
        (&manifest["rows"], &manifest["shards"]),
        (&510.into(), &4.into())
    );
    assert!(joined(&sandbox, "out") == read(&sandbox.path("plain.jsonl")));
    let again = sandbox.embed(&format!("{} --resume", shard(3)));
    let said = &code(&again, 0).stderr;
    assert!(
        said.contains("nothing to do: the output is complete"),
        "{again}"
    );
    let found = sandbox.run("inspect out/");
    let said = &code(&found, 0).stdout;
    assert!(said.contains("510 read, 0 rejected; 510 rows"), "{found}");
    sandbox.write("a.txt", lines(0, 500).replace("text", "next"));
    let other = sandbox.embed(&format!("{} --resume", shard(1)));
    let said = &code(&other, 2).stderr;
    assert!(
        said.contains("or remove it and _out.embedctl/ and run all shards anew"),
        "{other}"
    );
}

#[test]
fn shards_divide_one_file() {
    let sandbox = Sandbox::new();
    let texts: Vec<_> = (0..90).map(|row| format!("text {row}")).collect();
    let lines = |text: &String| format!("{{\"id\": \"{text}\", \"text\": \"{text}\"}}\n");
    sandbox.write("one.jsonl", texts.iter().map(lines).collect::<String>());
    let text = Arc::new(StringArray::from(texts)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", text.clone()), ("text", text)]).unwrap();
    let mut arrow = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for row in (0..90).step_by(8) {
        arrow.write(&batch.slice(row, 8.min(90 - row))).unwrap();
    }
    sandbox.write("one.arrow", arrow.into_inner().unwrap());
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    sandbox.write("one.arrows", stream.into_inner().unwrap());
    // In row groups that are small beside a shard, and in one.
    for (name, rows) in [("few.parquet", 7), ("one.parquet", 90)] {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows));
        let properties = properties.build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        sandbox.write(name, file);
    }
    for name in ["one.jsonl", "one.arrow", "few.parquet", "one.parquet"] {
        let given = "-f jsonl --source-columns --part-rows 8";
        code(
            &sandbox.embed(&format!("{name} -f jsonl --source-columns -o {name}.plain")),
            0,
        );
        for number in [2, 3, 1] {
            let run = sandbox.embed(&format!("{name} -o {name}.out/ {given} --shard {number}/3"));
            code(&run, 0);
            let end =
                json(&sandbox.path(&format!("_{name}.out.embedctl/shards/0000{number}.json")));
            let rows = end["rows"].as_u64().unwrap();
            assert!((25..36).contains(&rows), "{name} {number}: {rows}");
        }
        assert_eq!(
            joined(&sandbox, &format!("{name}.out")),
            read(&sandbox.path(&format!("{name}.plain")))
        );
    }
    let run = sandbox.embed("one.arrows -o out/ --shard 1/3");
    assert!(
        code(&run, 2)
            .stderr
            .contains("can only be read from its beginning"),
        "{run}"
    );
    assert!(!sandbox.path("out").exists());
}

/// Rows of earlier runs and other shards count.
#[test]
fn a_run_that_has_nothing_left_to_embed_is_not_empty() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    let line = "a.txt -o out/ -f jsonl --fail-on-empty --resume";
    code(&sandbox.embed(line), 0);
    // As a kill behind the last part leaves it.
    fs::remove_file(sandbox.path("out/_SUCCESS")).unwrap();
    fs::remove_file(sandbox.path("_out.embedctl/manifest.json")).unwrap();
    fs::remove_dir_all(sandbox.path("_out.embedctl/shards")).unwrap();
    code(&sandbox.embed(line), 0);
    assert!(sandbox.path("out/_SUCCESS").exists());
    // Two lines for three.
    for number in 1..=3 {
        let line = format!("a.txt -o three/ -f jsonl --fail-on-empty --shard {number}/3");
        code(&sandbox.embed(&line), 0);
    }
    assert_eq!(joined(&sandbox, "three"), joined(&sandbox, "out"));
    // Of all shards together, one record at least is embedded.
    sandbox.write("a.txt", "");
    for (number, status) in [(2, 0), (1, 1)] {
        let line = format!("a.txt -o none/ -f jsonl --fail-on-empty --shard {number}/2");
        let run = sandbox.embed(&line);
        let said = "no shard has a record that was embedded, which --fail-on-empty forbids";
        assert_eq!(
            code(&run, status).stderr.contains(said),
            status == 1,
            "{run}"
        );
    }
    assert!(!sandbox.path("none/_SUCCESS").exists());
    // A shard whose records are all bad is not an empty output.
    sandbox.write("b.jsonl", "{\"text\": 1}\n{\"text\": \"one\"}\n");
    for (number, status) in [(1, 3), (2, 0)] {
        let line = "b.jsonl -o some/ -f jsonl --fail-on-empty --on-error skip";
        code(
            &sandbox.embed(&format!("{line} --shard {number}/2")),
            status,
        );
    }
    assert!(sandbox.path("some/_SUCCESS").exists());
}

/// A record may look like the header, or like two: only whole files are read as they were written.
#[test]
fn files_of_csv_are_dealt_out_whole() {
    let sandbox = Sandbox::new();
    for name in ["a.csv", "b.csv"] {
        let records = (0..30).map(|row| format!("{name} {row}\ntext\n\"two\ntext\n\"\n"));
        sandbox.write(name, format!("text\n{}", records.collect::<String>()));
    }
    let line = "a.csv b.csv -f jsonl --source-columns";
    code(&sandbox.embed(&format!("{line} -o plain.jsonl")), 0);
    for number in [2, 3, 1] {
        let run = sandbox.embed(&format!("{line} -o out/ --shard {number}/3"));
        code(&run, 0);
    }
    let plain = read(&sandbox.path("plain.jsonl"));
    assert_eq!(joined(&sandbox, "out"), plain);
    for number in 1..=2 {
        let run = sandbox.embed(&format!("a.csv -o one/ --shard {number}/2"));
        let said = &code(&run, 2).stderr;
        assert!(said.contains("CSV or an Arrow stream can only be"), "{run}");
    }
    assert!(!sandbox.path("one").exists());
}

/// An input in one of several kinds of files: the words of its records, all of one length, and where it is written.
struct Input {
    names: &'static str,
    write: fn(&Sandbox, &[String]),
}

const INPUTS: [Input; 3] = [
    Input {
        names: "one.jsonl",
        write: |sandbox, texts| {
            let line = |text: &String| format!("{{\"text\": \"{text}\"}}\n");
            sandbox.write("one.jsonl", texts.iter().map(line).collect::<String>());
        },
    },
    // A large file, which is cut, between small ones, which are not.
    Input {
        names: "a.txt b.txt c.txt d.txt",
        write: |sandbox, texts| {
            let lines =
                |texts: &[String]| texts.iter().map(|it| format!("{it}\n")).collect::<String>();
            for (name, range) in [("a", 0..3), ("b", 3..6), ("c", 6..26), ("d", 26..30)] {
                sandbox.write(&format!("{name}.txt"), lines(&texts[range]));
            }
        },
    },
    Input {
        names: "few.parquet",
        write: |sandbox, texts| {
            let texts = Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
            let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
            let properties = WriterProperties::builder()
                .set_max_row_group_row_count(Some(4))
                .set_dictionary_enabled(false)
                .set_compression(parquet::basic::Compression::UNCOMPRESSED);
            let mut file = Vec::new();
            let properties = Some(properties.build());
            let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), properties).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            sandbox.write("few.parquet", file);
        },
    },
];

impl Input {
    /// Writes records, as files of that time.
    fn put(&self, sandbox: &Sandbox, texts: &[String], seconds: u64) {
        (self.write)(sandbox, texts);
        for name in self.names.split(' ') {
            let file = fs::File::options().append(true).open(sandbox.path(name));
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.unwrap().set_modified(time).unwrap();
        }
    }

    fn line(&self, output: &str) -> String {
        let names = self.names;
        format!("{names} -f jsonl --source-columns --keep text:string --part-rows 4 -o {output}")
    }
}

/// The input is written anew, in the same size, between two of three shards. The output is complete only if it is that
/// of the input as it is now; else source and shards are named.
#[test]
fn shards_that_have_read_different_inputs_make_no_output() {
    let texts: Vec<_> = (0..30).map(|row| format!("text {row:02}")).collect();
    // Nothing but the time; one record; two records that change places, so that one would be lost; all of them.
    let edits: [fn(&mut Vec<String>); 5] = [
        |_| {},
        |texts| texts[1] = "other 1".to_owned(),
        |texts| texts[28] = "other 2".to_owned(),
        |texts| texts.swap(2, 27),
        |texts| texts.rotate_left(1),
    ];
    let (mut complete, mut early, mut late) = (0, 0, 0);
    let orders = [[1, 2, 3], [3, 1, 2], [2, 3, 1]];
    for (case, (order, input)) in (0..).zip(
        orders
            .iter()
            .flat_map(|order| INPUTS.iter().map(move |input| (order, input))),
    ) {
        let cases = edits.iter().enumerate();
        for (number, edit) in cases.skip(case % stride(5)).step_by(stride(5)) {
            let sandbox = Sandbox::new();
            let before = 1 + (case + number) % 2;
            input.put(&sandbox, &texts, 1_000_000_000);
            let mut now = texts.clone();
            edit(&mut now);
            let mut refused = None;
            for (index, shard) in order.iter().enumerate() {
                if index == before {
                    input.put(&sandbox, &now, 1_000_000_100);
                }
                let run = sandbox.embed(&format!("{} --shard {shard}/3", input.line("out/")));
                if run.code != Some(0) {
                    refused = Some((*shard, run));
                    break;
                }
            }
            let is_complete = sandbox.path("out/_SUCCESS").exists();
            assert_eq!(is_complete, refused.is_none(), "{} {number}", input.names);
            let Some((shard, run)) = refused else {
                code(
                    &sandbox.embed(&input.line("plain.jsonl").replace("--part-rows 4", "")),
                    0,
                );
                assert!(joined(&sandbox, "out") == read(&sandbox.path("plain.jsonl")));
                code(&sandbox.run("inspect out/"), 0);
                complete += 1;
                continue;
            };
            let said = &code(&run, 2).stderr;
            let other = order[..before].iter().find(|other| {
                said.contains(&format!("shard {other} of 3 read "))
                    && said.contains(&format!(
                        "shard {shard} finds it as of 2001-09-09T01:48:20Z"
                    ))
            });
            assert!(other.is_some(), "{run}");
            assert!(
                input.names.split(' ').any(|name| said.contains(name)),
                "{run}"
            );
            assert!(number > 0, "only the time is another: {run}");
            assert!(!sandbox.path("_out.embedctl/manifest.json").exists());
            // As it was, it can be finished, unless that shard has embedded what it was written anew to.
            let has_ended = sandbox
                .path(&format!("_out.embedctl/shards/0000{shard}.json"))
                .exists();
            *if has_ended { &mut late } else { &mut early } += 1;
            input.put(&sandbox, &texts, 1_000_000_200);
            let mut codes = Vec::new();
            for shard in order {
                let line = input.line("out/");
                codes.push(
                    sandbox
                        .embed(&format!("{line} --resume --shard {shard}/3"))
                        .code,
                );
            }
            assert_eq!(
                codes.contains(&Some(2)),
                !sandbox.path("out/_SUCCESS").exists()
            );
            if !has_ended {
                assert_eq!(codes, [Some(0); 3]);
                input.put(&sandbox, &texts, 1_000_000_000);
                code(
                    &sandbox.embed(&input.line("plain.jsonl").replace("--part-rows 4", "")),
                    0,
                );
                assert!(joined(&sandbox, "out") == read(&sandbox.path("plain.jsonl")));
            }
        }
    }
    let most = 9 / stride(3);
    assert!(
        complete >= most && early >= most && late >= 1,
        "{complete} {early} {late}"
    );
}

/// Each machine has a copy of its own, with a time of its own.
#[test]
fn copies_of_an_input_are_compared_by_their_content() {
    let texts: Vec<_> = (0..30).map(|row| format!("text {row:02}")).collect();
    for input in &INPUTS {
        let sandbox = Sandbox::new();
        for shard in [3, 1, 4, 2] {
            input.put(&sandbox, &texts, 1_000_000_000 + shard);
            code(
                &sandbox.embed(&format!("{} --shard {shard}/4", input.line("out/"))),
                0,
            );
        }
        assert!(sandbox.path("out/_SUCCESS").exists());
        code(
            &sandbox.embed(&input.line("plain.jsonl").replace("--part-rows 4", "")),
            0,
        );
        assert!(joined(&sandbox, "out") == read(&sandbox.path("plain.jsonl")));
    }
}

/// A shard that was stopped goes on, and one that was killed before it could say that all is complete says so, with the
/// input that the others have read alone.
#[test]
fn a_shard_goes_on_with_the_input_that_others_have_read() {
    let texts: Vec<_> = (0..30).map(|row| format!("text {row:02}")).collect();
    let mut other = texts.clone();
    other.swap(2, 27);
    for input in &INPUTS {
        for is_stopped in [true, false] {
            let sandbox = Sandbox::new();
            input.put(&sandbox, &texts, 1_000_000_000);
            for shard in [1, 2] {
                code(
                    &sandbox.embed(&format!("{} --shard {shard}/2", input.line("out/"))),
                    0,
                );
            }
            let mut gone = vec!["_SUCCESS", "_embedctl/manifest.json"];
            if is_stopped {
                gone.extend(["_embedctl/shards/00002.json", "part-00002-00003.jsonl"]);
            }
            for gone in gone {
                fs::remove_file(sandbox.of_job("out", gone)).unwrap();
            }
            let resume = |number: u32| {
                sandbox.embed(&format!(
                    "{} --resume --shard {number}/2",
                    input.line("out/")
                ))
            };
            input.put(&sandbox, &other, 1_000_000_100);
            let run = resume(2);
            code(&run, 2);
            assert!(!sandbox.path("out/_SUCCESS").exists(), "{run}");
            input.put(&sandbox, &texts, 1_000_000_200);
            code(&resume(2), 0);
            assert!(sandbox.path("out/_SUCCESS").exists());
            code(
                &sandbox.embed(&input.line("plain.jsonl").replace("--part-rows 4", "")),
                0,
            );
            assert!(joined(&sandbox, "out") == read(&sandbox.path("plain.jsonl")));
        }
    }
}

#[test]
fn standard_input_has_no_shards() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    let mut command = sandbox.embed_command("- -o out/ --shard 1/2");
    command.stdin(fs::File::open(sandbox.path("a.txt")).unwrap());
    let run = sandbox.finish(&mut command);
    let said = &code(&run, 2).stderr;
    assert!(
        said.contains("standard input cannot be read again"),
        "{run}"
    );
    assert!(!sandbox.path("out").exists());
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
