//! `embedctl embed --retry-rejects`: rejected records read again, mended or under other limits.

use std::fs;

use sha2::{Digest, Sha256};

use crate::jobs::{code, files, json, sandbox};
use crate::sandbox::Sandbox;

/// A folder of parts of eight records, of which the sixth was none.
fn rejected(line: &str) -> Sandbox {
    let sandbox = sandbox();
    code(&sandbox.embed(line), 3);
    sandbox
}

const LINE: &str = "in.jsonl --on-error skip -o out/ -f jsonl --part-rows 3 --keep year";

fn mend(sandbox: &Sandbox, from: &str, to: &str) {
    let input = fs::read_to_string(sandbox.path("in.jsonl")).unwrap();
    assert!(input.contains(from));
    sandbox.write("in.jsonl", input.replacen(from, to, 1));
}

const MENDED: &str = r#"{"id": 6, "text": "text 6", "year": 6}"#;

#[test]
fn mended_records_become_a_part() {
    let sandbox = rejected(LINE);
    let before = files(&sandbox.path("out"));
    // Nothing was mended: nothing changes.
    let again = sandbox.embed(&format!("{LINE} --retry-rejects"));
    let said = &code(&again, 3).stderr;
    assert!(
        said.contains("1 record read = 0 embedded + 1 rejected"),
        "{again}"
    );
    assert_eq!(files(&sandbox.path("out")), before);

    mend(&sandbox, "no JSON", MENDED);
    let again = sandbox.embed(&format!("{LINE} --retry-rejects"));
    let said = &code(&again, 0).stderr;
    assert!(
        said.contains("1 record read = 1 embedded + 0 rejected"),
        "{again}"
    );
    let mut after = files(&sandbox.path("out"));
    after.retain(|file| !before.contains(file));
    assert_eq!(
        after,
        [
            "_embedctl/commits/part-00001-00003.json",
            "_embedctl/rejected.jsonl",
            "_embedctl/retried/part-00001-00003.jsonl",
            "_embedctl/texts/part-00001-00003.sha256",
            "part-00001-00003.jsonl",
            "part-00001-00003.jsonl.json",
        ]
    );
    let row = fs::read_to_string(sandbox.path("out/part-00001-00003.jsonl")).unwrap();
    assert!(
        row.starts_with(r#"{"id":"6","year":6,"#) && row.lines().count() == 1,
        "{row}"
    );
    // The vector is the one that an undisturbed run gives.
    code(&sandbox.embed("in.jsonl -o whole.jsonl --keep year"), 0);
    let whole = fs::read_to_string(sandbox.path("whole.jsonl")).unwrap();
    assert!(whole.contains(row.trim_end()));
    let manifest = json(&sandbox.path("out/_embedctl/manifest.json"));
    let counts = ["records", "rows", "rejected"].map(|key| manifest[key].as_u64().unwrap());
    assert_eq!(counts, [8, 8, 0]);
    assert_eq!(
        fs::read(sandbox.path("out/_embedctl/rejected.jsonl")).unwrap(),
        b""
    );
    code(&sandbox.run("inspect out"), 0);
    // Nothing is left, for either option.
    for option in ["--retry-rejects", "--resume"] {
        let done = sandbox.embed(&format!("{LINE} {option}"));
        assert!(code(&done, 0).stderr.contains("nothing to do"), "{done}");
    }
}

#[test]
fn a_run_killed_between_its_part_and_its_completion_is_completed() {
    let sandbox = rejected(LINE);
    mend(&sandbox, "no JSON", MENDED);
    code(&sandbox.embed(&format!("{LINE} --retry-rejects")), 0);
    let whole = files(&sandbox.path("out"));
    for option in ["--retry-rejects", "--resume"] {
        for gone in [
            "_SUCCESS",
            "_embedctl/manifest.json",
            "_embedctl/rejected.jsonl",
        ] {
            fs::remove_file(sandbox.path("out").join(gone)).unwrap();
        }
        code(&sandbox.embed(&format!("{LINE} {option}")), 0);
        assert_eq!(files(&sandbox.path("out")), whole);
    }
}

#[test]
fn other_records_must_be_as_they_were() {
    for keeps in ["", " --chunk tokens --chunk-tokens 3"] {
        let line = format!("{LINE}{keeps}");
        for (from, to) in [
            ("text 7", "text 9"), // another record
            ("no JSON\n", ""),    // a line less: another record in its place
            ("text 2\"", "text 2 and more\""),
        ] {
            let sandbox = rejected(&line);
            let before = files(&sandbox.path("out"));
            mend(&sandbox, from, to);
            let refused = sandbox.embed(&format!("{line} --retry-rejects"));
            let said = &code(&refused, 2).stderr;
            assert!(
                said.contains("--retry-rejects: in.jsonl:")
                    && said.contains("mend rejected records in their lines"),
                "{refused}"
            );
            assert_eq!(files(&sandbox.path("out")), before);
        }
        let sandbox = rejected(&line);
        mend(&sandbox, "no JSON", MENDED);
        code(&sandbox.embed(&format!("{line} --retry-rejects")), 0);
    }
}

#[test]
fn another_limit_lets_a_record_in() {
    let sandbox = Sandbox::new();
    let long = "many words ".repeat(30);
    let lines: String = (0..40)
        .map(|line| {
            if line % 20 == 7 {
                format!("{long}\n")
            } else {
                format!("text {line}\n")
            }
        })
        .collect();
    sandbox.write("in.txt", lines);
    for shard in [1, 2] {
        let line =
            format!("in.txt --on-error skip -o out/ --shard {shard}/2 --max-record-bytes 100");
        code(&sandbox.embed(&line), 3);
    }
    for (shard, rejected) in [(2, 3), (1, 0)] {
        let line = format!("in.txt --on-error skip -o out/ --shard {shard}/2 --retry-rejects");
        code(&sandbox.embed(&line), 0);
        assert!(sandbox.path("out/_SUCCESS").exists());
        let manifest = json(&sandbox.path("out/_embedctl/manifest.json"));
        assert_eq!(
            manifest["rejected"].as_u64(),
            Some(if rejected > 0 { 1 } else { 0 })
        );
        let left = fs::read_to_string(sandbox.path("out/_embedctl/rejected.jsonl")).unwrap();
        assert_eq!(left.contains("\"line\":8"), rejected > 0);
    }
    let manifest = json(&sandbox.path("out/_embedctl/manifest.json"));
    assert_eq!(
        (&manifest["records"], &manifest["rows"]),
        (&40.into(), &40.into())
    );
}

#[test]
fn what_cannot_be_tried_again() {
    let sandbox = sandbox();
    let failed = sandbox.embed("in.jsonl -o unfinished/ --window 1");
    code(&failed, 1);
    code(&sandbox.embed(LINE), 3);
    let run = sandbox.embed("in.jsonl --on-error null -o null/");
    assert!(
        code(&run, 3).stderr.contains("write the output anew"),
        "{run}"
    );
    for (line, said) in [
        ("in.jsonl -o out.npy", "holds no output whose records"),
        (
            "in.jsonl -o s3://b/out.npy",
            "write parts to s3://b/out.npy/",
        ),
        ("in.jsonl -o -", "standard output"),
        ("in.jsonl -o none/", "leave the option out"),
        ("in.jsonl -o unfinished/", "finish it with --resume first"),
        ("in.jsonl -o null/ --on-error null", "is a row already"),
        (
            "in.jsonl -o null/ --on-error skip",
            "nullable (true then, false now)",
        ),
        (
            "in.jsonl -o out/ --on-error skip --force",
            "cannot be used with",
        ),
        (
            &format!("{LINE} --prompt p"),
            "prompt (\"\" then, \"p\" now)",
        ),
    ] {
        let run = sandbox.embed(&format!("{line} --retry-rejects"));
        assert!(code(&run, 2).stderr.contains(said), "{run}");
    }
}

/// What was read then is read again, not more and not less of it.
#[test]
fn all_rejected_records_are_tried_again_or_none() {
    for output in ["-o out/", "-o out.jsonl --keep text"] {
        for (then, now, said) in [
            (
                "",
                "--limit 7",
                "was made without --limit, not with --limit 7; leave --limit out",
            ),
            (
                "--limit 7",
                "--limit 2",
                "with --limit 7, not with --limit 2; give --limit 7",
            ),
            (
                "--limit 7",
                "",
                "with --limit 7, not without --limit; give --limit 7",
            ),
            (
                "--sample 8 --seed 3",
                "--sample 8",
                "with --seed 3, not with --seed 0",
            ),
        ] {
            let line = format!("in.jsonl --on-error skip {output}");
            let sandbox = rejected(&format!("{line} {then} --resume"));
            let before = sandbox.files();
            let refused = sandbox.embed(&format!("{line} {now} --retry-rejects"));
            let told = &code(&refused, 2).stderr.replace("\nhint: ", "; ");
            assert!(told.contains(said), "{refused}");
            assert_eq!(sandbox.files(), before);
            mend(&sandbox, "no JSON", MENDED);
            code(&sandbox.embed(&format!("{line} {then} --retry-rejects")), 0);
        }
    }
}

/// Among more records than were drawn.
#[test]
fn records_that_were_drawn_are_found_again() {
    let sandbox = Sandbox::new();
    let good = |n: u32| format!("{{\"id\": \"{n}\", \"text\": \"text {n}\"}}\n");
    sandbox.write("a.jsonl", (0..20).map(good).collect::<String>());
    let long = good(30).replace("text 30", &"long ".repeat(40));
    sandbox.write("b.jsonl", long.repeat(60));
    let line = "a.jsonl b.jsonl --sample 20 --on-error skip -o out/";
    let first = sandbox.embed(&format!("{line} --max-record-bytes 100"));
    code(&first, 3);
    let again = sandbox.embed(&format!("{line} --retry-rejects"));
    code(&again, 0);
    let manifest = json(&sandbox.path("out/_embedctl/manifest.json"));
    assert_eq!(
        (&manifest["records"], &manifest["rows"]),
        (&20.into(), &20.into())
    );
}

/// What counts is the input as it was when records were last tried again.
#[test]
fn an_input_of_before_the_last_mending_is_another() {
    let sandbox = sandbox();
    mend(&sandbox, "\"text\": \"text 4\"", "no text");
    code(&sandbox.embed(LINE), 3);
    let mut inputs = Vec::new();
    for (from, to, left) in [
        ("no text", "\"text\": \"the fourth text\"", 3),
        ("no JSON", MENDED, 0),
    ] {
        mend(&sandbox, from, to);
        inputs.push(fs::read(sandbox.path("in.jsonl")).unwrap());
        code(&sandbox.embed(&format!("{LINE} --retry-rejects")), left);
    }
    for (input, status, said) in [
        (&inputs[0], 2, "input_sizes ("),
        (&inputs[1], 0, "nothing to do"),
    ] {
        sandbox.write("in.jsonl", input);
        let run = sandbox.embed(&format!("{LINE} --resume"));
        assert!(code(&run, status).stderr.contains(said), "{run}");
    }
}

/// Somebody removes the part that records became which were tried again: they are rejected once more.
#[test]
fn a_removed_part_of_records_that_were_tried_again_is_seen() {
    let sandbox = rejected(LINE);
    let before = files(&sandbox.path("out"));
    mend(&sandbox, "no JSON", MENDED);
    code(&sandbox.embed(&format!("{LINE} --retry-rejects")), 0);
    let after = files(&sandbox.path("out"));
    fs::remove_file(sandbox.path("out/part-00001-00003.jsonl")).unwrap();
    let found = sandbox.run("inspect out/");
    let said = "part-00001-00003.jsonl is named by the manifest, and is not there";
    assert!(code(&found, 1).stdout.contains(said), "{found}");

    let resumed = sandbox.embed(&format!("{LINE} --resume"));
    let said = "out/ lacks 1 record that --retry-rejects had embedded, since that part was removed";
    assert!(code(&resumed, 3).stderr.contains(said), "{resumed}");
    // All that is left is what the parts say.
    let mut left = files(&sandbox.path("out"));
    left.retain(|name| !name.starts_with("part-00001-00003"));
    assert_eq!(left, before);
    let manifest = json(&sandbox.path("out/_embedctl/manifest.json"));
    let counts = ["records", "rows", "rejected"].map(|key| manifest[key].as_u64().unwrap());
    assert_eq!(counts, [8, 7, 1]);
    code(&sandbox.run("inspect out/"), 0);
    // From now on nobody knows that the input is as it was but for what was mended, before it is compared.
    let resumed = sandbox.embed(&format!("{LINE} --resume"));
    let said = "give --retry-rejects where rejected records were mended";
    assert!(code(&resumed, 2).stderr.contains(said), "{resumed}");
    code(&sandbox.embed(&format!("{LINE} --retry-rejects")), 0);
    assert_eq!(files(&sandbox.path("out")), after);
    // The manifest and the list follow from the parts, too.
    for spoiled in ["_embedctl/manifest.json", "_embedctl/rejected.jsonl"] {
        fs::remove_file(sandbox.path("out").join(spoiled)).unwrap();
        code(&sandbox.embed(&format!("{LINE} --resume")), 0);
        assert_eq!(files(&sandbox.path("out")), after, "{spoiled}");
    }
}

#[test]
fn a_damaged_manifest_is_told() {
    let sandbox = rejected(LINE);
    code(&sandbox.run("inspect out/"), 0);
    let path = sandbox.path("out/_embedctl/manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("\"records\": 8", "\"records\": 7", 1)).unwrap();
    let found = sandbox.run("inspect out/");
    let said = "_embedctl/manifest.json is missing or not as it was written";
    assert!(code(&found, 1).stdout.contains(said), "{found}");
    code(&sandbox.embed(&format!("{LINE} --resume")), 3);
    assert!(fs::read_to_string(&path).unwrap() == whole);
    code(&sandbox.run("inspect out/"), 0);
}

