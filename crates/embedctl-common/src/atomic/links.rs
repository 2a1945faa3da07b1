//! Symbolic links under a name that is to be written.
//!
//! The owner of a link decides which file is written. So a link is followed if it belongs to this user or to root, and is
//! an error if it belongs to another user: in a folder that is shared, such as `/tmp`, anybody can put a link under a name that this
//! program is going to replace. Links are followed once, before a run writes anything. A link that appears later is
//! replaced by the file or refused, since a rename follows none.
//!
//! A folder on the way may also be a link of another user, unless it lies where every user can put one.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

use super::disk::{file_number, parent};
use super::file::AtomicFile;
use super::pending::PendingFiles;

/// Links followed at most, as on Linux.
const MAX_LINKS: usize = 40;

/// The path that a name leads to, which is no link; the file need not exist. A path for which `is_end` holds is not
/// looked at.
///
/// # Errors
/// If a link belongs to another user or leads to itself.
pub fn follow(name: &Path, is_end: impl Fn(&Path) -> bool) -> io::Result<PathBuf> {
    walk(name, is_end, |link, target| {
        check_folders(parent(link))?;
        match target {
            Some(target) if !is_trusted(link)? => Err(of_another(link, target)),
            _ => Ok(()),
        }
    })
}

/// The same over links of any user, for a name that is only compared with others.
///
/// # Errors
/// If a link leads to itself.
pub fn leads_to(name: &Path, is_end: impl Fn(&Path) -> bool) -> io::Result<PathBuf> {
    walk(name, is_end, |_, _| Ok(()))
}

/// Follows links by hand, since one that leads to nothing leads somewhere, too. Each step, a link with its target or the
/// end without one, is checked.
fn walk(
    name: &Path,
    is_end: impl Fn(&Path) -> bool,
    check: impl Fn(&Path, Option<&Path>) -> io::Result<()>,
) -> io::Result<PathBuf> {
    // Without a slash at its end, which would be followed.
    let mut path: PathBuf = name.components().collect();
    for _ in 0..=MAX_LINKS {
        if is_end(&path) {
            return Ok(path);
        }
        let target = fs::read_link(&path).ok();
        check(&path, target.as_deref())?;
        match target {
            Some(target) => path = parent(&path).join(target),
            None => return Ok(path),
        }
    }
    Err(circle())
}

/// Refuses a folder that is reached over another user's link, if every user could have put the link there.
fn check_folders(folder: &Path) -> io::Result<()> {
    let Ok(folder) = std::path::absolute(folder) else {
        return Ok(());
    };
    let steps = |path: &Path| -> Vec<OsString> {
        (path.components())
            .map(|step| step.as_os_str().to_owned())
            .collect()
    };
    let mut ahead = VecDeque::from(steps(&folder));
    let (mut path, mut links) = (PathBuf::new(), 0);
    while let Some(step) = ahead.pop_front() {
        match Path::new(&step).components().next() {
            Some(Component::ParentDir) => {
                path.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            _ => path.push(&step),
        }
        let Ok(target) = fs::read_link(&path) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(circle());
        }
        if is_open_to_all(parent(&path)) && !is_trusted(&path)? {
            return Err(of_another(&path, &target));
        }
        path.pop();
        for step in steps(&target).into_iter().rev() {
            ahead.push_front(step); // one from the root starts over, since a root replaces what it is pushed to
        }
    }
    Ok(())
}

/// Whether a link is this user's or root's.
#[cfg(unix)]
fn is_trusted(link: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::symlink_metadata(link)?.uid();
    // SAFETY: the call takes nothing and cannot fail.
    Ok(owner == 0 || owner == unsafe { libc::geteuid() })
}

/// Making a link is a right of its own here, which only administrators and developers have.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)] // as on Unix
fn is_trusted(_: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Whether every user can put something into a folder.
#[cfg(unix)]
fn is_open_to_all(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_open_to_all(_: &Path) -> bool {
    false
}

fn of_another(link: &Path, target: &Path) -> io::Error {
    let text = format!(
        "{} is a symbolic link of another user, and leads to {}; remove the link, or name the file itself",
        link.display(),
        target.display()
    );
    io::Error::new(ErrorKind::PermissionDenied, text)
}

fn circle() -> io::Error {
    io::Error::other("it is a symbolic link that leads to itself")
}

/// Opens a device or a pipe for writing, by its own name: no link is followed, and no regular file is written over that
/// has taken the name. Only if `waits`, a pipe without a reader is waited for.
///
/// # Errors
/// If the system refuses, or a link or a regular file is there.
pub fn open_special(path: &Path, waits: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | if waits { 0 } else { libc::O_NONBLOCK },
    );
    #[cfg(not(unix))]
    let _ = waits;
    let file = options.open(path)?;
    if file.metadata().is_ok_and(|opened| opened.is_file()) {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "something else appeared under that name during the run",
        ));
    }
    Ok(file)
}

