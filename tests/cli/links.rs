//! Symbolic links under names that a run writes, and files of others in folders of parts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use crate::jobs::code;
use crate::sandbox::Sandbox;
use crate::support::skip;

/// No user has that number here, which only root can give to a file.
const ANOTHER: u32 = 61_234;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let text = |n: usize| format!("{{\"id\": {n}, \"text\": \"text number {n}\"}}\n");
    sandbox.write("in.jsonl", (0..6).map(text).collect::<String>());
    sandbox
}

/// Every option that names something to write, by the path given.
fn options(path: &str) -> [(&'static str, String); 5] {
    [
        ("-o", format!("-o {path} -f jsonl --force")),
        (
            "--rejects",
            format!("-o new.jsonl --rejects {path} --on-error skip --force"),
        ),
        ("--stats", format!("-o new.jsonl --force --stats {path}")),
        (
            "--resume",
            format!("-o {path} -f jsonl --resume --part-rows 2"),
        ),
        ("a folder", format!("-o {path}/ -f jsonl --part-rows 2")),
    ]
}

#[test]
fn a_link_of_another_user_is_never_written_through() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("shared")).unwrap();
    symlink(sandbox.path("precious"), sandbox.path("shared/link")).unwrap();
    let link = sandbox.path("shared/link");
    if lchown(&link, Some(ANOTHER), None).is_err() {
        skip(
            "a_link_of_another_user_is_never_written_through",
            "root",
            "a link of another user",
        )
        .unwrap_or(());
        return;
    }
    for mode in [0o755, 0o777, 0o1777] {
        fs::set_permissions(sandbox.path("shared"), Permissions::from_mode(mode)).unwrap();
        for (option, line) in options("shared/link") {
            let target = sandbox.path("precious");
            match option {
                "a folder" => fs::create_dir(&target).unwrap(),
                "--resume" => {} // it replaces nothing, and a link to nothing leads somewhere, too
                _ => fs::write(&target, "mine").unwrap(),
            }
            let run = sandbox.embed(&format!("in.jsonl {line}"));
            assert!(
                !matches!(run.code, Some(0 | 3 | 101) | None),
                "{option}: {run}"
            );
            assert!(
                run.stderr.contains("is a symbolic link of another user"),
                "{option}: {run}"
            );
            assert!(link.is_symlink(), "{option}");
            match option {
                "a folder" => fs::remove_dir(&target).unwrap(), // nothing is in it
                "--resume" => assert!(!target.exists()),
                _ => assert_eq!(fs::read(&target).unwrap(), b"mine", "{option}"),
            }
            assert!(!sandbox.path("new.jsonl").exists(), "{option}");
            fs::remove_file(&target).ok();
        }
    }
}

#[test]
fn the_users_own_link_leads_to_the_file_that_is_written() {
    for (option, line) in options("link") {
        let sandbox = sandbox();
        symlink("real", sandbox.path("link")).unwrap();
        match option {
            "a folder" => fs::create_dir(sandbox.path("real")).unwrap(),
            "--resume" => {}
            _ => sandbox.write("real", "old"),
        }
        code(&sandbox.embed(&format!("in.jsonl {line}")), 0);
        assert!(sandbox.path("link").is_symlink(), "{option}");
        match option {
            "a folder" => assert!(sandbox.path("real/_SUCCESS").exists()),
            _ => assert_ne!(fs::read(sandbox.path("real")).unwrap(), b"old", "{option}"),
        }
    }
}

/// Where a file lies that is called so in an output; the own files of a single file's job lie among its parts.
fn place(sandbox: &Sandbox, folder: &str, name: &str) -> PathBuf {
    match folder {
        "out" => sandbox.of_job(folder, name),
        _ => sandbox.path(folder).join(name),
    }
}

/// In a folder like `/tmp`, another user may take the name beside an output first.
#[test]
fn nothing_is_put_into_another_users_folder_beside_an_output() {
    for is_there in [false, true] {
        let sandbox = sandbox();
        let taken = sandbox.path("_out.embedctl");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("job.json"), "{}").unwrap();
        if lchown(&taken, Some(ANOTHER), None).is_err() {
            let test = "nothing_is_put_into_another_users_folder_beside_an_output";
            skip(test, "root", "a folder of another user").unwrap_or(());
            return;
        }
        if is_there {
            fs::create_dir(sandbox.path("out")).unwrap();
        }
        code(&sandbox.embed("in.jsonl -o out/"), 0);
        assert!(sandbox.path("out/_embedctl/manifest.json").exists());
        let names = fs::read_dir(&taken).unwrap();
        assert_eq!(names.count(), 1);
        code(&sandbox.run("inspect out/"), 0);
        code(&sandbox.embed("in.jsonl -o out/ --resume"), 0);
    }
}

