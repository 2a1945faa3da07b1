//! Tuned settings, kept between runs: `bench --tune` saves them, `embed` uses them.
//!
//! A profile belongs to an ONNX file, a machine (processor and usable cores) and a provider. It changes
//! how fast a run is and nothing about its vectors, unless the user let tuning choose between precisions.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::atomic;
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::provider::ProviderOption;
use crate::setting::NO_PROFILE;

/// Version of the file's schema.
pub const SCHEMA: u32 = 1;

/// Settings that were found to be faster than the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`] of this version.
    pub schema: u32,
    /// Hub id or folder of the model it was made with, for people.
    pub model: String,
    /// [`fingerprint`] of the ONNX file that is taken where none is named.
    pub fingerprint: String,
    /// The machine's identity as far as speed goes: processor and usable cores.
    pub machine: String,
    /// The processor's name, for people.
    pub cpu: String,
    /// The provider that did the work.
    pub provider: String,
    /// Engine and version, such as `onnxruntime 1.31.1`, for people.
    pub engine: String,
    /// The texts it was made with.
    pub workload: String,
    /// Rows a second with these settings, as a multiple of those with the defaults: median.
    pub speedup: f64,
    /// When, in UTC.
    pub date: String,
    /// The settings.
    pub settings: Tuned,
}

/// Settings of a run; for an absent setting the default is as fast.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// The provider that `auto` should try first, where tuning had several to choose from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub provider: Option<String>,
    /// The kind of the ONNX file, where tuning had several to choose from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub precision: Option<String>,
    /// Options of the provider, where tuning had several to choose from.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub provider_options: Vec<ProviderOption>,
    /// Worker threads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threads: Option<usize>,
    /// Padded tokens in a batch at most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub batch_tokens: Option<usize>,
    /// Records in a window at most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<usize>,
}

impl Profile {
    /// Writes it into `folder` for runs that ask for `provider` (which may be `auto`).
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save(&self, folder: &Path, provider: &str) -> Result<PathBuf> {
        fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
        let path = path(folder, &self.fingerprint, &self.machine, provider);
        let mut json = serde_json::to_string_pretty(self)
            .map_err(|error| Error::internal(format!("writing a profile: {error}")))?;
        json.push('\n');
        // A run that looks now finds the old one or this one.
        atomic::replace(&path, json.as_bytes())
            .map_err(|error| Error::io("write", &path, error))?;
        Ok(path)
    }

    /// The profile for an ONNX file on a machine, and the place where it would be; `None` where there is
    /// none. A file of another version's schema counts as none.
    ///
    /// # Errors
    /// If there is one and it cannot be read.
    pub fn find(
        folder: &Path,
        fingerprint: &str,
        machine: &str,
        provider: &str,
    ) -> Result<(Option<Self>, PathBuf)> {
        let path = path(folder, fingerprint, machine, provider);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((None, path)),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let damaged = |reason: String| {
            Error::usage(format!(
                "{} is not a tuned profile ({reason})",
                path.display()
            ))
            .with_remedy(format!("remove it, or use {NO_PROFILE}"))
        };
        #[derive(Deserialize)]
        struct ProfileVersion {
            schema: u32,
        }
        let version: ProfileVersion =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if version.schema != SCHEMA {
            return Ok((None, path));
        }
        let profile: Self =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let Tuned {
            threads,
            batch_tokens,
            window,
            ..
        } = profile.settings;
        if [threads, batch_tokens, window].contains(&Some(0)) {
            return Err(damaged("a setting is 0".to_owned()));
        }
        Ok((Some(profile), path))
    }
}

fn path(folder: &Path, fingerprint: &str, machine: &str, provider: &str) -> PathBuf {
    // A list of providers is one name; nothing in it is a separator of paths.
    let provider = provider.replace(',', "+");
    let model = &fingerprint[..fingerprint.len().min(16)];
    folder.join(format!("{model}-{machine}-{provider}.json"))
}

