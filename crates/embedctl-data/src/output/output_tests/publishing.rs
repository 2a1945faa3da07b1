//! Under the final name stands a whole result, an older one, or nothing.

use std::fs;

use crate::output::tests::support::*;
use crate::output::{OutputFormat, RunFiles, refuse_overlap};
use crate::writing::rejects::RejectsWriter;
use embedctl_common::error::ErrorKind;
use embedctl_common::setting::REJECTS;

pub const NAMES: [&str; 3] = ["out.parquet", "out.npy", "out.jsonl"];

#[test]
fn nothing_has_the_name_before_the_end() {
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder, name);
        let mut writer = writer(&options(&path)).unwrap();
        writer.write(id_rows(0, 3, 2)).unwrap();
        let names = listing(folder.path());
        assert!(
            names
                .iter()
                .all(|name| name.starts_with(".out.") && name.ends_with(".tmp")),
            "{names:?}"
        );
        finish(writer, id_schema()).unwrap();
        assert!(path.exists());
        assert!(
            listing(folder.path())
                .iter()
                .all(|name| name.starts_with("out."))
        );
    }
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&options(&at(&folder, name))).unwrap();
        writer.write(id_rows(0, 3, 2)).unwrap();
        drop(writer);
        assert_eq!(listing(folder.path()), Vec::<String>::new());
    }
}

#[test]
fn what_exists_is_replaced_only_by_force() {
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let path = at(&folder, name);
        fs::write(&path, "old").unwrap();
        let error = writer(&options(&path)).err().unwrap();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("force"));
        assert_eq!(listing(folder.path()), [name]);

        let mut dropped = writer(&forced(&path)).unwrap();
        dropped.write(id_rows(0, 3, 2)).unwrap();
        drop(dropped);
        assert_eq!(fs::read(&path).unwrap(), b"old");

        write(&forced(&path), 3).unwrap();
        assert_ne!(fs::read(&path).unwrap(), b"old");
    }
}

#[test]
fn a_sidecar_in_the_way_is_found_early() {
    let folder = tempfile::tempdir().unwrap();
    let sidecar = at(&folder, "out.npy.rows.jsonl");
    fs::write(&sidecar, "somebody's").unwrap();
    let path = at(&folder, "out.npy");
    let message = write(&options(&path), 1).unwrap_err().to_string();
    assert!(message.contains("out.npy.rows.jsonl") && message.contains("force"));
    write(&forced(&path), 1).unwrap();
    assert!(
        fs::read_to_string(&sidecar)
            .unwrap()
            .starts_with("{\"row\":0")
    );

    fs::create_dir(at(&folder, "b.jsonl.json")).unwrap();
    let message = write(&forced(&at(&folder, "b.jsonl")), 1)
        .unwrap_err()
        .to_string();
    assert!(message.contains("b.jsonl.json"), "{message}");
}

#[test]
fn a_file_that_appears_during_the_run_is_kept() {
    for (name, blocker) in [
        ("out.parquet", "out.parquet"),
        ("out.npy", "out.npy"),
        ("out.npy", "out.npy.json"),
        ("out.jsonl", "out.jsonl"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&options(&at(&folder, name))).unwrap();
        writer.write(id_rows(0, 3, 2)).unwrap();
        fs::write(at(&folder, blocker), "theirs").unwrap();
        let error = finish(writer, id_schema()).unwrap_err();
        let message = chain(&error);
        assert!(
            message.contains("appeared") && message.contains(blocker),
            "{message}"
        );
        assert_eq!(fs::read(at(&folder, blocker)).unwrap(), b"theirs");
        // The work is not lost: it stands under a name that the message gives.
        assert_eq!(error.kind(), ErrorKind::Unpublished);
        let kept = error.place().kept.clone().unwrap();
        assert!(message.contains(&kept.display().to_string()), "{message}");
        let rest: Vec<String> = (listing(folder.path()).into_iter())
            .filter(|name| name != blocker)
            .collect();
        let stem = kept.file_name().unwrap().to_str().unwrap();
        let endings: &[&str] = match name {
            "out.parquet" => &[""],
            "out.npy" => &["", ".json", ".rows.jsonl"],
            _ => &["", ".json"],
        };
        let expected: Vec<String> = endings.iter().map(|it| format!("{stem}{it}")).collect();
        assert_eq!(rest, expected);
    }
}

