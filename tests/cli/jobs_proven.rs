//! Outputs that were changed from outside: `--resume`, `inspect` and `--reuse` say so, and never take wrong rows.

use std::fs;

use sha2::{Digest, Sha256};

use crate::jobs::{self, code, files, json};
use crate::sandbox::{Run, Sandbox};
use embedctl_testing::stride;

const INPUT: &str = "in.jsonl --keep text --part-rows 20 --window 20";

/// Sixty texts, in an output of three parts.
fn sandbox(line: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let text = |n: usize| format!("{{\"id\": {n}, \"text\": \"text number {n}\"}}\n");
    sandbox.write("in.jsonl", (10..70).map(text).collect::<String>());
    code(&sandbox.embed(&format!("{INPUT} {line}")), 0);
    sandbox
}

fn assert_told(run: &Run, option: &str, name: &str) {
    assert!(
        ![Some(0), Some(101)].contains(&run.code),
        "{option} {name}: {run}"
    );
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains(name), "{option} {name}: {run}");
}

#[test]
fn a_disturbed_folder_is_told_by_whoever_reads_it() {
    for format in ["jsonl", "npy", "arrow", "parquet"]
        .into_iter()
        .step_by(stride(2))
    {
        let sandbox = sandbox(&format!("-o out/ -f {format}"));
        let part = |number: u32| format!("out/part-00001-0000{number}.{format}");
        let texts = |number: u32| format!("_out.embedctl/texts/part-00001-0000{number}.sha256");
        let read = |name: &str| fs::read(sandbox.path(name)).unwrap();
        let (first, second) = (read(&part(0)), read(&part(1)));
        let middle = first.len() / 2;
        let flipped = [&first[..middle], &[first[middle] ^ 1], &first[middle + 1..]].concat();
        let lists = (read(&texts(0)), read(&texts(1)));
        for (changed, said) in [
            (vec![(part(0), &first[..middle])], part(0)),
            (vec![(part(0), &flipped[..])], part(0)),
            (vec![(part(0), &second[..])], part(0)),
            (vec![(part(0), &second[..]), (part(1), &first[..])], part(0)),
            (
                vec![(texts(0), &lists.1[..]), (texts(1), &lists.0[..])],
                texts(0),
            ),
        ] {
            for (name, content) in &changed {
                sandbox.write(name, content);
            }
            let run = sandbox.run("inspect out/");
            assert_told(&run, "inspect", &said);
            fs::remove_file(sandbox.path("new.jsonl")).ok();
            let run = sandbox.embed("in.jsonl -o new.jsonl --reuse out/");
            assert_told(&run, "--reuse", &said);
            assert!(!sandbox.path("new.jsonl").exists());
            // A resumed run does not read the lists of texts.
            if !said.contains("texts") {
                let run = sandbox.embed(&format!("{INPUT} -o out/ -f {format} --resume"));
                assert_told(&run, "--resume", &said);
                assert!(run.stderr.contains("--resume"), "{run}");
            }
            for (name, content) in [(part(0), &first), (part(1), &second)] {
                sandbox.write(&name, content);
            }
            sandbox.write(&texts(0), &lists.0);
            sandbox.write(&texts(1), &lists.1);
        }
        // Put back, it is as it was; and a part that was removed is made anew.
        code(&sandbox.run("inspect out/"), 0);
        fs::remove_file(sandbox.path(&part(0))).unwrap();
        code(
            &sandbox.embed(&format!("{INPUT} -o out/ -f {format} --resume")),
            0,
        );
        assert!(["parquet", "arrow"].contains(&format) || read(&part(0)) == first);
        code(&sandbox.run("inspect out/"), 0);
    }
}

