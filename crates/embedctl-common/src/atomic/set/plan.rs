//! The order in which files get their names: forwards, and back.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Sidecars;
use super::member::{Member, Name, Refusal};
use crate::atomic::disk::{inode, parent, sync_folder};
use crate::atomic::file::AtomicFile;
use crate::atomic::names::{beside, random, with_ending};
use crate::atomic::step;

/// A file and the name that it gets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Whether files that stand under these names are replaced.
    replace: bool,
    /// The last one is the main file.
    pub(super) files: Vec<Member>,
    #[serde(skip)]
    sidecars: Sidecars,
}

impl Plan {
    pub(super) fn new(files: &[&AtomicFile], replace: bool, sidecars: Sidecars) -> Self {
        let main = files.last().expect("a set has a main file").name();
        let mark = format!("unpublished-{:08x}", random() >> 32);
        let main_kept = with_mark(main, &mark);
        let member = |new: Option<&Path>, name: &Path| {
            let ending = name.as_os_str().as_encoded_bytes();
            let ending = ending.strip_prefix(main.as_os_str().as_encoded_bytes());
            let kept = match ending.and_then(|ending| std::str::from_utf8(ending).ok()) {
                Some(ending) => with_ending(&main_kept, ending),
                None => with_mark(name, &mark),
            };
            Member {
                new: new.map(|new| Name::new(new.to_path_buf())),
                inode: new.and_then(inode),
                name: Name::new(name.to_path_buf()),
                old: Name::new(beside(name, ".old")),
                kept: Name::new(kept),
            }
        };
        let replaced = replace && fs::symlink_metadata(main).is_ok();
        let former = sidecars.existing(main);
        let former = former
            .filter(|path| replaced && !files.iter().any(|file| file.name() == path))
            .map(|path| member(None, &path));
        let new = files
            .iter()
            .map(|file| member(Some(file.path()), file.name()));
        Self {
            replace,
            files: former.chain(new).collect(),
            sidecars,
        }
    }

    /// With paths as they are written: names in the main file's folder, from the root elsewhere.
    pub(super) fn relative(&self) -> Self {
        let folder = self.main().name.path().parent();
        let written = |name: &Name| {
            let path = name.path();
            Name::new(match path.file_name() {
                Some(own) if path.parent() == folder => own.into(),
                _ => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
            })
        };
        self.each(|name| Some(written(name)))
            .expect("every name is kept")
    }

    /// As it was before [`Plan::relative`]; `None` if this is no plan for `main`.
    pub(super) fn absolute(&self, main: &Path, sidecars: Sidecars) -> Option<Self> {
        let last = self.files.last()?;
        (last.name.path().file_name() == main.file_name() && last.new.is_some()).then_some(())?;
        let plan = self.each(|name| Some(Name::new(main.with_file_name(name.path()))))?;
        Some(Self { sidecars, ..plan })
    }

    fn each(&self, change: impl Fn(&Name) -> Option<Name>) -> Option<Self> {
        let member = |member: &Member| {
            Some(Member {
                new: match &member.new {
                    Some(new) => Some(change(new)?),
                    None => None,
                },
                inode: member.inode,
                name: change(&member.name)?,
                old: change(&member.old)?,
                kept: change(&member.kept)?,
            })
        };
        Some(Self {
            replace: self.replace,
            files: self.files.iter().map(member).collect::<Option<_>>()?,
            sidecars: self.sidecars,
        })
    }

    fn main(&self) -> &Member {
        self.files.last().expect("a set has a main file")
    }

    /// Where the new main file is, once the plan was undone as far as possible.
    pub(super) fn kept(&self) -> PathBuf {
        let main = self.main();
        let named = Some(&main.name).filter(|_| main.has_name());
        let kept = [Some(&main.kept), main.new.as_ref(), named];
        let kept = kept.into_iter().flatten().find(|name| name.exists());
        kept.unwrap_or(&main.kept).path().to_path_buf()
    }

    /// Gives the files their names. Resumes where a stopped run has ended.
    pub(super) fn carry_out(&self) -> Result<(), Refusal> {
        let (main, others) = self.files.split_last().expect("a set has a main file");
        for file in &self.files {
            file.look().map_err(file.refusal())?;
        }
        for file in others {
            file.clear_name(self.replace, self.sidecars)
                .map_err(file.refusal())?;
        }
        main.replace(self.replace, !others.is_empty())
            .map_err(main.refusal())?;
        // The main file comes last, where it has not replaced another.
        for file in &self.files {
            file.take_name().map_err(file.refusal())?;
        }
        for file in &self.files {
            let _ = sync_folder(parent(file.name.path()));
        }
        for file in &self.files {
            let _ = step::remove_file(file.old.path());
        }
        Ok(())
    }

    /// Puts everything back, and new files under the names that they keep. Resumes where a stopped run
    /// has ended. A file that the system does not let be renamed stays. Returns whether every old file has its name again.
    pub(super) fn undo(&self) -> bool {
        let (main, others) = self.files.split_last().expect("a set has a main file");
        for file in others {
            file.keep();
        }
        let name = main.name.path();
        // So that there is no moment without a main file: the old one is renamed over it.
        if main.has_name() && step::hard_link(name, main.kept.path()).is_ok() {
            if let Some(new) = main.waiting() {
                let _ = step::remove_file(new);
            }
            if !main.old.exists() {
                let _ = step::remove_file(name);
            }
        } else {
            main.keep();
        }
        if main.old.exists() {
            if !main.name.exists() || main.has_name() {
                let _ = step::rename(main.old.path(), name);
            } else if inode(main.old.path()) == inode(name) {
                let _ = step::remove_file(main.old.path());
            }
        }
        for file in others {
            if file.old.exists() && !file.name.exists() {
                let _ = step::rename(file.old.path(), file.name.path());
            }
        }
        let _ = sync_folder(parent(name));
        !self.leaves_old()
    }

    /// Whether an old file stands aside.
    pub(super) fn leaves_old(&self) -> bool {
        self.files.iter().any(|file| file.old.exists())
    }
}

/// `out.npy` with a mark: `out.MARK.npy`.
fn with_mark(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(mark);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}