#[test]
fn two_writers_of_one_name_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.jsonl");
    let mut one = writer(&forced(&path)).unwrap();
    let mut two = writer(&forced(&path)).unwrap();
    one.write(id_rows(0, 1, 2)).unwrap();
    two.write(id_rows(7, 2, 2)).unwrap();
    finish(two, id_schema()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    one.write(id_rows(1, 2, 2)).unwrap();
    finish(one, id_schema()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    assert_eq!(listing(folder.path()), ["out.jsonl", "out.jsonl.json"]);
}

#[test]
fn stale_sidecars_go_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.npy");
    write(&options(&path), 2).unwrap();
    // The same name, but a format without sidecars.
    write(&with_format(forced(&path), OutputFormat::Parquet), 2).unwrap();
    assert_eq!(listing(folder.path()), ["out.npy"]);

    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    fs::write(&path, "old").unwrap();
    fs::write(at(&folder, "out.parquet.json"), r#"{"somebody's": "own"}"#).unwrap();
    write(&forced(&path), 2).unwrap();
    assert_eq!(listing(folder.path()), ["out.parquet", "out.parquet.json"]);
}

#[test]
fn folders_that_are_missing_or_none_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &str| match writer(&forced(&at(&folder, path))) {
        Err(error) if error.kind() == ErrorKind::Usage => error.to_string(),
        Err(other) => panic!("{path}: {other}"),
        Ok(_) => panic!("{path} was created"),
    };
    fs::create_dir(at(&folder, "d.npy")).unwrap();
    fs::write(at(&folder, "file"), "").unwrap();
    assert!(message("d.npy").contains("is a folder"));
    assert!(message("new.npy/").contains("is a folder"));
    let missing = message("no/such/out.npy");
    assert!(missing.contains(&at(&folder, "no/such").display().to_string()));
    assert!(message("file/out.npy").contains("not a folder"));
    assert_eq!(listing(folder.path()), ["d.npy", "file"]);
}

/// What refuses an output, rejects and an input in `folder`.
fn overlap(folder: &tempfile::TempDir, names: [&str; 3]) -> Option<String> {
    let [output, rejects, input] = names.map(|name| at(folder, name));
    let refusal = refuse_overlap(
        &forced(&output),
        false,
        &[(REJECTS.into(), &rejects)],
        [Some(input.as_path())],
        None,
    );
    refusal.err().map(|error| error.to_string())
}

#[test]
fn one_file_is_not_written_twice_nor_over_the_input() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(at(&folder, "sub")).unwrap();
    fs::write(at(&folder, "in.jsonl"), "").unwrap();
    let overlap = |output, rejects, input| overlap(&folder, [output, rejects, input]);
    assert_eq!(overlap("a.jsonl", "b.jsonl", "in.jsonl"), None);
    assert_eq!(overlap("a.jsonl", "sub/a.jsonl", "in.jsonl"), None);
    for (output, rejects, input) in [
        ("a.jsonl", "sub/../a.jsonl", "in.jsonl"),
        ("a.npy", "a.npy.json", "in.jsonl"),
        ("a.npy", "a.npy.rows.jsonl", "in.jsonl"),
        ("in.jsonl", "b.jsonl", "in.jsonl"),
        ("a.jsonl", "in.jsonl", "sub/../in.jsonl"),
        ("a.npy", "b.jsonl", "a.npy.rows.jsonl"),
    ] {
        let message = overlap(output, rejects, input).expect("refused");
        assert!(message.contains("is the same file as"), "{message}");
    }
    fs::hard_link(at(&folder, "in.jsonl"), at(&folder, "twin.jsonl")).unwrap();
    assert!(overlap("twin.jsonl", "b.jsonl", "in.jsonl").is_some());
    assert!(overlap("a.jsonl", "twin.jsonl", "in.jsonl").is_some());
    // What an earlier run has left beside an output of another format would go.
    write(&options(&at(&folder, "o.npy")), 1).unwrap();
    fs::rename(at(&folder, "o.npy"), at(&folder, "o.parquet")).unwrap();
    fs::rename(
        at(&folder, "o.npy.rows.jsonl"),
        at(&folder, "o.parquet.rows.jsonl"),
    )
    .unwrap();
    assert!(overlap("o.parquet", "b.jsonl", "o.parquet.rows.jsonl").is_some());
}

#[test]
fn the_temporary_files_of_a_run_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (RunFiles::new(), RunFiles::new());
    let create =
        |name: &str, files: &RunFiles| writer_of(&options(&at(&folder, name)), files).unwrap();
    let stopped = NAMES.map(|name| create(name, &one));
    let rejects = RejectsWriter::create(&at(&folder, "rejects"), false, &one).unwrap();
    let mut going_on = create("other.npy", &two);
    assert_eq!(listing(folder.path()).len(), 7); // an array's rows have a file of their own

    one.remove();
    assert_eq!(listing(folder.path()).len(), 2);
    let mut rejects = Some(rejects);
    for writer in stopped {
        let result = finish_with(writer, rejects.take());
        assert!(result.unwrap_err().is_interrupted());
    }
    going_on.write(id_rows(0, 1, 2)).unwrap();
    finish(going_on, id_schema()).unwrap();
    let written = ["other.npy", "other.npy.json", "other.npy.rows.jsonl"];
    assert_eq!(listing(folder.path()), written);
}

