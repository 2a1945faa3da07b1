//! Files that may be run without the user naming them: loading a library or starting an interpreter runs its code.
//!
//! A file that the user named by an option is run. A file that is only found (beside the program, in an environment, on
//! `PATH`, among packages) must have an absolute path, since a relative one leads to another file in every folder, even
//! in a downloaded project's. Only the user and root may be able to write to it or to replace it.

use std::path::Path;

/// Why a file that was found is not to be run, or `None`: it may. On Windows, whose permissions have
/// another form, only relative paths are doubted.
#[must_use]
pub fn doubt(path: &Path) -> Option<String> {
    if !path.is_absolute() {
        return Some(
            "it was found by a relative path, which leads elsewhere in every folder; only absolute ones are followed"
                .into(),
        );
    }
    platform::path_fault(path)
}

#[cfg(unix)]
mod platform {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    const WRITABLE_BY_ALL: u32 = 0o002;
    const WRITABLE_BY_GROUP: u32 = 0o020;
    /// Users who may write to such a folder may add files, but remove or rename only their own.
    const STICKY: u32 = 0o1000;

    /// The fault of a file: of itself, of the folders in its path, or of the folders of the file that it links to.
    pub(super) fn path_fault(path: &Path) -> Option<String> {
        let real = fs::canonicalize(path).ok();
        let named = path.ancestors().find_map(|part| fault_of(part, path));
        named.or_else(|| {
            let real = real.as_deref().filter(|real| *real != path)?;
            real.ancestors().find_map(|part| fault_of(part, real))
        })
    }

    /// The fault of `part`, which is `whole` itself or one of the folders in its path.
    fn fault_of(part: &Path, whole: &Path) -> Option<String> {
        let found = fs::symlink_metadata(part).ok()?;
        if ![0, own_user()].contains(&found.uid()) {
            let owner = found.uid();
            return Some(format!(
                "{} belongs to another user ({owner})",
                part.display()
            ));
        }
        // In the folder of the file itself, a file that others add could be loaded with it.
        let is_last = part == whole || Some(part) == whole.parent();
        let keeps_others_out = found.is_dir() && found.mode() & STICKY != 0 && !is_last;
        let is_open = !found.is_symlink() && is_open(&found, part) && !keeps_others_out;
        is_open.then(|| format!("others than you and root may write to {}", part.display()))
    }

    fn is_open(found: &Metadata, part: &Path) -> bool {
        let by_group = found.mode() & WRITABLE_BY_GROUP != 0 && !is_group_of_trust(found, part);
        found.mode() & WRITABLE_BY_ALL != 0 || by_group
    }

    /// Groups with root's rights, and a user's own group, which has the user's number.
    fn is_group_of_trust(found: &Metadata, part: &Path) -> bool {
        let administrators = if cfg!(target_vendor = "apple") {
            found.gid() == 80 // admin
        } else {
            // Debian's `staff`, which may install into /usr/local for all.
            found.gid() == 50 && found.uid() == 0 && part.starts_with("/usr/local")
        };
        found.gid() == 0 || found.gid() == own_user() || administrators
    }

    fn own_user() -> u32 {
        // SAFETY: the call takes nothing and cannot fail.
        unsafe { libc::geteuid() }
    }
}

#[cfg(not(unix))]
mod platform {
    use std::path::Path;

    pub(super) fn path_fault(_: &Path) -> Option<String> {
        None
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    struct TrustFolder(tempfile::TempDir);

    impl TrustFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn file(&self, path: &str) -> PathBuf {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        }

        fn mode(&self, path: &str, mode: u32) {
            fs::set_permissions(self.0.path().join(path), Permissions::from_mode(mode)).unwrap();
        }
    }

    #[test]
    fn what_is_ones_own_is_trusted() {
        let place = TrustFolder::new();
        assert_eq!(doubt(&place.file("a/b/lib.so")), None);
    }

    #[test]
    fn relative_paths_are_not() {
        for path in ["", "lib.so", "./lib.so", "../lib/lib.so"] {
            assert!(
                doubt(Path::new(path)).unwrap().contains("relative"),
                "{path}"
            );
        }
    }

    #[test]
    fn what_others_may_write_to_is_not() {
        let place = TrustFolder::new();
        let file = place.file("a/b/lib.so");
        for (part, mode, trusted) in [
            ("a/b/lib.so", 0o666, false),
            ("a/b/lib.so", 0o644, true),
            ("a/b", 0o777, false),
            // Others may add a file that is loaded along.
            ("a/b", 0o1777, false),
            ("a/b", 0o755, true),
            ("a", 0o777, false),
            ("a", 0o1777, true),
            ("a", 0o755, true),
        ] {
            place.mode(part, mode);
            let doubt = doubt(&file);
            assert_eq!(doubt.is_none(), trusted, "{part} {mode:o}: {doubt:?}");
            if let Some(doubt) = doubt {
                assert!(doubt.contains(part), "{doubt}");
            }
        }
    }

    #[test]
    fn links_are_followed_to_their_ends() {
        let place = TrustFolder::new();
        let file = place.file("open/lib.so");
        place.file("closed/other");
        place.mode("open", 0o777);
        let link = place.0.path().join("closed/lib.so");
        symlink(file, &link).unwrap();
        assert!(doubt(&link).unwrap().contains("/open"));
        place.mode("open", 0o755);
        assert_eq!(doubt(&link), None);
    }

    #[test]
    fn a_file_of_another_user_is_not() {
        let place = TrustFolder::new();
        let file = place.file("lib.so");
        // Only root may give files away.
        if std::os::unix::fs::chown(&file, Some(12345), None).is_ok() {
            assert!(doubt(&file).unwrap().contains("another user (12345)"));
        }
    }
}