/// A small file that is written whole, once or again and again, under a name that a user has given.
#[derive(Debug)]
pub struct NamedFile {
    path: PathBuf,
    folder: Option<(u64, u64)>,
}

impl NamedFile {
    /// The file that `name` leads to now, which need not exist.
    ///
    /// # Errors
    /// If another user's link is in the way, or the name is that of anything but a regular file.
    pub fn find(name: &Path) -> io::Result<Self> {
        let path = follow(name, |_| false)?;
        match fs::symlink_metadata(&path) {
            Ok(there) if !there.is_file() => {
                return Err(io::Error::other("it exists and is not a regular file"));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let folder = file_number(&fs::metadata(parent(&path))?);
        Ok(Self { path, folder })
    }

    /// Gives the name to a file with that content, in the place of one that may have it. Does not wait for the disk.
    ///
    /// # Errors
    /// If the system refuses, or another folder has taken the place of the file's: the other file stands as it did.
    pub fn replace(&self, content: &[u8]) -> io::Result<()> {
        let file = AtomicFile::create(&self.path, &PendingFiles::default())?;
        if file_number(&fs::metadata(parent(&self.path))?) != self.folder {
            return Err(io::Error::other(
                "another folder has taken the place of the file's",
            ));
        }
        file.file().write_all(content)?;
        file.replace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_named_file_is_replaced_whole_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats.json");
        let named = NamedFile::find(&path).unwrap();
        for text in ["one", "three"] {
            named.replace(text.as_bytes()).unwrap();
            assert_eq!(content(&path), text);
        }
        assert!(NamedFile::find(folder.path()).is_err());
        assert!(NamedFile::find(&folder.path().join("none/stats.json")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Links: [`follow`] alone decides about them, for all files that are put down.
    #[cfg(unix)]
    mod links {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};

        use super::*;

        /// No user has that number here, which only root can give to a file.
        const ANOTHER: u32 = 61_234;

        #[test]
        fn own_links_are_followed_once() {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir(at("store")).unwrap();
            symlink("middle", at("link")).unwrap();
            symlink("store/file", at("middle")).unwrap();
            let named = NamedFile::find(&at("link")).unwrap();
            named.replace(b"one").unwrap();
            assert_eq!(content(&at("store/file")), "one");
            assert!(at("link").is_symlink() && at("middle").is_symlink());
            // Planted during the run.
            fs::write(at("precious"), "mine").unwrap();
            fs::remove_file(at("store/file")).unwrap();
            symlink(at("precious"), at("store/file")).unwrap();
            named.replace(b"two").unwrap();
            assert_eq!(content(&at("precious")), "mine");
            assert_eq!(content(&at("store/file")), "two");
            assert!(!at("store/file").is_symlink());
            // The folder is another one now.
            fs::rename(at("store"), at("old")).unwrap();
            fs::create_dir(at("victim")).unwrap();
            fs::write(at("victim/file"), "mine").unwrap();
            symlink("victim", at("store")).unwrap();
            assert!(named.replace(b"three").is_err());
            assert_eq!(content(&at("victim/file")), "mine");
            assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 1);
            symlink("loop", at("loop")).unwrap();
            let error = NamedFile::find(&at("loop")).unwrap_err();
            assert!(error.to_string().contains("leads to itself"), "{error}");
        }

        /// In every position: the name, a link that it leads to, a folder; and in folders of every kind.
        #[test]
        fn links_of_others_are_refused() {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            for (mode, name) in [(0o755, "plain"), (0o1777, "sticky"), (0o777, "open")] {
                let home = at(name);
                fs::create_dir_all(home.join("real")).unwrap();
                fs::write(home.join("real/file"), "mine").unwrap();
                symlink("real/file", home.join("theirs")).unwrap();
                symlink("theirs", home.join("own")).unwrap();
                symlink("real", home.join("folder")).unwrap();
                for link in ["theirs", "folder"] {
                    if lchown(home.join(link), Some(ANOTHER), None).is_err() {
                        eprintln!("skipped: only root can give a link to another user");
                        return;
                    }
                }
                fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
                for (path, is_refused) in [
                    ("theirs", true),
                    ("own", true),
                    ("folder/file", mode != 0o755),
                    ("folder/new", mode != 0o755),
                    ("real/file", false),
                    ("real/../real/new", false),
                ] {
                    let found = NamedFile::find(&home.join(path));
                    assert_eq!(found.is_err(), is_refused, "{name}/{path}: {found:?}");
                    if let Err(error) = found {
                        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
                        assert!(error.to_string().contains("of another user"), "{error}");
                    }
                }
            }
        }

        #[test]
        fn what_is_no_device_any_more_is_not_written_over() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("device");
            let open = || open_special(&path, true);
            assert!(open_special(Path::new("/dev/null"), true).is_ok());
            fs::write(&path, "mine").unwrap();
            assert!(open().is_err());
            fs::remove_file(&path).unwrap();
            symlink("/dev/null", &path).unwrap();
            assert!(open().is_err());
        }
    }
}
