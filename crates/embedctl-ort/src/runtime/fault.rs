//! Why a library cannot be used at all, and the remedy.

use super::search_path::System;
use embedctl_common::error::Cause;

/// Why a library cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LibraryFault {
    #[error("the file is empty")]
    Empty,
    /// Its bytes, and how many there should be.
    #[error("the file is cut short: it has {0} bytes of at least {1}")]
    CutShort(u64, u64),
    #[error("it is a pointer to a file in Git LFS, not the file")]
    LfsPointer,
    #[error("it is not a shared library")]
    NoLibrary,
    #[error("it is a library for {0}, but this is {here}", here = System::HERE)]
    OtherSystem(System),
    /// The processors that it is for, by the names of [`std::env::consts::ARCH`].
    #[error("foreign architecture: the file is for {}, but this program is for {}", .0.join(" and "), std::env::consts::ARCH)]
    OtherProcessor(Vec<String>),
    #[error("it is not an ONNX Runtime library (OrtGetApiBase is missing)")]
    NoOnnxRuntime,
    /// Its version, which is too old, and the oldest that works.
    #[error("it is version {0}, but 1.{1} or later is needed")]
    Old(String, u32),
    /// Its version, which is not one of ONNX Runtime's, and the oldest that works.
    #[error("its version is '{0}', but 1.{1} or later is needed")]
    NoVersion(String, u32),
    /// The loader's or the library's message, or how the process that probed it ended.
    #[error("{0}")]
    Words(String),
}

impl LibraryFault {
    /// The message and the remedy.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            reason: self.to_string(),
            remedy: self.remedy(),
        }
    }

    /// The remedy. Of the loader's and the C library's messages only parts are matched that are the same everywhere.
    pub(crate) fn remedy(&self) -> Option<String> {
        match self {
            Self::Empty | Self::CutShort(..) => Some("install the package again".to_owned()),
            Self::OtherProcessor(_) => {
                Some(format!("install the package for {}", std::env::consts::ARCH))
            }
            Self::Old(..) | Self::NoVersion(..) => {
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
            (LibraryFault::Old("1.23.2".into(), 24), "--upgrade"),
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
