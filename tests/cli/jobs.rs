//! `embedctl embed` into parts, and resumed runs: outputs, refusals and messages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};
use crate::support;

/// Eight lines; the sixth is not a valid record.
pub fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let line = |record: usize| match record {
        6 => "no JSON\n".to_owned(),
        _ => format!("{{\"id\": {record}, \"text\": \"text {record}\", \"year\": {record}}}\n"),
    };
    sandbox.write("in.jsonl", (1..=8).map(line).collect::<String>());
    sandbox
}

/// Names of all files under a folder, sorted, without locks.
pub fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    // A job's own files, under the names that the job gives them.
    let name = folder.file_name().unwrap().to_str().unwrap();
    let own = folder.with_file_name(format!("_{name}.embedctl"));
    if own.exists() {
        let own = files(&own).into_iter();
        names.extend(own.map(|file| format!("_embedctl/{file}")));
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            names.extend(
                files(&path)
                    .into_iter()
                    .map(|file| format!("{name}/{file}")),
            );
        } else if !name.starts_with("shard-") {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// The parts of a folder of lines, put together.
pub fn joined(sandbox: &Sandbox, folder: &str) -> String {
    let mut parts: Vec<_> = fs::read_dir(sandbox.path(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .collect();
    parts.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    parts.iter().map(read).collect()
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub fn code(run: &Run, code: i32) -> &Run {
    assert_eq!(run.code, Some(code), "{run}");
    run
}

#[test]
fn a_folder_holds_parts() {
    let sandbox = sandbox();
    let run = sandbox.embed("in.jsonl --on-error skip -o out/ --part-rows 3 --keep year");
    code(&run, 3);
    assert!(run.stderr.contains("wrote out/"), "{run}");
    assert!(run.stderr.contains("correct a copy of the lists"), "{run}");
    assert_eq!(
        files(&sandbox.path("out")),
        [
            "_SUCCESS",
            "_embedctl/commits/part-00001-00000.json",
            "_embedctl/commits/part-00001-00001.json",
            "_embedctl/commits/part-00001-00002.json",
            "_embedctl/job.json",
            "_embedctl/manifest.json",
            "_embedctl/rejects/part-00001-00001.jsonl",
            "_embedctl/shards/00001.json",
            "_embedctl/texts/part-00001-00000.sha256",
            "_embedctl/texts/part-00001-00001.sha256",
            "_embedctl/texts/part-00001-00002.sha256",
            "part-00001-00000.parquet",
            "part-00001-00001.parquet",
            "part-00001-00002.parquet",
        ]
    );
    let manifest = json(&sandbox.path("_out.embedctl/manifest.json"));
    assert_eq!(
        (
            &manifest["records"],
            &manifest["rows"],
            &manifest["rejected"]
        ),
        (&8.into(), &7.into(), &1.into())
    );
    // Once more: nothing to do, and the same exit code. Without the option it is in the way.
    let again = sandbox.embed("in.jsonl --on-error skip -o out --part-rows 3 --keep year --resume");
    assert!(code(&again, 3).stderr.contains("nothing to do"), "{again}");
    let refused = sandbox.embed("in.jsonl --on-error skip -o out/ --part-rows 3 --keep year");
    assert!(code(&refused, 2).stderr.contains("--force"), "{refused}");
    // Other settings are named.
    let other = sandbox.embed("in.jsonl --on-error skip -o out/ --part-rows 3 --resume --prompt p");
    let said = &code(&other, 2).stderr;
    assert!(
        said.contains("prompt (\"\" then, \"p\" now)") && said.contains("keep ("),
        "{other}"
    );
    // Another input is not what the output was made of.
    sandbox.write("in.jsonl", "{\"text\": \"one\"}\n");
    let other =
        sandbox.embed("in.jsonl --on-error skip -o out/ --part-rows 3 --keep year --resume");
    assert!(code(&other, 2).stderr.contains("input_sizes"), "{other}");
    let anew = sandbox.embed("in.jsonl -o out/ --part-rows 3 --force");
    code(&anew, 0);
    let manifest = json(&sandbox.path("_out.embedctl/manifest.json"));
    assert_eq!(manifest["rows"], 1);
    assert!(!sandbox.path("out/part-00001-00001.parquet").exists());
}

#[test]
fn what_a_run_writes_into_a_folder_of_inputs_is_not_read_by_the_next() {
    let sandbox = sandbox();
    for line in [
        ". --on-error skip -o out/",
        "'*' -i jsonl --on-error skip -o out2/",
    ] {
        let line = line.replace('\'', "");
        let first = sandbox.embed(&line);
        code(&first, 3);
        let again = sandbox.embed(&format!("{line} --resume"));
        assert!(code(&again, 3).stderr.contains("nothing to do"), "{again}");
        fs::remove_dir_all(sandbox.path("out")).ok();
    }
}

#[test]
fn a_failed_run_is_gone_on_with() {
    for format in ["parquet", "jsonl", "npy"] {
        let sandbox = sandbox();
        let plain = format!("in.jsonl --on-error skip -o plain.{format} --keep year");
        code(&sandbox.embed(&plain), 3);
        // The fifth record is safe: it is published when the sixth fails.
        let line = format!("in.jsonl -f {format} --keep year --window 1");
        let folder = format!("{line} -o out/");
        let failed = sandbox.embed(&folder);
        let said = &code(&failed, 1).stderr;
        assert!(
            said.contains("5 rows in 1 part are safe; resume with: "),
            "{failed}"
        );
        let refused = sandbox.embed(&folder);
        assert!(code(&refused, 2).stderr.contains("unfinished"), "{refused}");
        code(&sandbox.embed(&format!("{folder} --resume")), 1);
        let done = sandbox.embed(&format!("{folder} --resume --on-error skip"));
        assert!(
            code(&done, 3)
                .stderr
                .contains("resumed after 5 rows in 1 part"),
            "{done}"
        );

        let file = format!("{line} -o out.{format} --resume");
        code(&sandbox.embed(&file), 1);
        assert!(!sandbox.path(&format!("out.{format}")).exists());
        assert!(sandbox.path(&format!("out.{format}.parts")).exists());
        let plainly = sandbox.embed(&file.replace(" --resume", ""));
        assert!(code(&plainly, 2).stderr.contains("unfinished"), "{plainly}");
        code(
            &sandbox.embed(&format!("{file} --on-error skip --rejects rejects.jsonl")),
            3,
        );
        assert!(!sandbox.path(&format!("out.{format}.parts")).exists());
        let rejects = fs::read_to_string(sandbox.path("rejects.jsonl")).unwrap();
        assert!(
            rejects.contains("\"line\":6") && rejects.lines().count() == 1,
            "{rejects}"
        );
        // The same bytes as an undisturbed run's, but for what stands in the provenance.
        if format != "parquet" {
            let bytes = |name: &str| fs::read(sandbox.path(name)).unwrap();
            assert!(bytes(&format!("out.{format}")) == bytes(&format!("plain.{format}")));
        }
        let again = sandbox.embed(&format!("{file} --on-error skip"));
        assert!(code(&again, 3).stderr.contains("nothing to do"), "{again}");
    }
}

/// The command that a failed run names to go on with is run by a shell, word for word.
#[cfg(unix)]
#[test]
fn the_command_that_goes_on_can_be_pasted() {
    let sandbox = sandbox();
    let (input, output) = ("Ada's records.jsonl", "her $vectors/");
    let records = fs::read_to_string(sandbox.path("in.jsonl")).unwrap();
    sandbox.write(input, &records);
    let model = in_repository(SMALL_MODEL);
    let mut first = sandbox.command(["--offline", "embed", "--force", "--provider", "rten", input]);
    first
        .args(["-o", output, "--window", "1", "-m"])
        .arg(&model);
    let failed = first.output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8(failed.stderr).unwrap();
    let (_, told) = said
        .split_once("5 rows in 1 part are safe; resume with: ")
        .unwrap();
    sandbox.write(input, records.replace("no JSON", r#"{"text": "text 6"}"#));
    let mut shell = Command::new("sh");
    shell.args(["-c", told]).current_dir(sandbox.path("."));
    let done = sandbox.finish(shell.env("EMBEDCTL_NO_CONFIG", "1"));
    assert!(
        code(&done, 0).stderr.contains("resumed after 5 rows"),
        "{done}"
    );
    assert!(sandbox.path(output).join("_SUCCESS").exists());
}

/// Options that choose among records count those that earlier runs have read.
#[test]
fn a_run_that_goes_on_reads_no_more_records_than_the_first_was_to_read() {
    let sandbox = sandbox();
    let broken = fs::read_to_string(sandbox.path("in.jsonl")).unwrap();
    let mended = broken.replace("no JSON", r#"{"id": 6, "text": "text 6"}"#);
    for more in ["--limit 7", "--sample 7 --seed 3", "--limit 7 --sample 6"] {
        let line = format!("in.jsonl {more} -f jsonl --window 1 --part-rows 2");
        sandbox.write("in.jsonl", &mended);
        code(&sandbox.embed(&format!("{line} -o out/ --force")), 0);
        let whole = joined(&sandbox, "out");
        // As after a kill behind the last part, and before it: the input is entered where the parts end.
        let parts = fs::read_dir(sandbox.path("out")).unwrap().count();
        let last = format!("part-00001-0000{}.jsonl", parts - 2);
        for left_out in ["none", last.as_str()] {
            let gone = [
                "_SUCCESS",
                "_embedctl/manifest.json",
                "_embedctl/shards/00001.json",
                left_out,
            ];
            for gone in gone {
                let _ = fs::remove_file(sandbox.of_job("out", gone));
            }
            let done = sandbox.embed(&format!("{line} -o out/ --resume"));
            assert!(code(&done, 0).stderr.contains("resumed after"), "{done}");
            assert!(joined(&sandbox, "out") == whole, "{more}: {done}");
        }
        // And read again, where it has changed since.
        for output in ["again/", "again.jsonl"] {
            sandbox.write("in.jsonl", &broken);
            code(&sandbox.embed(&format!("{line} -o {output} --resume")), 1);
            sandbox.write("in.jsonl", &mended);
            code(&sandbox.embed(&format!("{line} -o {output} --resume")), 0);
        }
        assert!(joined(&sandbox, "again") == whole, "{more}");
        assert!(fs::read_to_string(sandbox.path("again.jsonl")).unwrap() == whole);
        fs::remove_dir_all(sandbox.path("again")).unwrap();
        for gone in ["again.jsonl", "again.jsonl.json"] {
            fs::remove_file(sandbox.path(gone)).unwrap();
        }
    }
}

/// Lines, lines behind compressions, a table, named by a pattern, stopped in each of them.
#[test]
fn a_pattern_of_all_kinds_of_files_is_gone_on_with() {
    let sandbox = Sandbox::new();
    let good = |n: u32| format!("{{\"id\": \"{n}\", \"text\": \"text {n}\"}}\n");
    let lines = |from: u32, bad: &str| format!("{}{bad}{}", good(from), good(from + 1));
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let write = |bad: [&str; 3]| {
        sandbox.write("in-a.jsonl", lines(0, bad[0]));
        sandbox.write("in-b.jsonl.gz", gzip(&lines(10, bad[1])));
        sandbox.write("in-d.jsonl.zst", zstd(&lines(30, bad[2])));
    };
    write([""; 3]);
    sandbox.write("c.jsonl", lines(20, ""));
    code(&sandbox.embed("c.jsonl --keep text -o in-c.parquet"), 0);
    code(&sandbox.embed("in-*.* -o plain.jsonl"), 0);
    for output in ["out/", "single.jsonl"] {
        let line = format!("in-*.* -f jsonl --window 1 --resume -o {output}");
        // Each run gets as far as the next bad record, which somebody has mended by then.
        for bad in [["no\n"; 3], ["", "no\n", "no\n"], ["", "", "no\n"]] {
            write(bad);
            let failed = sandbox.embed(&line);
            let said = &code(&failed, 1).stderr;
            assert!(said.contains("are safe; resume with"), "{failed}");
        }
        write([""; 3]);
        let done = sandbox.embed(&line);
        let said = &code(&done, 0).stderr;
        assert!(said.contains("resumed after 7 rows in 3 parts"), "{done}");
        let read = match output {
            "out/" => joined(&sandbox, "out"),
            file => fs::read_to_string(sandbox.path(file)).unwrap(),
        };
        assert!(read == fs::read_to_string(sandbox.path("plain.jsonl")).unwrap());
    }
}

#[test]
fn another_model_file_is_refused_by_its_name() {
    let sandbox = sandbox();
    copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("model"));
    let run = |line: &str| {
        let mut command = sandbox.embed_command(line);
        sandbox.finish(command.env("EMBEDCTL_MODEL", sandbox.path("model")))
    };
    for output in ["out/", "out.npy"] {
        let line = format!("in.jsonl --window 1 -o {output} --resume");
        code(&run(&line), 1);
        let config = fs::read_to_string(sandbox.path("model/config.json")).unwrap();
        sandbox.write("model/config.json", format!("{config}\n"));
        let refused = run(&line);
        let said = &code(&refused, 2).stderr;
        assert!(
            said.contains("one kind: model.files.config.json ("),
            "{refused}"
        );
        sandbox.write("model/config.json", config);
        code(&run(&format!("{line} --on-error skip")), 3);
    }
}

/// What a complete output was computed in is compared as it is of an incomplete one.
#[test]
fn another_precision_is_refused_by_a_complete_output() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "one\ntwo\nthree\n");
    let run = |provider: &str, precision: &str, more: &str| {
        let line = format!(
            "embed in.txt --threads 1 --no-cache --resume -p {provider} {precision} {more}"
        );
        let mut command = sandbox.command(line.split_whitespace());
        let model = in_repository("fixtures/parity/args-of-the-tokenizer/model");
        sandbox.finish(command.env("EMBEDCTL_MODEL", model))
    };
    let precisions = ["", "--precision int16", "--precision bf16"];
    for (number, output) in ["out/ -f jsonl", "out.npy", "out.parquet"]
        .iter()
        .enumerate()
    {
        let made = precisions[number];
        code(&run("native", made, &format!("-o {output}")), 0);
        for precision in precisions {
            // By the engine's name, and as it is chosen.
            for provider in ["native", "auto"] {
                let again = run(provider, precision, &format!("-o {output}"));
                if precision == made {
                    assert!(code(&again, 0).stderr.contains("nothing to do"), "{again}");
                    continue;
                }
                let said = &code(&again, 2).stderr;
                assert!(
                    said.contains("engine.precision (") && said.contains("one kind"),
                    "{output} {precision}: {again}"
                );
            }
        }
    }
    let other = run("rten", "", "-o out/ -f jsonl");
    assert!(code(&other, 2).stderr.contains("engine.kind ("), "{other}");
}

#[test]
fn a_jobs_code_tells_of_records_that_earlier_runs_rejected() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "no JSON\n{\"text\": \"one\"}\n");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"{\"text\": \"two\"}\n").unwrap();
    let whole = encoder.finish().unwrap();
    for output in ["out/", "out.jsonl"] {
        sandbox.write("b.jsonl.gz", &whole[..whole.len() - 9]);
        let line =
            format!("a.jsonl b.jsonl.gz -f jsonl --on-error skip --window 1 --resume -o {output}");
        code(&sandbox.embed(&line), 1);
        sandbox.write("b.jsonl.gz", &whole);
        let done = sandbox.embed(&line);
        assert!(done.stderr.contains("resumed after 2 rows"), "{done}");
        code(&done, 3);
    }
}

/// Older versions put a job's own files among the parts.
#[test]
fn a_folder_of_an_older_version_is_read_and_resumed() {
    for format in ["parquet", "jsonl", "npy"] {
        let sandbox = sandbox();
        let line = format!("in.jsonl --on-error skip -o out/ -f {format} --part-rows 3");
        code(&sandbox.embed(&line), 3);
        let names = files(&sandbox.path("out"));
        // As they wrote it.
        for sidecar in fs::read_dir(sandbox.path("_out.embedctl/sidecars"))
            .into_iter()
            .flatten()
        {
            let sidecar = sidecar.unwrap();
            fs::rename(
                sidecar.path(),
                sandbox.path("out").join(sidecar.file_name()),
            )
            .unwrap();
        }
        let _ = fs::remove_dir(sandbox.path("_out.embedctl/sidecars"));
        fs::rename(sandbox.path("_out.embedctl"), sandbox.path("out/_embedctl")).unwrap();
        code(&sandbox.run("inspect out/"), 0);
        code(&sandbox.embed(&line), 2);
        let run = sandbox.embed(&format!("{line} --resume"));
        assert!(code(&run, 3).stderr.contains("nothing to do"), "{run}");
        fs::remove_file(sandbox.path(&format!("out/part-00001-00001.{format}"))).unwrap();
        let run = sandbox.embed(&format!("{line} --resume"));
        assert!(code(&run, 3).stderr.contains("resumed after"), "{run}");
        code(&sandbox.run("inspect out/"), 0);
        let run = sandbox.embed("in.jsonl --on-error skip -o new.jsonl --reuse out/");
        assert!(code(&run, 3).stderr.contains("7 vectors copied"), "{run}");
        let after = files(&sandbox.path("out"));
        assert_eq!(after.len(), names.len(), "{after:?}");
        assert!(!sandbox.path("_out.embedctl").exists());
        // Where the older version has removed it, the new one begins its own way.
        code(&sandbox.embed(&format!("{line} --force")), 3);
        assert!(!sandbox.path("_out.embedctl").exists());
    }
}

/// Without its parts, a job's own files are of no use: the output is written again without an option.
#[test]
fn a_removed_output_is_written_again() {
    for shards in [1, 2] {
        let sandbox = sandbox();
        let run = |more: &str| {
            for shard in 1..=shards {
                let shard = format!("--shard {shard}/{shards}");
                let line = format!("in.jsonl --on-error skip -o out/ -f jsonl {shard} {more}");
                let run = sandbox.embed(&line);
                assert!([Some(0), Some(3)].contains(&run.code), "{run}");
            }
            files(&sandbox.path("out"))
        };
        let before = run("");
        fs::remove_dir_all(sandbox.path("out")).unwrap();
        assert_eq!(run(""), before);
        fs::remove_dir_all(sandbox.path("out")).unwrap();
        fs::create_dir(sandbox.path("out")).unwrap();
        assert_eq!(run(""), before);
        if shards == 1 {
            // Also with other settings.
            fs::remove_dir_all(sandbox.path("out")).unwrap();
            run("--normalize false");
            fs::remove_dir_all(sandbox.path("out")).unwrap();
            run("--resume");
        }
        code(&sandbox.run("inspect out/"), 0);
    }
}

#[test]
fn a_run_killed_before_its_last_word_is_completed() {
    let sandbox = sandbox();
    let line = "in.jsonl --on-error skip -o out/ --part-rows 3";
    code(&sandbox.embed(line), 3);
    let whole = files(&sandbox.path("out"));
    for gone in ["_SUCCESS", "_embedctl/manifest.json"] {
        fs::remove_file(sandbox.of_job("out", gone)).unwrap();
    }
    let done = sandbox.embed(&format!("{line} --resume"));
    assert!(code(&done, 3).stderr.contains("nothing to do"), "{done}");
    assert_eq!(files(&sandbox.path("out")), whole);
}

/// The files of an output are given their names one after another, the main file last; a kill between two of them is
/// played here with the list that such a run leaves.
#[cfg(unix)]
#[test]
fn a_run_killed_while_its_file_gets_its_name_is_completed() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    for kind in ["npy", "jsonl"] {
        let sandbox = sandbox();
        let main = format!("out.{kind}");
        let line = format!("in.jsonl --on-error skip --rejects rejects.jsonl -o {main} --resume");
        code(&sandbox.embed(&line), 3);
        let whole = files(&sandbox.path("."));
        let is_written = |name: &&String| name.starts_with("out.") || *name == "rejects.jsonl";
        let mut names: Vec<String> = whole.iter().filter(is_written).cloned().collect();
        names.sort_by_key(|name| *name == main);
        assert!(names.len() > 2 && names.last() == Some(&main), "{names:?}");
        for named in 0..names.len() {
            let member = |(index, name): (usize, &String)| {
                let new = format!(".{name}.embedctl-17-0123456789abcdef.tmp");
                let inode = fs::metadata(sandbox.path(name)).unwrap().ino();
                if index >= named {
                    fs::rename(sandbox.path(name), sandbox.path(&new)).unwrap();
                }
                serde_json::json!({
                    "new": new, "inode": inode, "name": name, "old": format!(".{name}.old"),
                    "kept": format!("{name}.unpublished"),
                })
            };
            let members: Vec<Value> = names.iter().enumerate().map(member).collect();
            let plan = serde_json::json!({"replace": false, "files": members});
            let path = format!(".{main}.embedctl-publishing");
            sandbox.write(&path, plan.to_string());
            fs::set_permissions(sandbox.path(&path), fs::Permissions::from_mode(0o600)).unwrap();
            let done = sandbox.embed(&line);
            assert!(code(&done, 3).stderr.contains("nothing to do"), "{done}");
            assert!(done.stderr.contains("was stopped while"), "{done}");
            assert_eq!(files(&sandbox.path(".")), whole, "{kind}, {named}");
        }
    }
}

