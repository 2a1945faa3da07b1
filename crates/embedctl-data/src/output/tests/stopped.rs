//! What refusals, kills and overlapping runs leave: an output and what belongs to it are of one run.

use std::fs;
use std::path::PathBuf;

use super::publishing::NAMES;
use crate::output::publish::step::faults::{self, Fault};
use crate::output::rejects::RejectsWriter;
use crate::output::tests::support::*;
use crate::output::{OutputOptions, RunFiles};
use embedctl_common::error::ErrorKind;

/// Which run's files stand under the names of an output: for each the number of its rows.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Standing {
    main: Option<usize>,
    rows: Option<usize>,
    provenance: bool,
    rejects: Option<usize>,
}

/// Runs that are told apart by the number of their rows, with as many rejects.
const OLD: usize = 3;
const NEW: usize = 5;

fn standing(main: &std::path::Path, rejects: &std::path::Path) -> Standing {
    let lines = |path: &std::path::Path| {
        let text = fs::read_to_string(path).ok()?;
        Some(text.lines().count())
    };
    let beside = |ending: &str| crate::output::sidecar::sidecar_path(main, ending);
    let provenance = fs::read(beside(".json")).ok();
    let provenance: Option<serde_json::Value> =
        provenance.map(|text| serde_json::from_slice(&text).unwrap());
    let hash = |bytes: &[u8]| {
        let mut hash = embedctl_common::hash::Hash::default();
        hash.add(bytes);
        serde_json::Value::from(hash.hex())
    };
    let mut main_rows = None;
    if let Ok(bytes) = fs::read(main) {
        let npy = main.extension().is_some_and(|ending| ending == "npy");
        let parquet = main.extension().is_some_and(|ending| ending == "parquet");
        main_rows = Some(match (npy, parquet) {
            (true, _) => (bytes.len() - 128) / 8,
            (_, true) => {
                let file = fs::File::open(main).unwrap();
                let reader = ::parquet::file::reader::SerializedFileReader::new(file).unwrap();
                let metadata = ::parquet::file::reader::FileReader::metadata(&reader);
                usize::try_from(metadata.file_metadata().num_rows()).unwrap()
            }
            _ => lines(main).unwrap(),
        });
        // The hashes are the rule by which a reader tells that files belong together.
        if let Some(provenance) = &provenance {
            let (name, bytes) = if npy {
                ("values", &bytes[128..])
            } else {
                ("lines", &bytes[..])
            };
            assert_eq!(provenance["sha256"][name], hash(bytes));
            if let Ok(rows) = fs::read(beside(".rows.jsonl")) {
                assert_eq!(provenance["sha256"]["rows"], hash(&rows));
            }
            if let Ok(rejects) = fs::read(rejects) {
                assert_eq!(provenance["sha256"]["rejects"], hash(&rejects));
            }
        }
    }
    Standing {
        main: main_rows,
        rows: lines(&beside(".rows.jsonl")),
        provenance: provenance.is_some(),
        rejects: lines(rejects),
    }
}

impl Standing {
    /// All files of a run with so many rows.
    fn whole(name: &str, rows: usize) -> Self {
        Self {
            main: Some(rows),
            rows: name.ends_with("npy").then_some(rows),
            provenance: !name.ends_with("parquet"),
            rejects: Some(rows),
        }
    }

    /// No two files of different runs stand together.
    fn assert_unmixed(self, context: &str) {
        let runs: std::collections::BTreeSet<usize> = [self.main, self.rows, self.rejects]
            .into_iter()
            .flatten()
            .collect();
        assert!(runs.len() <= 1, "{context}: {self:?}");
    }
}

/// A whole run of `rows` rows and rejects, with a fault at a step of its publication.
fn publish_with(
    options: &OutputOptions,
    rejects: &std::path::Path,
    rows: usize,
) -> embedctl_common::Result<()> {
    let files = RunFiles::new();
    let mut writer = writer_of(options, &files)?;
    let mut list = RejectsWriter::create(rejects, options.force, &files)?;
    for line in 0..rows as u64 {
        let origin = crate::record::Origin {
            source: 0,
            line,
            offset: line,
        };
        let (cause, raw) = ("bad".into(), Vec::new());
        let reject = crate::record::Reject {
            origin,
            cause,
            raw,
            fields: crate::record::RecordFields::default(),
        };
        list.write(&reject, &names()[..])?;
    }
    writer.write(id_rows(0, rows, 2))?;
    finish_with(writer, Some(list))
}

/// A folder in which an output may stand already, with the names of the next one and its rejects.
fn begun(name: &str, stands: bool) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (path, rejects) = (at(&folder, name), at(&folder, "rejects"));
    if stands {
        publish_with(&options(&path), &rejects, OLD).unwrap();
    }
    (folder, path, rejects)
}