#[test]
fn a_disturbed_file_is_told_by_whoever_reads_it() {
    let formats = [
        "jsonl",
        "jsonl.zst",
        "npy",
        "fbin",
        "arrow",
        "arrows",
        "parquet",
    ];
    for format in formats.into_iter().step_by(stride(3)) {
        let out = format!("out.{format}");
        let sandbox = Sandbox::new();
        let text = |n: usize| format!("{{\"id\": {n}, \"text\": \"text number {n}\"}}\n");
        sandbox.write("in.jsonl", (10..70).map(text).collect::<String>());
        let line = format!("in.jsonl --keep text -o {out} --resume");
        code(&sandbox.embed(&line), 0);
        let good = fs::read(sandbox.path(&out)).unwrap();
        // Values of the first and the last row; of all formats the middle is one of the vectors.
        let (header, row) = match format {
            "npy" => (128, (good.len() - 128) / 60),
            "fbin" => (8, (good.len() - 8) / 60),
            _ => (0, 0),
        };
        let mut middle = good.clone();
        middle[good.len() / 2] ^= 1;
        let mut damaged = vec![middle, good[..good.len() - 1].to_vec()];
        if row > 0 {
            let rows = good[header..].chunks(row).rev().flatten().copied();
            damaged.push(good[..header].iter().copied().chain(rows).collect());
        }
        for content in damaged {
            sandbox.write(&out, &content);
            assert_told(&sandbox.run(&format!("inspect {out}")), "inspect", &out);
            assert_told(&sandbox.embed(&line), "--resume", &out);
            let run = sandbox.embed(&format!("in.jsonl -o new.jsonl --reuse {out}"));
            assert_told(&run, "--reuse", &out);
            assert!(!sandbox.path("new.jsonl").exists());
        }
        sandbox.write(&out, &good);
        code(&sandbox.run(&format!("inspect {out}")), 0);
        code(
            &sandbox.embed(&format!("in.jsonl -o new.jsonl --reuse {out}")),
            0,
        );
    }
}

/// Commits as an older version wrote them, without hashes: their parts are read, and that is said.
#[test]
fn parts_of_an_older_version_are_read_and_told() {
    let sandbox = sandbox("-o out/ -f npy");
    for number in 0..3 {
        let name = format!("_out.embedctl/commits/part-00001-0000{number}.json");
        let text = fs::read_to_string(sandbox.path(&name)).unwrap();
        let mut commit: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys = commit.as_object_mut().unwrap();
        for key in ["files", "sha256", "texts_sha256", "sum"] {
            assert!(keys.shift_remove(key).is_some(), "{key}: {text}");
        }
        let sum = Sha256::digest(commit.to_string());
        let digits = sum.iter().map(|byte| format!("{byte:02x}"));
        commit["sum"] = digits.collect::<String>().into();
        sandbox.write(&name, commit.to_string());
    }
    let said = "which kept no hashes";
    let run = sandbox.embed(&format!("{INPUT} -o out/ -f npy --resume"));
    assert!(code(&run, 0).stderr.contains(said), "{run}");
    let run = sandbox.embed("in.jsonl -o new.jsonl --reuse out/");
    assert!(code(&run, 0).stderr.contains(said), "{run}");
    let run = sandbox.run("inspect out/");
    assert!(
        code(&run, 0).stdout.contains("written by an older version"),
        "{run}"
    );
}

// Lists of rejected records, and what says that an output is complete.

/// A folder of parts of eight lines; the sixth was not a valid record.
fn rejected(line: &str) -> Sandbox {
    let sandbox = jobs::sandbox();
    code(&sandbox.embed(line), 3);
    sandbox
}

const LINE: &str = "in.jsonl --on-error skip -o out/ -f jsonl --part-rows 3 --keep year";

#[test]
fn a_damaged_manifest_is_told() {
    let sandbox = rejected(LINE);
    code(&sandbox.run("inspect out/"), 0);
    let path = sandbox.path("_out.embedctl/manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("\"records\": 8", "\"records\": 7", 1)).unwrap();
    let found = sandbox.run("inspect out/");
    let said = "_out.embedctl/manifest.json is missing or not as it was written";
    assert!(code(&found, 1).stdout.contains(said), "{found}");
    code(&sandbox.embed(&format!("{LINE} --resume")), 3);
    assert!(fs::read_to_string(&path).unwrap() == whole);
    code(&sandbox.run("inspect out/"), 0);
}