#[test]
fn an_output_and_its_rejects_appear_together() {
    for (name, taken) in NAMES.iter().flat_map(|name| [(name, false), (name, true)]) {
        let folder = tempfile::tempdir().unwrap();
        let files = RunFiles::new();
        let mut writer = writer_of(&options(&at(&folder, name)), &files).unwrap();
        let rejects = RejectsWriter::create(&at(&folder, "rejects"), false, &files).unwrap();
        writer.write(id_rows(0, 3, 2)).unwrap();
        if taken {
            fs::write(at(&folder, "rejects"), "theirs").unwrap();
        }
        let finished = finish_with(writer, Some(rejects));
        assert_eq!(at(&folder, name).exists(), !taken);
        match finished {
            Ok(()) => assert_eq!(fs::read(at(&folder, "rejects")).unwrap(), b""),
            Err(error) => {
                assert!(taken && error.kind() == ErrorKind::Unpublished);
                assert_eq!(fs::read(at(&folder, "rejects")).unwrap(), b"theirs");
            }
        }
    }
}

#[test]
fn what_a_killed_run_left_goes_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let left = at(
        &folder,
        ".out.npy.rows.jsonl.embedctl-17-0123456789abcdef.tmp",
    );
    fs::write(&left, "left").unwrap();
    let files = RunFiles::new();
    let options = options(&at(&folder, "out.npy"));
    let create = || writer_of(&options, &files).unwrap();
    let _writer = create();
    let notes = files.take_notes();
    assert!(!left.exists() && notes.len() == 1, "{notes:?}");
    assert!(notes[0].contains("1 temporary file (4 bytes)"), "{notes:?}");
    let _another = create();
    assert_eq!(files.take_notes(), [""; 0], "what is being written stays");
    assert_eq!(listing(folder.path()).len(), 4);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_stay_and_their_targets_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(at(&folder, "store")).unwrap();
        fs::write(at(&folder, "store/v1"), "old").unwrap();
        symlink("store/v1", at(&folder, "middle")).unwrap();
        symlink("middle", at(&folder, "out.jsonl")).unwrap();
        let path = at(&folder, "out.jsonl");
        assert_eq!(
            write(&options(&path), 2).unwrap_err().kind(),
            ErrorKind::Usage
        );
        write(&forced(&path), 2).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert_eq!(listing(&at(&folder, "store")), ["v1", "v1.json"]);

        // A dangling link: what it names is created.
        symlink("store/v2", at(&folder, "new.jsonl")).unwrap();
        write(&options(&at(&folder, "new.jsonl")), 1).unwrap();
        assert!(fs::metadata(at(&folder, "store/v2")).unwrap().is_file());
        assert!(overlap(&folder, ["new.jsonl", "store/v2", "middle"]).is_some());

        symlink("loop.jsonl", at(&folder, "loop.jsonl")).unwrap();
        assert!(writer(&forced(&at(&folder, "loop.jsonl"))).is_err());
    }

    #[test]
    fn permissions_are_those_of_any_file_or_of_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let metadata = fs::metadata(at(&folder, name)).unwrap();
            metadata.permissions().mode() & 0o777
        };
        fs::write(at(&folder, "plain"), "").unwrap();
        for name in NAMES {
            write(&options(&at(&folder, name)), 1).unwrap();
            assert_eq!(mode(name), mode("plain"));
            fs::set_permissions(at(&folder, name), fs::Permissions::from_mode(0o640)).unwrap();
            write(&forced(&at(&folder, name)), 1).unwrap();
            assert_eq!(mode(name), 0o640);
        }
    }

    #[test]
    fn an_unwritable_folder_fails_before_any_work() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let path = if fs::write(at(&folder, "probe"), "").is_err() {
            at(&folder, "out.npy")
        } else if cfg!(target_os = "linux") {
            // Root may write anywhere but here.
            "/sys/out.npy".into()
        } else {
            eprintln!("skipped: an_unwritable_folder_fails_before_any_work: running as root");
            return;
        };
        let error = writer(&options(&path)).err().unwrap();
        let message = chain(&error);
        assert!(
            message.starts_with("cannot create a file in /"),
            "{message}"
        );
    }
}