#[test]
fn a_name_that_is_refused_loses_neither_the_old_output_nor_the_new() {
    for (name, force) in NAMES.iter().flat_map(|name| [(name, false), (name, true)]) {
        for steps in 0.. {
            let (folder, path, rejects) = begun(name, force);
            let before = standing(&path, &rejects);
            let options = OutputOptions {
                force,
                ..options(&path)
            };
            faults::after(steps, Fault::Refused);
            let result = publish_with(&options, &rejects, NEW);
            let fired = faults::end();
            let context = format!("{name}, force {force}, step {steps}: {result:?}");
            let now = standing(&path, &rejects);
            match &result {
                Ok(()) => assert_eq!(now, Standing::whole(name, NEW), "{context}"),
                Err(error) if error.kind() == ErrorKind::Unpublished => {
                    assert_eq!(now, before, "{context}");
                    let kept = error.place().kept.as_deref().unwrap();
                    let ending = kept.file_name().unwrap().to_str().unwrap();
                    let mark = ending.split('.').nth(1).unwrap();
                    let kept_rejects = at(&folder, &format!("rejects.{mark}"));
                    let kept = standing(kept, &kept_rejects);
                    assert_eq!(kept, Standing::whole(name, NEW), "{context}");
                }
                Err(_) => panic!("{context}"),
            }
            if !fired {
                assert!(steps > 0, "{context}");
                assert!(
                    listing(folder.path())
                        .iter()
                        .all(|name| !name.starts_with('.'))
                );
                break;
            }
        }
    }
}

#[test]
fn when_everything_is_refused_the_next_run_puts_it_right() {
    for name in NAMES {
        for steps in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let (path, rejects) = (at(&folder, name), at(&folder, "rejects"));
            publish_with(&options(&path), &rejects, OLD).unwrap();
            faults::after(steps, Fault::AllRefused);
            let result = publish_with(&forced(&path), &rejects, NEW);
            let fired = faults::end();
            let context = format!("{name}, step {steps}: {result:?}");
            standing(&path, &rejects).assert_unmixed(&context);
            if let Err(error) = &result {
                assert_eq!(error.kind(), ErrorKind::Unpublished, "{context}");
                let kept = error.place().kept.as_deref().unwrap();
                assert!(kept.exists(), "{context}");
            }
            drop(writer(&forced(&path)).unwrap());
            let expected = if result.is_ok() { NEW } else { OLD };
            let now = standing(&path, &rejects);
            assert_eq!(now, Standing::whole(name, expected), "{context}");
            if !fired {
                break;
            }
        }
    }
}

#[test]
fn overlapping_runs_take_turns() {
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let (path, rejects) = (at(&folder, name), at(&folder, "rejects"));
        std::thread::scope(|scope| {
            for rows in 1..=4 {
                let (path, rejects) = (&path, &rejects);
                scope.spawn(move || {
                    for _ in 0..8 {
                        publish_with(&forced(path), rejects, rows).unwrap();
                    }
                });
            }
        });
        let now = standing(&path, &rejects);
        assert_eq!(now, Standing::whole(name, now.main.unwrap()));
        let listing = listing(folder.path());
        assert!(
            listing.iter().all(|name| !name.starts_with('.')),
            "{listing:?}"
        );
    }
}

/// What the test below kills, a process of its own.
#[test]
fn a_publication_to_be_killed() {
    let Ok(wanted) = std::env::var("EMBEDCTL_TEST_KILLED") else {
        return;
    };
    let [path, rejects, steps, force] = wanted.split('|').collect::<Vec<_>>()[..] else {
        panic!("{wanted}");
    };
    let options = OutputOptions {
        force: force == "true",
        ..options(path.as_ref())
    };
    faults::after(steps.parse().unwrap(), Fault::Killed);
    publish_with(&options, rejects.as_ref(), NEW).unwrap();
}

#[test]
fn a_kill_at_any_step_mixes_nothing_and_the_next_run_completes_it() {
    for (name, force) in NAMES.iter().flat_map(|name| [(name, false), (name, true)]) {
        for steps in 0.. {
            let (folder, path, rejects) = begun(name, force);
            let wanted = format!("{}|{}|{steps}|{force}", path.display(), rejects.display());
            let killed = std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "output::tests::stopped::a_publication_to_be_killed",
                ])
                .env("EMBEDCTL_TEST_KILLED", wanted)
                .output()
                .unwrap();
            let context = format!("{name}, force {force}, step {steps}");
            standing(&path, &rejects).assert_unmixed(&context);
            // Whoever writes there next finds a whole output.
            let files = RunFiles::new();
            let options = forced(&path);
            let next = writer_of(&options, &files).unwrap();
            drop(next);
            let now = standing(&path, &rejects);
            assert_eq!(now, Standing::whole(name, NEW), "{context}");
            let listing = listing(folder.path());
            assert!(
                listing.iter().all(|name| !name.starts_with('.')),
                "{context}: {listing:?}"
            );
            match killed.status.code() {
                Some(9) => assert!(
                    files.take_notes()[0].contains("this is done now"),
                    "{context}"
                ),
                _ => {
                    assert!(
                        killed.status.success() && steps > 0,
                        "{context}: {killed:?}"
                    );
                    break;
                }
            }
        }
    }
}

#[test]
fn a_plan_of_somebody_elses_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.jsonl");
    write(&options(&path), OLD).unwrap();
    let plan = at(&folder, ".out.jsonl.embedctl-publishing");
    for text in ["", "{", r#"{"replace":true,"files":[]}"#] {
        fs::write(&plan, text).unwrap();
        drop(writer(&forced(&path)).unwrap());
        assert!(!plan.exists(), "what was not begun goes: {text}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::write(&plan, "").unwrap();
        fs::set_permissions(&plan, fs::Permissions::from_mode(0o666)).unwrap();
        drop(writer(&forced(&path)).unwrap());
        assert!(plan.exists(), "anybody may have written that");
    }
}