#[test]
fn standard_input_is_read_again() {
    let sandbox = sandbox();
    let input = fs::read(sandbox.path("in.jsonl")).unwrap();
    let line = "-i jsonl -f jsonl -o out/ --part-rows 2";
    let failed = sandbox.run_with_input(&mut sandbox.embed_command(line), &input);
    assert!(
        code(&failed, 1)
            .stderr
            .contains("4 rows in 2 parts are safe"),
        "{failed}"
    );
    let line = format!("{line} --resume --on-error skip");
    let other = sandbox.run_with_input(&mut sandbox.embed_command(&line), &input[1..]);
    assert!(code(&other, 2).stderr.contains("records differ"), "{other}");
    let done = sandbox.run_with_input(&mut sandbox.embed_command(&line), &input);
    code(&done, 3);
    let ids: Vec<Value> = (0..4)
        .flat_map(|part| {
            let part = sandbox.path(&format!("out/part-00001-0000{part}.jsonl"));
            let text = fs::read_to_string(part).unwrap();
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 7, 8]);
}

#[test]
fn a_run_that_goes_on_enters_where_it_was() {
    let sandbox = sandbox();
    code(&sandbox.embed("in.jsonl -f jsonl -o out/ --part-rows 2"), 1);
    let part = json(&sandbox.path("_out.embedctl/commits/part-00001-00001.json"));
    assert_eq!(
        (&part["position"]["seek"], &part["position"]["lines"]),
        (&"byte".into(), &4.into())
    );
    let done = "in.jsonl -f jsonl -o out/ --part-rows 2 --on-error skip --resume";
    code(&sandbox.embed(done), 3);
    code(&sandbox.embed("in.jsonl -o plain.jsonl --on-error skip"), 3);
    assert!(joined(&sandbox, "out") == fs::read_to_string(sandbox.path("plain.jsonl")).unwrap());
    let end = json(&sandbox.path("_out.embedctl/shards/00001.json"));
    // The hash over everything is that of a run that has read everything.
    code(
        &sandbox.embed("in.jsonl -f jsonl -o whole/ --part-rows 2 --on-error skip"),
        3,
    );
    assert_eq!(
        end,
        json(&sandbox.path("_whole.embedctl/shards/00001.json"))
    );
}