/// A run that is refused takes nothing away that another has left.
#[test]
fn another_limit_of_a_file_is_refused_before_anything_is_made() {
    let line = "in.jsonl --on-error skip --keep text -o out.npy";
    let sandbox = rejected(&format!("{line} --resume"));
    let parts = sandbox.path("out.npy.parts");
    code(
        &sandbox.embed("in.jsonl --keep text -o other.npy --resume --window 1"),
        1,
    );
    fs::rename(sandbox.path("other.npy.parts"), &parts).unwrap();
    let before = files(&parts);
    let run = sandbox.embed(&format!("{line} --retry-rejects --limit 7"));
    assert!(code(&run, 2).stderr.contains("leave --limit out"), "{run}");
    assert_eq!(files(&parts), before);
}

#[test]
fn a_file_is_written_anew_with_the_vectors_that_it_has() {
    for name in ["out.jsonl", "out.npy", "out.parquet"] {
        let line = format!("in.jsonl --on-error skip --keep text,year -o {name}");
        let first = format!("{line} --rejects rejects.jsonl --resume");
        let again = format!("{line} --rejects rejects.jsonl --retry-rejects --stats stats.json");
        let sandbox = rejected(&first);
        let stats = |key: &str| json(&sandbox.path("stats.json"))[key].as_u64().unwrap();
        // Nothing was mended.
        code(&sandbox.embed(&again), 3);
        assert_eq!([stats("reused"), stats("rejected")], [7, 1]);
        let before = sandbox.files();
        // What fails leaves the file as it was, and is no harm to the next.
        let bytes = |name: &str| fs::read(sandbox.path(name)).unwrap();
        let old = bytes(name);
        let failed = sandbox.embed(
            &again
                .replace("skip", "fail")
                .replace("--rejects rejects.jsonl", ""),
        );
        assert!(!code(&failed, 1).stderr.contains("safe"), "{failed}");
        assert!(bytes(name) == old);
        assert_eq!(sandbox.files(), before);

        mend(&sandbox, "no JSON", MENDED);
        code(&sandbox.embed(&again), 0);
        assert_eq!([stats("reused"), stats("embedded")], [7, 8]);
        assert_eq!(sandbox.files(), before);
        assert_eq!(bytes("rejects.jsonl"), b"");
        // As an undisturbed run writes it, but for what stands in the provenance.
        code(
            &sandbox.embed(&format!("in.jsonl --keep text,year -o whole-{name}")),
            0,
        );
        assert!(name == "out.parquet" || bytes(name) == bytes(&format!("whole-{name}")));
        for option in ["--retry-rejects", "--resume"] {
            let done = sandbox.embed(&format!("{line} {option}"));
            assert!(code(&done, 0).stderr.contains("nothing to do"), "{done}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_anew_is_left_alone() {
    let line = "in.jsonl --on-error skip -o";
    let sandbox = rejected(&format!("{line} out.npy --resume --keep text"));
    code(&sandbox.embed(&format!("{line} bare.npy --resume")), 3);
    code(&sandbox.embed(&format!("{line} plain.npy --keep text")), 3);
    let before = sandbox.files();
    for (more, said) in [
        (
            "out.npy --keep text --prompt p",
            "prompt (\"\" then, \"p\" now)",
        ),
        ("out.npy", "keep ("),
        ("out.npy --keep text --reuse plain.npy", "leave --reuse out"),
        ("bare.npy", "neither the hashes of its texts"),
        ("plain.npy --keep text", "--force --reuse plain.npy"),
    ] {
        let run = sandbox.embed(&format!("{line} {more} --retry-rejects"));
        assert!(code(&run, 2).stderr.contains(said), "{run}");
    }
    assert_eq!(sandbox.files(), before);
}

#[test]
fn a_list_of_rejects_that_is_not_as_it_was_is_told() {
    let list = "_embedctl/rejects/part-00001-00001.jsonl";
    for format in ["jsonl", "npy", "parquet"] {
        let line = format!("in.jsonl --on-error skip -o out/ -f {format} --part-rows 3");
        let sandbox = rejected(&line);
        let before = files(&sandbox.path("out"));
        fs::remove_file(sandbox.path("out").join(list)).unwrap();
        for option in ["--resume", "--retry-rejects"] {
            let run = sandbox.embed(&format!("{line} {option}"));
            let said = &code(&run, 1).stderr;
            assert!(said.contains(&format!("out/{list}: is not there")), "{run}");
            assert!(said.contains("remove out/part-00001-00001."), "{run}");
        }
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
    // What a run has left that was killed, as far as it got.
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
fn a_file_whose_name_says_no_format_is_written_anew() {
    for format in ["npy", "jsonl", "parquet"] {
        let line = format!("in.jsonl --on-error skip --keep text -o out.dat -f {format}");
        let sandbox = rejected(&format!("{line} --resume"));
        mend(&sandbox, "no JSON", MENDED);
        let run = sandbox.embed(&format!("{line} --retry-rejects --stats stats.json"));
        code(&run, 0);
        assert_eq!(json(&sandbox.path("stats.json"))["reused"], 7, "{run}");
    }
}

#[test]
fn a_file_is_not_made_shorter() {
    let line = "in.jsonl --on-error skip --keep text -o out.jsonl";
    let sandbox = rejected(&format!("{line} --resume"));
    let old = fs::read(sandbox.path("out.jsonl")).unwrap();
    let files = sandbox.files();
    mend(
        &sandbox,
        "{\"id\": 8, \"text\": \"text 8\", \"year\": 8}\n",
        "",
    );
    let run = sandbox.embed(&format!("{line} --retry-rejects"));
    assert!(
        code(&run, 2)
            .stderr
            .contains("the input has 7 records, and out.jsonl was made of 8"),
        "{run}"
    );
    assert!(fs::read(sandbox.path("out.jsonl")).unwrap() == old);
    assert_eq!(sandbox.files(), files);
    // The remedy.
    code(
        &sandbox.embed(&format!("{line} --force --reuse out.jsonl")),
        3,
    );
}

#[test]
fn null_rows_of_lines_are_refused_before_work_and_those_of_parquet_filled() {
    let sandbox = sandbox();
    for (name, status) in [("out.jsonl", 2), ("out.parquet", 0)] {
        sandbox.write("mended.jsonl", fs::read(sandbox.path("in.jsonl")).unwrap());
        let line = format!("mended.jsonl --keep text --on-error null -o {name}");
        code(&sandbox.embed(&format!("{line} --resume")), 3);
        let input = fs::read_to_string(sandbox.path("in.jsonl")).unwrap();
        sandbox.write("mended.jsonl", input.replace("no JSON", MENDED));
        let run = sandbox.embed(&format!("{line} --retry-rejects"));
        let said = &code(&run, status).stderr;
        assert_eq!(said.contains("in Parquet alone"), status == 2, "{run}");
        assert!(!said.contains("--reuse"), "{run}");
    }
}

#[test]
fn a_list_of_records_that_were_tried_again_is_made_anew() {
    let sandbox = rejected(LINE);
    mend(&sandbox, "no JSON", MENDED);
    code(&sandbox.embed(&format!("{LINE} --retry-rejects")), 0);
    let before = files(&sandbox.path("out"));
    let list = "out/_embedctl/retried/part-00001-00003.jsonl";
    fs::remove_file(sandbox.path(list)).unwrap();
    let run = sandbox.embed(&format!("{LINE} --resume"));
    let said = &code(&run, 1).stderr;
    assert!(
        said.contains(
            "remove out/part-00001-00003.jsonl and give the same command with --retry-rejects"
        ),
        "{run}"
    );
    fs::remove_file(sandbox.path("out/part-00001-00003.jsonl")).unwrap();
    code(&sandbox.embed(&format!("{LINE} --retry-rejects")), 0);
    assert_eq!(files(&sandbox.path("out")), before);
}

#[test]
fn force_starts_anew_whatever_the_folder_says() {
    let sandbox = rejected(LINE);
    let before = files(&sandbox.path("out"));
    sandbox.write("out/_embedctl/job.json", "{");
    let run = sandbox.embed(&format!("{LINE} --resume"));
    assert!(code(&run, 1).stderr.contains("with --force"), "{run}");
    code(&sandbox.embed(&format!("{LINE} --force")), 3);
    assert_eq!(files(&sandbox.path("out")), before);
}

#[test]
fn a_part_of_an_older_build_without_the_hash_of_its_rejects_is_told() {
    let sandbox = rejected(LINE);
    let part = sandbox.path("out/part-00001-00001.jsonl.json");
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
    fs::remove_file(sandbox.path("out/_embedctl/commits/part-00001-00001.json")).unwrap();
    for option in ["--resume", "--retry-rejects"] {
        let run = sandbox.embed(&format!("{LINE} {option}"));
        assert!(
            code(&run, 1).stderr.contains("an older build made it"),
            "{run}"
        );
    }
}
