//! Names of settings in messages. A message names the setting that is wrong or that would help; how it is written
//! depends on the program: this library says `max_length`, a command line `--max-length`.
//!
//! A program with options calls [`write_as_options`] once, when it starts.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether settings are written as options of a command line.
static AS_OPTIONS: AtomicBool = AtomicBool::new(false);

/// Makes messages write settings as options of a command line from now on: `--max-length`.
pub fn write_as_options() {
    AS_OPTIONS.store(true, Ordering::Relaxed);
}

/// A setting, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting(&'static str);

impl Setting {
    /// The setting's words, parted by hyphens: `max-length`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        self.0
    }

    fn write(self, f: &mut fmt::Formatter<'_>, as_option: bool) -> fmt::Result {
        if as_option {
            return write!(f, "--{}", self.0);
        }
        for (index, word) in self.0.split('-').enumerate() {
            if index > 0 {
                f.write_str("_")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, AS_OPTIONS.load(Ordering::Relaxed))
    }
}

/// The origin of a value, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetBy {
    /// A setting.
    Setting(Setting),
    /// A name that is the same everywhere: an environment variable, `-o`.
    Name(&'static str),
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(setting) => setting.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl From<Setting> for SetBy {
    fn from(setting: Setting) -> Self {
        Self::Setting(setting)
    }
}

/// `api-key-file`.
pub const API_KEY_FILE: Setting = Setting("api-key-file");
/// `baseline`.
pub const BASELINE: Setting = Setting("baseline");
/// `batch-size`.
pub const BATCH_SIZE: Setting = Setting("batch-size");
/// `batch-tokens`.
pub const BATCH_TOKENS: Setting = Setting("batch-tokens");
/// `cache-dir`.
pub const CACHE_DIR: Setting = Setting("cache-dir");
/// `calibration`.
pub const CALIBRATION: Setting = Setting("calibration");
/// `chunk`.
pub const CHUNK: Setting = Setting("chunk");
/// `late`.
pub const LATE: Setting = Setting("late");
/// `chunk-overlap`.
pub const CHUNK_OVERLAP: Setting = Setting("chunk-overlap");
/// `chunk-text`.
pub const CHUNK_TEXT: Setting = Setting("chunk-text");
/// `chunk-tokens`.
pub const CHUNK_TOKENS: Setting = Setting("chunk-tokens");
/// `corpus`.
pub const CORPUS: Setting = Setting("corpus");
/// `csv-delimiter`.
pub const CSV_DELIMITER: Setting = Setting("csv-delimiter");
/// `csv-escape`.
pub const CSV_ESCAPE: Setting = Setting("csv-escape");
/// `csv-null`.
pub const CSV_NULL: Setting = Setting("csv-null");
/// `csv-quote`.
pub const CSV_QUOTE: Setting = Setting("csv-quote");
/// `device`.
pub const DEVICE: Setting = Setting("device");
/// `dimensions`.
pub const DIMENSIONS: Setting = Setting("dimensions");
/// `dtype`.
pub const DTYPE: Setting = Setting("dtype");
/// `duration`.
pub const DURATION: Setting = Setting("duration");
/// `embedding-field`.
pub const EMBEDDING_FIELD: Setting = Setting("embedding-field");
/// `fail-on-empty`.
pub const FAIL_ON_EMPTY: Setting = Setting("fail-on-empty");
/// `force`.
pub const FORCE: Setting = Setting("force");
/// `id-field`.
pub const ID_FIELD: Setting = Setting("id-field");
/// `id-type`.
pub const ID_TYPE: Setting = Setting("id-type");
/// `input`.
pub const INPUT: Setting = Setting("input");
/// `keep`.
pub const KEEP: Setting = Setting("keep");
/// `like`.
pub const LIKE: Setting = Setting("like");
/// `limit`.
pub const LIMIT: Setting = Setting("limit");
/// `listen`.
pub const LISTEN: Setting = Setting("listen");
/// `local-dir`.
pub const LOCAL_DIR: Setting = Setting("local-dir");
/// `kind`.
pub const KIND: Setting = Setting("kind");
/// `lock`.
pub const LOCK: Setting = Setting("lock");
/// `max-active-dims`.
pub const MAX_ACTIVE_DIMS: Setting = Setting("max-active-dims");
/// `max-length`.
pub const MAX_LENGTH: Setting = Setting("max-length");
/// `max-record-bytes`.
pub const MAX_RECORD_BYTES: Setting = Setting("max-record-bytes");
/// `min-cosine`.
pub const MIN_COSINE: Setting = Setting("min-cosine");
/// `model`.
pub const MODEL: Setting = Setting("model");
/// `model-file`.
pub const MODEL_FILE: Setting = Setting("model-file");
/// `no-profile`.
pub const NO_PROFILE: Setting = Setting("no-profile");
/// `normalize`.
pub const NORMALIZE: Setting = Setting("normalize");
/// `offline`.
pub const OFFLINE: Setting = Setting("offline");
/// `on-error`.
pub const ON_ERROR: Setting = Setting("on-error");
/// `ort-lib`.
pub const ORT_LIB: Setting = Setting("ort-lib");
/// `part-rows`.
pub const PART_ROWS: Setting = Setting("part-rows");
/// `pool-factor`.
pub const POOL_FACTOR: Setting = Setting("pool-factor");
/// `pooling`.
pub const POOLING: Setting = Setting("pooling");
/// `precision`.
pub const PRECISION: Setting = Setting("precision");
/// `prompt`.
pub const PROMPT: Setting = Setting("prompt");
/// `prompt-name`.
pub const PROMPT_NAME: Setting = Setting("prompt-name");
/// `provider`.
pub const PROVIDER: Setting = Setting("provider");
/// `provider-option`.
pub const PROVIDER_OPTION: Setting = Setting("provider-option");
/// `rejects`.
pub const REJECTS: Setting = Setting("rejects");
/// `resume`.
pub const RESUME: Setting = Setting("resume");
/// `reuse`.
pub const REUSE: Setting = Setting("reuse");
/// `sample`.
pub const SAMPLE: Setting = Setting("sample");
/// `shard`.
pub const SHARD: Setting = Setting("shard");
/// `source-columns`.
pub const SOURCE_COLUMNS: Setting = Setting("source-columns");
/// `storage-option`.
pub const STORAGE_OPTION: Setting = Setting("storage-option");
/// `text-field`.
pub const TEXT_FIELD: Setting = Setting("text-field");
/// The field of the first text of a pair.
pub const QUERY_FIELD: Setting = Setting("query-field");
/// `text-template`.
pub const TEXT_TEMPLATE: Setting = Setting("text-template");
/// `texts`.
pub const TEXTS: Setting = Setting("texts");
/// `threads`.
pub const THREADS: Setting = Setting("threads");
/// `sparse-tokens`.
pub const SPARSE_TOKENS: Setting = Setting("sparse-tokens");
/// `task`.
pub const TASK: Setting = Setting("task");
/// `vector-type`.
pub const VECTOR_TYPE: Setting = Setting("vector-type");
/// `verify`.
pub const VERIFY: Setting = Setting("verify");
/// `weights`.
pub const WEIGHTS: Setting = Setting("weights");
/// `window`.
pub const WINDOW: Setting = Setting("window");

#[cfg(test)]
mod tests {
    use super::*;

    /// Not by the switch, which holds for the whole process: other tests read messages meanwhile.
    #[test]
    fn a_setting_is_written_as_the_program_does() {
        struct Written(Setting, bool);
        impl fmt::Display for Written {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, self.1)
            }
        }
        let written = |words, as_option| Written(Setting(words), as_option).to_string();
        assert_eq!(written("max-record-bytes", false), "max_record_bytes");
        assert_eq!(written("max-record-bytes", true), "--max-record-bytes");
        assert_eq!(MAX_LENGTH.to_string(), "max_length");
    }
}