#[test]
fn what_cannot_be_meant() {
    let sandbox = sandbox();
    for (line, said) in [
        ("in.jsonl -o out.npy --part-rows 3", "needs a folder"),
        ("in.jsonl -o - --resume", "standard output"),
        ("in.jsonl -o out.npy --shard 1/2", "write -o out.npy/"),
        ("in.jsonl -o out/ --shard 3/2", "I from 1 to N"),
        ("-o out/ --shard 1/2", "a pipe cannot be divided"),
        (
            "in.jsonl -o out/ --shard 1/2 --limit 3",
            "--limit 3: a shard does not know",
        ),
        (
            "in.jsonl -o out/ --shard 1/2 --sample 3",
            "leave --sample out",
        ),
        (
            "in.jsonl -o out/ --shard 1/2 --keep year",
            "`--keep year:string`",
        ),
        (
            "in.jsonl -o out/ --on-error skip --rejects r.jsonl",
            "_out.embedctl/rejects",
        ),
        ("in.jsonl -o .", "lies in the folder"),
    ] {
        let run = sandbox.embed(line);
        assert!(code(&run, 2).stderr.contains(said), "{run}");
    }
    // Before a model is looked for.
    for option in ["--limit 3", "--sample 3"] {
        let line = format!("in.jsonl -o out/ --shard 1/2 {option} --model org/none --offline");
        let run = sandbox.embed(&line);
        assert!(code(&run, 2).stderr.contains("a shard does not"), "{run}");
    }
    // Nor is anything left of a run whose model is not there.
    let run = sandbox.embed("in.jsonl -o out.npy --resume --model ./none");
    assert!(run.stderr.contains("./none"), "{run}");
    assert_eq!(sandbox.files(), ["in.jsonl"]);
    // Readers of a folder look into others in it, unless these are called so.
    for folder in ["seen/sub", "taken/_own"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
        sandbox.write(&format!("{folder}/a.parquet"), "");
    }
    let run = sandbox.embed("in.jsonl --limit 3 -o seen/");
    let said = &code(&run, 2).stderr;
    assert!(said.contains("holds sub/a.parquet"), "{run}");
    code(&sandbox.embed("in.jsonl --limit 3 -o taken/"), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_embedded() {
    use std::io::{Read, Write};
    use std::process::Stdio;

    let sandbox = sandbox();
    let mut command = sandbox.embed_command("-o out/ -f jsonl --window 1");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\nthree\n").unwrap();
    // A part is begun with its first row.
    let begun = sandbox.path("_out.embedctl/shard-00001.scratch");
    let is_begun = || {
        let entries = fs::read_dir(&begun).into_iter().flatten().flatten();
        let mut parts =
            entries.filter(|it| it.file_name().to_string_lossy().contains("part-00001"));
        parts.any(|it| it.metadata().is_ok_and(|it| it.len() > 0))
    };
    while !is_begun() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let status = child.wait().unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    drop(stdin);
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(
        said.contains("in 1 part are safe; resume with the same standard input and: "),
        "{said}"
    );
    assert!(said.contains("embedctl embed --resume"), "{said}");
    let line = "-o out/ -f jsonl --window 1 --resume";
    let done = sandbox.run_with_input(&mut sandbox.embed_command(line), b"one\ntwo\nthree\n");
    code(&done, 0);
    let manifest = json(&sandbox.path("_out.embedctl/manifest.json"));
    assert_eq!(manifest["rows"], 3);
}

/// Reads folders of parts as one table, three times over.
const READERS: &str = "
import glob, json, sys
import duckdb, numpy, polars
import pyarrow.dataset as dataset
ids = [1, 2, 3, 4, 5, 7, 8]
table = dataset.dataset('parquet', format='parquet').to_table()
assert table['id'].to_pylist() == ids, table['id']
rows = duckdb.sql(\"select id from 'parquet/*.parquet' order by id\").fetchall()
assert [row[0] for row in rows] == ids, rows
frame = polars.read_parquet('parquet')
assert frame['id'].to_list() == ids, frame
assert polars.scan_parquet('parquet/').collect().equals(frame)
assert polars.read_parquet('parquet/*.parquet').equals(frame)
assert frame['id'].to_list() == ids and frame['year'].to_list()[0] == 1, frame
lines = polars.read_ndjson(sorted(glob.glob('jsonl/*.jsonl')))
assert lines['id'].to_list() == ids, lines
assert polars.scan_ndjson('jsonl').collect().equals(lines)
for pattern in ['jsonl/*.jsonl', 'jsonl/*', 'jsonl/**/*.json*']:
    rows = duckdb.sql(f\"select id from read_json('{pattern}', format='newline_delimited') order by id\").fetchall()
    assert [row[0] for row in rows] == ids or [str(row[0]) for row in rows] == ids, rows
rows = duckdb.sql(\"select id from 'parquet/**/*.parquet' order by id\").fetchall()
assert [row[0] for row in rows] == ids, rows
matrix = numpy.concatenate([numpy.load(part) for part in sorted(glob.glob('npy/*.npy'))])
assert matrix.shape == (7, 48), matrix.shape
vectors = numpy.array(frame['embedding'].to_list(), dtype=numpy.float32)
assert (matrix == vectors).all()
";

#[test]
fn others_read_a_folder_as_one_table() {
    let modules = ["pyarrow", "duckdb", "polars", "numpy"];
    let Some(python) = support::python("others_read_a_folder_as_one_table", &modules) else {
        return;
    };
    let sandbox = sandbox();
    for format in ["parquet", "jsonl", "npy"] {
        let line =
            format!("in.jsonl --on-error skip -f {format} -o {format}/ --part-rows 3 --keep year");
        code(&sandbox.embed(&line), 3);
    }
    let mut command = Command::new(python);
    command.args(["-c", READERS]).current_dir(sandbox.path("."));
    let run = sandbox.finish(&mut command);
    code(&run, 0);
}
