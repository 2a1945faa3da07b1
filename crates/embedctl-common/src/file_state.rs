//! Whether a file is still the one that was read.
//!
//! A model's files are read one after another, some of them twice: once for their content, once for their hash. If
//! another program writes to a file meanwhile, the content and the hash could disagree. So the state of each file is
//! noted when it is opened, and compared when everything has been read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::Error;

/// The state of a file: it changes when the content changes or another file takes its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Bytes.
    pub length: u64,
    modified: Option<SystemTime>,
    inode: Inode,
}

/// Metadata that only the system can change.
#[cfg(unix)]
#[derive(Debug, Clone, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
    links: u64,
    /// Seconds and nanoseconds of the last change to content, owner, mode or names.
    changed: (i64, i64),
}

/// Metadata that only the system can change.
#[cfg(not(unix))]
#[derive(Debug, Clone, PartialEq, Eq)]
struct Inode {
    created: Option<SystemTime>,
}

impl FileState {
    /// The state described by `metadata`.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            inode: Inode::of(metadata),
        }
    }

    /// The state of an open file.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata()
            .map(|metadata| Self::from_metadata(&metadata))
    }

    /// Whether an open file still has the content that it had in this state. It may have lost its name meanwhile, as
    /// when another was renamed over it.
    #[must_use]
    pub fn has_content_of(&self, later: &Self) -> bool {
        self == later || {
            let mut renamed = later.clone();
            let lost_a_name = self.inode.take_names(&mut renamed.inode);
            lost_a_name && *self == renamed
        }
    }
}

impl Inode {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            device: metadata.dev(),
            number: metadata.ino(),
            links: metadata.nlink(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Self {
        Self {
            created: metadata.created().ok(),
        }
    }

    /// Takes a change of the number of names out of `later`; `false` where it has as many.
    #[cfg(unix)]
    fn take_names(&self, later: &mut Self) -> bool {
        let differs = self.links != later.links;
        if differs {
            (later.links, later.changed) = (self.links, self.changed);
        }
        differs
    }

    #[cfg(not(unix))]
    fn take_names(&self, _: &mut Self) -> bool {
        false
    }
}

/// The error for a file that has changed since it was read.
#[must_use]
pub fn changed(path: &Path) -> Error {
    Error::model(
        path.display(),
        "was changed while embedctl was reading the model: another program wrote to it or replaced it",
    )
    .with_remedy("run again when nothing writes to the model's files; replace them by renaming new ones over them")
}

/// Files by their paths, with the states in which they were opened; `None` for missing files.
pub type Noted = BTreeMap<PathBuf, Option<FileState>>;

thread_local! {
    /// The files that this thread has opened, while [`noted`] runs.
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Runs `work`, and says which files it has opened in this thread by [`crate::small_file`], each in the state in which
/// it was opened first.
pub fn noted<T>(work: impl FnOnce() -> T) -> (T, Noted) {
    /// Restores the earlier notes, also after a panic.
    struct Outer(Option<Noted>);
    impl Drop for Outer {
        fn drop(&mut self) {
            NOTED.set(self.0.take());
        }
    }
    let outer = Outer(NOTED.replace(Some(Noted::new())));
    let result = work();
    let noted = NOTED.take().unwrap_or_default();
    drop(outer);
    (result, noted)
}

/// A file was opened, or was not there.
pub fn note(path: &Path, metadata: Option<&Metadata>) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted
            && !noted.contains_key(path)
        {
            let state = metadata.map(FileState::from_metadata);
            noted.insert(path.to_path_buf(), state);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::small_file;

    #[test]
    fn what_was_opened_is_noted_with_its_first_state() {
        let folder = tempfile::tempdir().unwrap();
        let (there, gone) = (folder.path().join("there"), folder.path().join("gone"));
        fs::write(&there, "one").unwrap();
        let first = FileState::of(&File::open(&there).unwrap()).unwrap();
        let ((), noted) = noted(|| {
            let ((), inner) = noted(|| drop(small_file::open(&gone)));
            assert_eq!(inner, Noted::from([(gone.clone(), None)]));
            small_file::read(&there, 9).unwrap();
            fs::write(&there, "three").unwrap();
            small_file::read(&there, 9).unwrap();
        });
        assert_eq!(noted, Noted::from([(there.clone(), Some(first))]));
        // Files are not noted any more.
        small_file::read(&there, 9).unwrap();
        assert_eq!(NOTED.take(), None);
    }

    #[test]
    #[cfg(unix)]
    fn content_that_changes_is_seen_and_a_new_name_is_none() {
        use std::io::Write;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        let begin = || {
            let _ = fs::remove_file(&path);
            fs::write(&path, "0123456789").unwrap();
            let file = File::open(&path).unwrap();
            let long_ago = SystemTime::UNIX_EPOCH;
            file.set_modified(long_ago).unwrap();
            let state = FileState::of(&file).unwrap();
            (file, state)
        };
        let (file, state) = begin();
        assert!(state.has_content_of(&FileState::of(&file).unwrap()));
        // Replaced, as downloads do it: the open file has not changed.
        let other = folder.path().join("other");
        fs::write(&other, "abcdefghij").unwrap();
        fs::rename(&other, &path).unwrap();
        let later = FileState::of(&file).unwrap();
        assert!(state != later && state.has_content_of(&later));
        let replaced = FileState::of(&File::open(&path).unwrap()).unwrap();
        assert!(!state.has_content_of(&replaced));
        // Written to in place, in every way.
        let writers: [fn(&Path); 4] = [
            |path| fs::write(path, "abcdefghij").unwrap(),
            |path| fs::write(path, "").unwrap(),
            |path| {
                File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_len(4)
                    .unwrap();
            },
            |path| {
                File::options()
                    .append(true)
                    .open(path)
                    .unwrap()
                    .write_all(b"!")
                    .unwrap();
            },
        ];
        for write in writers {
            let (file, state) = begin();
            write(&path);
            assert!(!state.has_content_of(&FileState::of(&file).unwrap()));
        }
    }
}
