//! Files that refusals, kills and overlapping runs leave: all that stand together are of one run.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::*;
use crate::atomic::remove_abandoned;
use crate::atomic::step::faults::{self, Fault};
use crate::error::ErrorKind;

/// Runs that are told apart by the content of their files.
const OLD: usize = 3;
const NEW: usize = 5;

const SIDECARS: Sidecars = Sidecars {
    endings: &[".json", ".rows"],
    is_own: |path| fs::read(path).is_ok_and(|content| content.starts_with(b"run ")),
};

/// The endings of the files of an output: of the old one, and of the new one.
const SHAPES: [[&[&str]; 2]; 4] = [
    [&[""], &[""]],
    [&[".json", ""], &[".json", ""]],
    [&[".json", ".rows", ""], &[".json", ".rows", ""]],
    // An old file goes if the new output has none in its place.
    [&[".json", ".rows", ""], &[".json", ""]],
];

/// A folder with an output and a list beside it, of one run or of none.
struct SetScene {
    folder: tempfile::TempDir,
    shape: [&'static [&'static str]; 2],
}

impl SetScene {
    fn new(shape: [&'static [&'static str]; 2], stands: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { folder, shape };
        if stands {
            scene.publish(OLD, shape[0], false).unwrap();
        }
        scene
    }

    fn main(&self) -> PathBuf {
        self.folder.path().join("out.npy")
    }

    fn publish(&self, run: usize, endings: &[&str], replace: bool) -> Result<()> {
        publish(&self.main(), run, endings, replace)
    }

    fn publish_new(&self, replace: bool) -> Result<()> {
        self.publish(NEW, self.shape[1], replace)
    }

    /// The run whose files stand under each name, with what belongs to `main`.
    fn standing_of(&self, main: &Path, list: &Path) -> Vec<(String, usize)> {
        let names = ["", ".json", ".rows"].map(|ending| with_ending(main, ending));
        let names = names.iter().map(PathBuf::as_path).chain([list]);
        names
            .zip(["", ".json", ".rows", "list"])
            .filter_map(|(path, name)| {
                let text = fs::read_to_string(path).ok()?;
                Some((name.to_owned(), text.strip_prefix("run ")?.parse().unwrap()))
            })
            .collect()
    }

    fn standing(&self) -> Vec<(String, usize)> {
        self.standing_of(&self.main(), &self.folder.path().join("list"))
    }

    /// All files of a run of this shape.
    fn whole(&self, run: usize) -> Vec<(String, usize)> {
        let endings = self.shape[usize::from(run != OLD)];
        let names = ["", ".json", ".rows"].into_iter();
        let names = names.filter(|name| endings.contains(name)).chain(["list"]);
        names.map(|name| (name.to_owned(), run)).collect()
    }

    fn assert_unmixed(&self, context: &str) {
        let standing = self.standing();
        let runs: BTreeSet<_> = standing.iter().map(|(_, run)| run).collect();
        assert!(runs.len() <= 1, "{context}: {standing:?}");
    }

    /// The first step of the next run; its notes.
    fn recover(&self) -> Vec<String> {
        let pending = PendingFiles::default();
        AtomicSet::recover(&self.main(), &pending, SIDECARS);
        pending.take_notes()
    }

    fn assert_nothing_hidden(&self, context: &str) {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with('.'), "{context}: {name}");
        }
    }
}

fn publish(main: &Path, run: usize, endings: &[&str], replace: bool) -> Result<()> {
    let pending = PendingFiles::default();
    AtomicSet::recover(main, &pending, SIDECARS);
    let names = endings.iter().map(|ending| with_ending(main, ending));
    let names = [main.with_file_name("list")].into_iter().chain(names);
    let files: Vec<_> = names
        .map(|name| {
            let _ = remove_abandoned(&name);
            let file = AtomicFile::create(&name, &pending).unwrap();
            write!(file.file(), "run {run}").unwrap();
            file
        })
        .collect();
    let set = AtomicSet {
        files: files.iter().collect(),
        replace,
        sidecars: SIDECARS,
    };
    set.publish()
}

/// Every shape, with and without an output to be replaced.
fn scenes() -> impl Iterator<Item = ([&'static [&'static str]; 2], bool)> {
    let shapes = SHAPES.into_iter();
    shapes.flat_map(|shape| [(shape, false), (shape, true)])
}

#[test]
fn a_name_that_is_refused_loses_neither_the_old_output_nor_the_new() {
    for (shape, force) in scenes() {
        for steps in 0.. {
            let scene = SetScene::new(shape, force);
            let before = scene.standing();
            faults::after(steps, Fault::Refused);
            let result = scene.publish_new(force);
            let fired = faults::end();
            let context = format!("{shape:?}, force {force}, step {steps}: {result:?}");
            match &result {
                Ok(()) => assert_eq!(scene.standing(), scene.whole(NEW), "{context}"),
                Err(error) if error.kind() == ErrorKind::Unpublished => {
                    assert_eq!(scene.standing(), before, "{context}");
                    let kept = error.place().kept.as_deref().unwrap();
                    let mark = kept.file_name().unwrap().to_str().unwrap();
                    let mark = mark.split('.').nth(1).unwrap();
                    let list = scene.folder.path().join(format!("list.{mark}"));
                    let kept = scene.standing_of(kept, &list);
                    assert_eq!(kept, scene.whole(NEW), "{context}");
                }
                Err(_) => panic!("{context}"),
            }
            if !fired {
                assert!(steps > 0, "{context}");
                scene.assert_nothing_hidden(&context);
                break;
            }
        }
    }
}