#[test]
fn a_list_of_rejects_that_is_not_as_it_was_is_told() {
    let list = "_out.embedctl/rejects/part-00001-00001.jsonl";
    for format in ["jsonl", "npy", "parquet"] {
        let line = format!("in.jsonl --on-error skip -o out/ -f {format} --part-rows 3");
        let sandbox = rejected(&line);
        let before = files(&sandbox.path("out"));
        fs::remove_file(sandbox.path(list)).unwrap();
        let run = sandbox.embed(&format!("{line} --resume"));
        let said = &code(&run, 1).stderr;
        assert!(said.contains(&format!("{list}: is missing")), "{run}");
        assert!(said.contains("remove out/part-00001-00001."), "{run}");
        let run = sandbox.run("inspect out/");
        assert!(code(&run, 1).stdout.contains(list), "{run}");
        // The remedy.
        let part = format!("out/part-00001-00001.{format}");
        fs::remove_file(sandbox.path(&part)).unwrap();
        code(&sandbox.embed(&format!("{line} --resume")), 3);
        assert_eq!(files(&sandbox.path("out")), before);
        code(&sandbox.run("inspect out/"), 0);
    }
}

#[test]
fn parts_of_a_run_at_work_stay() {
    let line = "in.jsonl --on-error skip --keep text -o out.npy --resume";
    let sandbox = rejected(line);
    let parts = sandbox.path("out.npy.parts");
    // The remains of a killed run, as far as it got.
    code(
        &sandbox.embed("in.jsonl --keep text -o other.npy --resume --window 1"),
        1,
    );
    fs::rename(sandbox.path("other.npy.parts"), &parts).unwrap();
    let lock = fs::File::create(parts.join("_embedctl/shard-00001")).unwrap();
    lock.lock().unwrap();
    for is_held in [true, false] {
        let done = sandbox.embed(line);
        let said = &code(&done, 3).stderr;
        assert!(said.contains("the output is complete\n"), "{done}");
        assert_eq!(parts.exists(), is_held);
        lock.unlock().unwrap();
    }
}

#[test]
fn force_starts_anew_whatever_the_folder_says() {
    let sandbox = rejected(LINE);
    let before = files(&sandbox.path("out"));
    sandbox.write("_out.embedctl/job.json", "{");
    let run = sandbox.embed(&format!("{LINE} --resume"));
    assert!(code(&run, 1).stderr.contains("with --force"), "{run}");
    code(&sandbox.embed(&format!("{LINE} --force")), 3);
    assert_eq!(files(&sandbox.path("out")), before);
}

#[test]
fn a_part_of_an_older_build_without_the_hash_of_its_rejects_is_told() {
    let sandbox = rejected(LINE);
    let part = sandbox.of_job("out", "part-00001-00001.jsonl.json");
    let mut said = json(&part);
    let hashes = said["sha256"].as_object_mut().unwrap();
    hashes.shift_remove("provenance").unwrap();
    let own = said["part"].as_object_mut().unwrap();
    for key in ["rejects_sha256", "texts_sha256", "sum"] {
        own.shift_remove(key).unwrap();
    }
    let sum = Sha256::digest(said["part"].to_string());
    let digits = sum.iter().map(|byte| format!("{byte:02x}"));
    said["part"]["sum"] = digits.collect::<String>().into();
    fs::write(&part, said.to_string()).unwrap();
    fs::remove_file(sandbox.path("_out.embedctl/commits/part-00001-00001.json")).unwrap();
    let run = sandbox.embed(&format!("{LINE} --resume"));
    let said = &code(&run, 1).stderr;
    assert!(said.contains("an older build made it"), "{run}");
}

/// A run that was killed besides another one leaves lists and files under its own tag.
#[test]
fn what_a_killed_run_has_left_besides_a_complete_output_goes_with_the_next() {
    let sandbox = sandbox("-o out/ -f npy");
    let (tag, hash) = ("0123456789abcdef", "fedcba9876543210");
    let left = [
        format!("_out.embedctl/beside/part-00001-00000.{tag}.{hash}.npy.rows.jsonl"),
        format!("_out.embedctl/texts/part-00001-00001.{tag}.sha256"),
        format!("_out.embedctl/rejects/part-00001-00002.{tag}.jsonl"),
    ];
    let before = files(&sandbox.path("out"));
    for name in &left {
        fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
        sandbox.write(name, "left");
    }
    let run = sandbox.embed(&format!("{INPUT} -o out/ -f npy --resume"));
    assert!(
        code(&run, 0).stderr.contains("the output is complete"),
        "{run}"
    );
    assert_eq!(files(&sandbox.path("out")), before);
}
