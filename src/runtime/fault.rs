//! Why a library cannot be used at all, and what helps.

use std::fmt;

use super::search_path::System;
use crate::error::Cause;

/// Why a library cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LibraryFault {
    /// Its file is empty.
    Empty,
    /// It has so many bytes, and should have so many.
    CutShort(u64, u64),
    /// It is a pointer to a file in Git LFS.
    LfsPointer,
    /// It is no shared library.
    NoLibrary,
    /// It is for another system.
    OtherSystem(System),
    /// It is for other processors, in the words of [`std::env::consts::ARCH`].
    OtherProcessor(Vec<String>),
    /// It has not the one function that every ONNX Runtime has.
    NoOnnxRuntime,
    /// It calls itself this version, which is too old or none.
    Version { said: String, needed: u32 },
    /// The loader, the library, or the end of the process that asked it, in their words.
    Words(String),
}

impl LibraryFault {
    /// Itself in words, and what helps against it.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            reason: self.to_string(),
            remedy: self.remedy(),
        }
    }

    /// What helps against it. Of foreign words (the loader's, the C library's) only those are looked at that
    /// are the same everywhere.
    pub(crate) fn remedy(&self) -> Option<String> {
        match self {
            Self::Empty | Self::CutShort(..) => Some("install the package again".to_owned()),
            Self::OtherProcessor(_) => {
                Some(format!("install the package for {}", std::env::consts::ARCH))
            }
            Self::Version { .. } => {
                Some("'pip install --upgrade' the package that it came from".to_owned())
            }
            Self::Words(words) if words.contains("GLIBC") && words.contains("not found") => Some(
                "this system's C library is older than the package wants: install an older version of the \
                 package, or use a newer system"
                    .to_owned(),
            ),
            Self::Words(words) => missing_file(words).map(|file| {
                format!("install the package that holds {file}, or add its folder to LD_LIBRARY_PATH")
            }),
            Self::LfsPointer => Some("'git lfs pull' gets it".to_owned()),
            Self::NoLibrary | Self::OtherSystem(_) | Self::NoOnnxRuntime => None,
        }
    }
}

impl fmt::Display for LibraryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::CutShort(length, needed) => {
                write!(
                    f,
                    "the file is cut short: it has {length} bytes of at least {needed}"
                )
            }
            Self::LfsPointer => f.write_str("it is a pointer to a file in Git LFS, not the file"),
            Self::NoLibrary => f.write_str("it is no shared library"),
            Self::OtherSystem(system) => write!(
                f,
                "it is a library for {}, and this is {}",
                system.name(),
                System::HERE.name()
            ),
            Self::OtherProcessor(machines) => write!(
                f,
                "foreign architecture: the file is for {}, and this program is for {}",
                machines.join(" and "),
                std::env::consts::ARCH
            ),
            Self::NoOnnxRuntime => f.write_str("it is no ONNX Runtime (OrtGetApiBase is missing)"),
            Self::Version { said, needed } if said.starts_with("1.") => {
                write!(f, "it is version {said}, and 1.{needed} or later is needed")
            }
            Self::Version { said, needed } => write!(
                f,
                "it calls itself version '{said}', and 1.{needed} or later is needed"
            ),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// `libcuda.so.1` in `libcuda.so.1: cannot open shared object file: No such file or directory`.
pub(super) fn missing_file(words: &str) -> Option<&str> {
    let before = words.split(": cannot open shared object file").next()?;
    if before.len() == words.len() {
        return None;
    }
    before
        .rsplit([' ', ':'])
        .next()
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_cannot_be_used_has_its_remedy() {
        let words = |words: &str| LibraryFault::Words(words.to_owned());
        for (fault, sign) in [
            (
                words(
                    "/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/libonnxruntime.so)",
                ),
                "older version of the package",
            ),
            (
                LibraryFault::Version {
                    said: "1.23.2".into(),
                    needed: 24,
                },
                "--upgrade",
            ),
            (LibraryFault::CutShort(5, 9), "again"),
            (
                words("libstdc++.so.6: cannot open shared object file: No such file or directory"),
                "libstdc++.so.6",
            ),
        ] {
            let remedy = fault.remedy().unwrap_or_default();
            assert!(remedy.contains(sign), "{fault}: {remedy}");
        }
        assert_eq!(words("it crashed (SIGSEGV)").remedy(), None);
    }
}
