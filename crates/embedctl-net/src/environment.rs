//! Variables of the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// Looks a variable up.
pub type Lookup<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// Reads variables; one that is empty counts as unset.
#[derive(Clone, Copy)]
pub struct Environment<'a>(pub &'a Lookup<'a>);

impl Environment<'_> {
    fn raw(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// The text of a variable, without blanks around it.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let text = self.raw(name)?.to_string_lossy().trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The path in a variable; `~` is the home folder.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.raw(name)?);
        // As Python's expanduser does it.
        match path.strip_prefix("~") {
            Ok(rest) => Some(self.home_folder()?.join(rest)),
            Err(_) => Some(path),
        }
    }

    /// The home folder of the user.
    #[must_use]
    pub fn home_folder(&self) -> Option<PathBuf> {
        let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        self.raw(name)
            .map(PathBuf::from)
            .or_else(std::env::home_dir)
    }

    /// Whether a variable says yes, as Python packages read it.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| {
            ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
        })
    }
}
