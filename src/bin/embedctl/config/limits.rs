//! The options that settings files may not set.
//!
//! A project's file is its author's: a user who reads the project, or works in a shared folder, must not run a
//! library or a program that the file names, send data or secrets to an address in it, or write outside of the
//! folder. Such keys are for the user's own file, the environment and the command line. The user's own file may name
//! them as long as nobody else can write to it.

use clap::{Arg, ValueHint};
use embedctl::runtime;

use super::places::FileKind;

/// Words in names of options that lead to code, to secrets or to where these are sent.
const GRAVE: &str =
    "lib library plugin provider-option probe token endpoint storage cache listen host port origin";

/// Options by which files are replaced.
const REPLACES: [&str; 2] = ["force", "overwrite"];

/// The option by which kept files are removed.
const REMOVES: &str = "kind";

/// Why an entry may not stand in that file of that kind; `None`: it may.
pub(super) fn forbids(
    kind: FileKind,
    file: &std::path::Path,
    arg: &Arg,
    key: &str,
) -> Option<String> {
    let grave = GRAVE
        .split_ascii_whitespace()
        .any(|word| key == word || key.split('-').any(|part| part == word));
    match kind {
        FileKind::Project => {
            let what = if grave {
                "could run its author's code or disclose secrets to them"
            } else if key == REMOVES {
                "could have files of its user removed"
            } else if REPLACES.contains(&key) || (is_path(arg) && key != "model") {
                "could write to places chosen by its author"
            } else {
                return None;
            };
            Some(format!(
                "a project's file may not set {key}, which {what}; put it into your own settings file (`embedctl config` shows its path), or pass it \
                 as an option"
            ))
        }
        FileKind::User | FileKind::Named if grave => {
            let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
            let doubt = runtime::doubt(&absolute)?;
            Some(format!(
                "{key} can run code or disclose secrets, and other users can change the file: \
                 {doubt}; remove their write permission, or pass it as an option"
            ))
        }
        FileKind::User | FileKind::Named => None,
    }
}

/// Whether an option takes a path.
pub(super) fn is_path(arg: &Arg) -> bool {
    use ValueHint::{AnyPath, DirPath, ExecutablePath, FilePath};
    matches!(
        arg.get_value_hint(),
        AnyPath | DirPath | ExecutablePath | FilePath
    )
}