fn put_all(sandbox: &Sandbox, folder: &str, names: &[&str]) {
    for name in names {
        let path = place(sandbox, folder, name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mine").unwrap();
    }
}

fn assert_all(sandbox: &Sandbox, folder: &str, names: &[&str]) {
    for name in names {
        let content = fs::read(place(sandbox, folder, name)).ok();
        assert_eq!(content.as_deref(), Some(&b"mine"[..]), "{name}");
    }
}

/// Names like those that a job gives.
const LIKE_PARTS: [&str; 6] = [
    "_part-00001-00000.jsonl",
    "_embedctl/notes.txt",
    "_embedctl/commits/part-00001-00000.json.bak",
    "_embedctl/shards/mine.json",
    "_embedctl/shards/1.json",
    "_embedctl/texts/part-00001-00000.txt",
];

#[test]
fn a_folder_that_is_written_anew_keeps_files_of_others() {
    const LINE: &str = "in.jsonl -o out/ -f npy --part-rows 2";
    let sandbox = sandbox();
    code(&sandbox.embed(LINE), 0);
    put_all(&sandbox, "out", &LIKE_PARTS);
    code(&sandbox.embed(&format!("{LINE} --force")), 0);
    assert_all(&sandbox, "out", &LIKE_PARTS);
    // Readers would take these for parts: nothing is touched.
    for other in [
        "part-00001-00000.npy.bak",
        "part-00001-00001-mine.npy",
        "mine.npy",
    ] {
        let before = fs::read(sandbox.path("out/part-00001-00000.npy")).unwrap();
        put_all(&sandbox, "out", &[other]);
        let run = sandbox.embed(&format!("{LINE} --force"));
        assert!(code(&run, 2).stderr.contains(other), "{run}");
        assert_all(&sandbox, "out", &[other]);
        assert_eq!(
            fs::read(sandbox.path("out/part-00001-00000.npy")).unwrap(),
            before
        );
        assert!(sandbox.path("out/_SUCCESS").exists());
        fs::remove_file(sandbox.path("out").join(other)).unwrap();
    }
    // Parts of another format are of the same output.
    code(
        &sandbox.embed("in.jsonl -o out/ -f jsonl --part-rows 3 --force"),
        0,
    );
    let parts = fs::read_dir(sandbox.path("out")).unwrap();
    let names = parts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("part-")).collect();
    names.sort();
    let of = |number: u32| format!("part-00001-0000{number}.jsonl");
    assert_eq!(names, [of(0), of(1)]);
    assert_all(&sandbox, "out", &LIKE_PARTS);
}

#[test]
fn the_folder_of_a_single_files_parts_keeps_files_of_others() {
    let sandbox = sandbox();
    let more = ["thesis.tex", "part-00001-00000.spool.bak"];
    let parts = sandbox.path("out.jsonl.parts");
    put_all(&sandbox, "out.jsonl.parts", &LIKE_PARTS);
    put_all(&sandbox, "out.jsonl.parts", &more);
    code(
        &sandbox.embed("in.jsonl -o out.jsonl --resume --part-rows 2"),
        0,
    );
    assert_all(&sandbox, "out.jsonl.parts", &LIKE_PARTS);
    assert_all(&sandbox, "out.jsonl.parts", &more);
    assert!(!parts.join("_embedctl/job.json").exists());
    assert!(!parts.join("part-00001-00000.spool").exists());
}

/// Another folder in the place of one of the output's: nothing is put there, or removed.
#[test]
fn no_folder_of_an_output_may_be_a_link() {
    for folder in ["", "/commits", "/texts", "/shards", "/rejects"] {
        for options in ["--resume", "--force", ""] {
            let sandbox = sandbox();
            let line = "in.jsonl -o out/ -f jsonl --part-rows 2";
            if !options.is_empty() {
                code(&sandbox.embed(line), 0);
                fs::remove_file(sandbox.path("out/part-00001-00001.jsonl")).unwrap();
            }
            let (own, elsewhere) = (
                sandbox.path(&format!("_out.embedctl{folder}")),
                sandbox.path("elsewhere"),
            );
            fs::create_dir_all(&own).unwrap();
            fs::rename(&own, &elsewhere).unwrap();
            fs::write(elsewhere.join("part-00001-00009.json"), "mine").unwrap();
            fs::write(elsewhere.join("part-00001-00009.sha256"), "mine").unwrap();
            symlink(&elsewhere, &own).unwrap();
            let names = |folder: &Path| {
                let entries = fs::read_dir(folder).unwrap();
                let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
                names.sort();
                names
            };
            let before = names(&elsewhere);
            let run = sandbox.embed(&format!("{line} {options}"));
            // Without a rejected record, nothing is to be put there.
            if folder != "/rejects" || run.code != Some(0) {
                assert!(
                    code(&run, 1).stderr.contains("is a link"),
                    "{folder} {options}: {run}"
                );
            }
            assert_eq!(names(&elsewhere), before, "{folder} {options}");
            assert!(own.is_symlink());
        }
    }
}