/// Where profiles are kept: `profiles` in [`config_folder`].
#[must_use]
pub fn default_folder() -> Option<PathBuf> {
    config_folder().map(|folder| folder.join("profiles"))
}

/// The folder of a user's settings: `$XDG_CONFIG_HOME/embedctl`, or `~/.config/embedctl`; on Windows
/// `%APPDATA%\embedctl`. `None` where no home is known. Two variables and a home: no matter for the crate `etcetera`.
#[must_use]
pub fn config_folder() -> Option<PathBuf> {
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

/// Identifies an ONNX file as far as speed goes, without reading all of it: a SHA-256 of its size and of
/// its first and last 256 KiB, which hold the graph or the weights' beginning, wherever the file lies.
///
/// # Errors
/// If it cannot be read.
pub fn fingerprint(onnx: &Path) -> Result<String> {
    const PART: u64 = 256 << 10;
    let read = || {
        let mut file = File::open(onnx)?;
        let size = file.metadata()?.len();
        let mut hash = Hash::default();
        hash.add(size.to_le_bytes());
        let mut part = Vec::new();
        (&mut file).take(PART).read_to_end(&mut part)?;
        hash.add(&part);
        if size > PART {
            file.seek(SeekFrom::Start(size - PART.min(size - PART)))?;
            part.clear();
            file.take(PART).read_to_end(&mut part)?;
            hash.add(&part);
        }
        Ok(hash.hex())
    };
    read().map_err(|error| Error::io("read", onnx, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Model, ModelOptions};

    fn profile(machine: &str) -> Profile {
        Profile {
            schema: SCHEMA,
            model: "org/model".into(),
            fingerprint: "0123456789abcdef0123".into(),
            machine: machine.into(),
            cpu: "a processor".into(),
            provider: "cpu".into(),
            engine: "onnxruntime 1.31.1".into(),
            workload: "mixed".into(),
            speedup: 1.25,
            date: "2026-11-21".into(),
            settings: Tuned {
                batch_tokens: Some(1024),
                ..Tuned::default()
            },
        }
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/on/demand");
        let saved = profile("here");
        let path = saved.save(&folder, "auto").unwrap();
        let find = |machine: &str, provider: &str| {
            Profile::find(&folder, &saved.fingerprint, machine, provider).unwrap()
        };
        assert_eq!(find("here", "auto"), (Some(saved.clone()), path));
        assert_eq!(find("here", "rten").0, None);
        assert_eq!(find("elsewhere", "auto").0, None);
        let names: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_a_newer_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let machine = "here";
        let (_, path) = Profile::find(folder.path(), "abc", machine, "cpu").unwrap();
        let find = || Profile::find(folder.path(), "abc", machine, "cpu");
        for wrong in ["", "{}", "{\"schema\":1}"] {
            fs::write(&path, wrong).unwrap();
            let error = find().unwrap_err();
            assert!(error.to_string().contains("no_profile"), "{error}");
        }
        let mut zero = profile(machine);
        zero.settings.threads = Some(0);
        fs::write(&path, serde_json::to_string(&zero).unwrap()).unwrap();
        assert!(find().is_err());
        fs::write(&path, "{\"schema\":2,\"more\":true}").unwrap();
        assert_eq!(find().unwrap().0, None);
    }

    #[test]
    fn a_fingerprint_is_the_files_and_not_its_places() {
        let print = |folder: &str| {
            let options = ModelOptions {
                model: folder.into(),
                ..ModelOptions::default()
            };
            fingerprint(&Model::main_file(&options).unwrap()).unwrap()
        };
        let small = print("fixtures/parity/bert-mean-legacy/model");
        assert_eq!(small.len(), 64);
        assert_eq!(small, print("./fixtures/parity/bert-mean-legacy/model/"));
        assert_ne!(small, print("fixtures/models/all-MiniLM-L6-v2"));
    }
}
