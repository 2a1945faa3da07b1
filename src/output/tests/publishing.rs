//! Under the final name stands a whole result, an older one, or nothing.

use std::fs;

use crate::error::Error;
use crate::output::testing::*;
use crate::output::{OutputFormat, same_place};

const NAMES: [&str; 3] = ["out.parquet", "out.npy", "out.jsonl"];

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
        assert!(matches!(&error, Error::Usage(message) if message.contains("--force")));
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
    assert!(message.contains("out.npy.rows.jsonl") && message.contains("--force"));
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
        assert_eq!(listing(folder.path()), [blocker]);
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
        Err(Error::Usage(message)) => message,
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

#[test]
fn same_places_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(at(&folder, "sub")).unwrap();
    assert!(same_place(&at(&folder, "a"), &at(&folder, "sub/../a")));
    assert!(!same_place(&at(&folder, "a"), &at(&folder, "b")));
    assert!(!same_place(&at(&folder, "a"), &at(&folder, "sub/a")));
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
        assert!(matches!(write(&options(&path), 2), Err(Error::Usage(_))));
        write(&forced(&path), 2).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert_eq!(listing(&at(&folder, "store")), ["v1", "v1.json"]);

        // A dangling link: what it names is created.
        symlink("store/v2", at(&folder, "new.jsonl")).unwrap();
        write(&options(&at(&folder, "new.jsonl")), 1).unwrap();
        assert!(fs::metadata(at(&folder, "store/v2")).unwrap().is_file());
        assert!(same_place(
            &at(&folder, "new.jsonl"),
            &at(&folder, "store/v2")
        ));

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