#[test]
fn when_everything_is_refused_the_next_run_puts_it_right() {
    for shape in SHAPES {
        for steps in 0.. {
            let scene = SetScene::new(shape, true);
            faults::after(steps, Fault::AllRefused);
            let result = scene.publish_new(true);
            let fired = faults::end();
            let context = format!("{shape:?}, step {steps}: {result:?}");
            scene.assert_unmixed(&context);
            if let Err(error) = &result {
                assert_eq!(error.kind(), ErrorKind::Unpublished, "{context}");
                let kept = error.place().kept.as_deref().unwrap();
                assert!(kept.exists(), "{context}");
            }
            scene.recover();
            let expected = if result.is_ok() { NEW } else { OLD };
            assert_eq!(scene.standing(), scene.whole(expected), "{context}");
            if !fired {
                break;
            }
        }
    }
}

#[test]
fn overlapping_runs_take_turns() {
    for [endings, _] in SHAPES {
        let scene = SetScene::new([endings, endings], true);
        std::thread::scope(|scope| {
            for run in 11..=14 {
                let scene = &scene;
                scope.spawn(move || {
                    for _ in 0..8 {
                        scene.publish(run, endings, true).unwrap();
                    }
                });
            }
        });
        let standing = scene.standing();
        assert_eq!(standing, scene.whole(standing[0].1));
        scene.assert_nothing_hidden("after all runs");
    }
}

/// A process of its own, which the test below kills.
#[test]
fn a_publication_to_be_killed() {
    let Ok(wanted) = std::env::var("EMBEDCTL_TEST_KILLED") else {
        return;
    };
    let [main, shape, steps, force] = wanted.split('|').collect::<Vec<_>>()[..] else {
        panic!("{wanted}");
    };
    let [_, endings] = SHAPES[shape.parse::<usize>().unwrap()];
    faults::after(steps.parse().unwrap(), Fault::Killed);
    publish(main.as_ref(), NEW, endings, force == "true").unwrap();
}

#[test]
fn a_kill_at_any_step_mixes_nothing_and_the_next_run_completes_it() {
    for (number, (shape, force)) in scenes().enumerate() {
        for steps in 0.. {
            let scene = SetScene::new(shape, force);
            let main = scene.main();
            let wanted = format!("{}|{}|{steps}|{force}", main.display(), number / 2);
            let test = "atomic::set::tests::a_publication_to_be_killed";
            let killed = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test])
                .env("EMBEDCTL_TEST_KILLED", wanted)
                .output()
                .unwrap();
            let context = format!("{shape:?}, force {force}, step {steps}: {killed:?}");
            scene.assert_unmixed(&context);
            let notes = scene.recover();
            assert_eq!(scene.standing(), scene.whole(NEW), "{context}");
            scene.assert_nothing_hidden(&context);
            if killed.status.code() != Some(9) {
                assert!(killed.status.success() && steps > 0, "{context}");
                break;
            }
            assert!(notes[0].contains("this is done now"), "{context}");
        }
    }
}

#[test]
fn a_name_that_was_taken_meanwhile_is_never_replaced() {
    let scene = SetScene::new(SHAPES[2], false);
    fs::write(with_ending(&scene.main(), ".rows"), "theirs").unwrap();
    let error = scene.publish_new(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unpublished);
    let rows = fs::read(with_ending(&scene.main(), ".rows")).unwrap();
    assert_eq!(rows, b"theirs");
}

#[test]
fn a_file_that_was_removed_meanwhile_publishes_nothing() {
    let scene = SetScene::new(SHAPES[0], false);
    let pending = PendingFiles::default();
    let file = AtomicFile::create(&scene.main(), &pending).unwrap();
    let publish = || {
        let set = AtomicSet {
            files: vec![&file],
            replace: false,
            sidecars: SIDECARS,
        };
        set.publish().unwrap_err()
    };
    fs::remove_file(file.path()).unwrap();
    assert_eq!(publish().kind(), ErrorKind::Io);
    pending.remove();
    assert!(publish().is_interrupted());
    assert!(scene.standing().is_empty());
}

#[test]
fn a_plan_of_somebody_elses_is_left_alone() {
    let scene = SetScene::new(SHAPES[1], true);
    let plan = scene.folder.path().join(".out.npy.embedctl-publishing");
    for text in ["", "{", r#"{"replace":true,"files":[]}"#] {
        fs::write(&plan, text).unwrap();
        scene.recover();
        assert!(!plan.exists(), "what was not begun goes: {text}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::write(&plan, "").unwrap();
        fs::set_permissions(&plan, fs::Permissions::from_mode(0o666)).unwrap();
        scene.recover();
        assert!(plan.exists(), "anybody may have written that");
        fs::remove_file(&plan).unwrap();
        // Neither a pipe, which would be waited for, nor a link is a plan.
        let name = std::ffi::CString::new(plan.to_str().unwrap()).unwrap();
        // SAFETY: a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        scene.recover();
        fs::remove_file(&plan).unwrap();
        std::os::unix::fs::symlink(scene.main(), &plan).unwrap();
        scene.recover();
        assert!(plan.is_symlink());
        assert_eq!(scene.standing(), scene.whole(OLD));
    }
}
