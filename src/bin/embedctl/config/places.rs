//! Where files with settings stand.

use std::path::{Path, PathBuf};

/// The name of a project's file.
const PROJECT: &str = "embedctl.toml";

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Found in the working folder or a parent folder; written by the author of the project.
    Project,
    /// The user's own.
    User,
    /// Named by an option or the environment.
    Named,
}

impl FileKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Named => "named",
        }
    }
}

/// Where to look, the nearest first: the file that is named and no other; else the project's and the user's.
pub(super) fn all(named: Option<&PathBuf>) -> Vec<(PathBuf, FileKind)> {
    if let Some(path) = named {
        return vec![(path.clone(), FileKind::Named)];
    }
    let project = std::env::current_dir()
        .ok()
        .and_then(|folder| project(&folder));
    let user = config_folder().map(|folder| folder.join("config.toml"));
    let project = project.map(|path| (path, FileKind::Project));
    project
        .into_iter()
        .chain(user.map(|path| (path, FileKind::User)))
        .collect()
}

/// The nearest project's file in `folder` or above it.
fn project(folder: &Path) -> Option<PathBuf> {
    let mut files = folder.ancestors().map(|folder| folder.join(PROJECT));
    // Reading the file reports any problem with it.
    files.find(|file| file.symlink_metadata().is_ok())
}

/// The folder of a user's settings: `$XDG_CONFIG_HOME/embedctl`, or `~/.config/embedctl`; on Windows
/// `%APPDATA%\embedctl`. `None` where no home is known. Two variables and a home: no matter for the crate `etcetera`.
fn config_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    // As the specification has it, a relative path counts as none.
    let configured = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let config = configured
        .or_else(|| {
            if cfg!(windows) {
                variable("APPDATA").map(PathBuf::from)
            } else {
                None
            }
        })
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")))
        .filter(|path| path.is_absolute())?;
    Some(config.join("embedctl"))
}
