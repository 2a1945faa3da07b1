//! Names of settings in messages. A message names the setting that is wrong or that would help, as the program's option:
//! `--max-length`. A field of the library's options has the same words: `max_length`.

use std::fmt;

/// A setting, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    words: &'static str,
    /// The option's letter, where messages name it by that.
    letter: Option<char>,
}

impl Setting {
    const fn long(words: &'static str) -> Self {
        Self {
            words,
            letter: None,
        }
    }

    const fn short(words: &'static str, letter: char) -> Self {
        Self {
            words,
            letter: Some(letter),
        }
    }

    /// The setting's words, parted by hyphens: `max-length`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        self.words
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.letter {
            Some(letter) => write!(f, "-{letter}"),
            None => write!(f, "--{}", self.words),
        }
    }
}

/// The origin of a value, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetBy {
    /// A setting.
    Setting(Setting),
    /// A name that is the same everywhere, such as an environment variable.
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

/// `allow-host`.
pub const ALLOW_HOST: Setting = Setting::long("allow-host");
/// `api-key-file`.
pub const API_KEY_FILE: Setting = Setting::long("api-key-file");
/// `baseline`.
pub const BASELINE: Setting = Setting::long("baseline");
/// `batch-size`.
pub const BATCH_SIZE: Setting = Setting::long("batch-size");
/// `batch-tokens`.
pub const BATCH_TOKENS: Setting = Setting::long("batch-tokens");
/// `cache-dir`.
pub const CACHE_DIR: Setting = Setting::long("cache-dir");
/// `calibration`.
pub const CALIBRATION: Setting = Setting::long("calibration");
/// `chunk`.
pub const CHUNK: Setting = Setting::long("chunk");
/// `late`.
pub const LATE: Setting = Setting::long("late");
/// `chunk-overlap`.
pub const CHUNK_OVERLAP: Setting = Setting::long("chunk-overlap");
/// `chunk-text`.
pub const CHUNK_TEXT: Setting = Setting::long("chunk-text");
/// `chunk-tokens`.
pub const CHUNK_TOKENS: Setting = Setting::long("chunk-tokens");
/// `corpus`.
pub const CORPUS: Setting = Setting::long("corpus");
/// `csv-delimiter`.
pub const CSV_DELIMITER: Setting = Setting::long("csv-delimiter");
/// `csv-escape`.
pub const CSV_ESCAPE: Setting = Setting::long("csv-escape");
/// `csv-null`.
pub const CSV_NULL: Setting = Setting::long("csv-null");
/// `csv-quote`.
pub const CSV_QUOTE: Setting = Setting::long("csv-quote");
/// `device`.
pub const DEVICE: Setting = Setting::long("device");
/// `dimensions`.
pub const DIMENSIONS: Setting = Setting::long("dimensions");
/// `dtype`.
pub const DTYPE: Setting = Setting::long("dtype");
/// `duration`.
pub const DURATION: Setting = Setting::long("duration");
/// `embedding-field`.
pub const EMBEDDING_FIELD: Setting = Setting::long("embedding-field");
/// `fail-on-empty`.
pub const FAIL_ON_EMPTY: Setting = Setting::long("fail-on-empty");
/// `force`.
pub const FORCE: Setting = Setting::long("force");
/// `id-field`.
pub const ID_FIELD: Setting = Setting::long("id-field");
/// `id-type`.
pub const ID_TYPE: Setting = Setting::long("id-type");
/// `input`.
pub const INPUT: Setting = Setting::long("input");
/// `input-format`, as an option `-i`.
pub const INPUT_FORMAT: Setting = Setting::short("input-format", 'i');
/// `keep`.
pub const KEEP: Setting = Setting::long("keep");
/// `like`.
pub const LIKE: Setting = Setting::long("like");
/// `limit`.
pub const LIMIT: Setting = Setting::long("limit");
/// `listen`.
pub const LISTEN: Setting = Setting::long("listen");
/// `local-dir`.
pub const LOCAL_DIR: Setting = Setting::long("local-dir");
/// `lock`.
pub const LOCK: Setting = Setting::long("lock");
/// `max-active-dims`.
pub const MAX_ACTIVE_DIMS: Setting = Setting::long("max-active-dims");
/// `max-length`.
pub const MAX_LENGTH: Setting = Setting::long("max-length");
/// `max-record-bytes`.
pub const MAX_RECORD_BYTES: Setting = Setting::long("max-record-bytes");
/// `min-cosine`.
pub const MIN_COSINE: Setting = Setting::long("min-cosine");
/// `model`.
pub const MODEL: Setting = Setting::long("model");
/// `model-file`.
pub const MODEL_FILE: Setting = Setting::long("model-file");
/// `normalize`.
pub const NORMALIZE: Setting = Setting::long("normalize");
/// `offline`.
pub const OFFLINE: Setting = Setting::long("offline");
/// `on-error`.
pub const ON_ERROR: Setting = Setting::long("on-error");
/// `ort-lib`.
pub const ORT_LIB: Setting = Setting::long("ort-lib");
/// `part-rows`.
pub const PART_ROWS: Setting = Setting::long("part-rows");
/// `output`, as an option `-o`.
pub const OUTPUT: Setting = Setting::short("output", 'o');
/// `output-format`, as an option `-f`.
pub const OUTPUT_FORMAT: Setting = Setting::short("output-format", 'f');
/// `pool-factor`.
pub const POOL_FACTOR: Setting = Setting::long("pool-factor");
/// `pooling`.
pub const POOLING: Setting = Setting::long("pooling");
/// `precision`.
pub const PRECISION: Setting = Setting::long("precision");
/// `prompt`.
pub const PROMPT: Setting = Setting::long("prompt");
/// `prompt-name`.
pub const PROMPT_NAME: Setting = Setting::long("prompt-name");
/// `provider`.
pub const PROVIDER: Setting = Setting::long("provider");
/// `provider-option`.
pub const PROVIDER_OPTION: Setting = Setting::long("provider-option");
/// `rejects`.
pub const REJECTS: Setting = Setting::long("rejects");
/// `resume`.
pub const RESUME: Setting = Setting::long("resume");
/// `reuse`.
pub const REUSE: Setting = Setting::long("reuse");
/// `sample`.
pub const SAMPLE: Setting = Setting::long("sample");
/// `shard`.
pub const SHARD: Setting = Setting::long("shard");
/// `source-columns`.
pub const SOURCE_COLUMNS: Setting = Setting::long("source-columns");
/// `storage-option`.
pub const STORAGE_OPTION: Setting = Setting::long("storage-option");
/// `text-field`.
pub const TEXT_FIELD: Setting = Setting::long("text-field");
/// The field of the first text of a pair.
pub const QUERY_FIELD: Setting = Setting::long("query-field");
/// `text-template`.
pub const TEXT_TEMPLATE: Setting = Setting::long("text-template");
/// `texts`.
pub const TEXTS: Setting = Setting::long("texts");
/// `threads`.
pub const THREADS: Setting = Setting::long("threads");
/// `sparse-tokens`.
pub const SPARSE_TOKENS: Setting = Setting::long("sparse-tokens");
/// `task`.
pub const TASK: Setting = Setting::long("task");
/// `vector-type`.
pub const VECTOR_TYPE: Setting = Setting::long("vector-type");
/// `vectors`.
pub const VECTORS: Setting = Setting::long("vectors");
/// `verify`.
pub const VERIFY: Setting = Setting::long("verify");
/// `weights`.
pub const WEIGHTS: Setting = Setting::long("weights");
/// `window`.
pub const WINDOW: Setting = Setting::long("window");

/// The remedy where a build lacks what was asked of it.
pub const FULL: &str = "build all of embedctl: cargo build, or cargo install --path .";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_written_as_the_program_does() {
        assert_eq!(MAX_RECORD_BYTES.to_string(), "--max-record-bytes");
        assert_eq!(INPUT_FORMAT.to_string(), "-i");
    }
}
