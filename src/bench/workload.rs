//! The texts to embed, or the pairs to score: a built-in corpus or the user's own records, in samples of any size, as
//! files that every worker reads the same way.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::corpus::{self, Corpus};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::input::{InputOptions, RecordReader, Source, Template};
use crate::record::Texts;
use crate::setting;
use embedctl_common::pair::TextPair;

/// The field that holds the text in a sample's JSONL.
const TEXT_FIELD: &str = "text";

/// The field that holds the query of a pair. Every record has one.
const QUERY_FIELD: &str = "query";

/// Records in a row that share a built-in query, as the candidates of a search do.
const RECORDS_OF_QUERY: usize = 16;

/// Records and bytes of the user's own that are used at most.
const MOST_ROWS: usize = corpus::TEXTS;
const MOST_BYTES: usize = 256 << 20;

/// The texts to embed.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // there is one
pub enum WorkloadOptions {
    /// Built-in texts.
    Corpus(Corpus),
    /// Records of the user's own.
    Records {
        /// Where they are.
        sources: Vec<Source>,
        /// How to read them.
        input: InputOptions,
    },
}

/// A workload as it stands in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// `short`, `long` or `mixed`, or names of the user's files.
    pub name: String,
    /// Whether it is built in, and so the same everywhere.
    pub built_in: bool,
    /// Different records there are to take samples of.
    pub records: usize,
    /// Records of the input that could not be read and are left out.
    #[serde(default)]
    pub rejected: usize,
    /// Whether there were more records than are used.
    #[serde(default)]
    pub cut: bool,
}

/// Texts, and the files of samples of them.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) info: WorkloadInfo,
    texts: TextSource,
    folder: PathBuf,
    files: BTreeMap<usize, PathBuf>,
}

#[derive(Debug)]
enum TextSource {
    Corpus(Corpus),
    Texts(Texts),
    /// Pairs of a query and a text, joined.
    Pairs(Texts),
}

impl Workload {
    /// Reads the corpus or the input; sample files go into `folder`.
    pub(super) fn open(
        options: &WorkloadOptions,
        folder: &Path,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let (info, texts) = match options {
            WorkloadOptions::Corpus(corpus) => {
                let info = WorkloadInfo {
                    name: corpus.to_string(),
                    built_in: true,
                    records: corpus::TEXTS,
                    rejected: 0,
                    cut: false,
                };
                (info, TextSource::Corpus(*corpus))
            }
            WorkloadOptions::Records { sources, input } => {
                let (info, texts) = records(sources, input, cancel)?;
                let source = match input.query() {
                    Some(_) => TextSource::Pairs(texts),
                    None => TextSource::Texts(texts),
                };
                (info, source)
            }
        };
        Ok(Self {
            info,
            texts,
            folder: folder.to_path_buf(),
            files: BTreeMap::new(),
        })
    }

    /// A file with `rows` records (all there are, if they are fewer), and their number. Of records of the
    /// user's own, they are spread evenly over all of them. No record stands in it twice.
    pub(super) fn sample(&mut self, rows: usize) -> Result<(PathBuf, usize)> {
        let rows = rows.clamp(1, self.info.records);
        if let Some(path) = self.files.get(&rows) {
            return Ok((path.clone(), rows));
        }
        let path = self.folder.join(format!("records-{rows}.jsonl"));
        let write = || {
            let mut file = BufWriter::new(File::create(&path)?);
            for index in 0..rows {
                let built_in = || Corpus::Short.text(index / RECORDS_OF_QUERY);
                let (id, query, text) = match &self.texts {
                    TextSource::Corpus(corpus) => (index, built_in(), corpus.text(index)),
                    TextSource::Texts(texts) => {
                        let own = index * texts.len() / rows;
                        (own, built_in(), texts.get(own).to_owned())
                    }
                    TextSource::Pairs(pairs) => {
                        let own = index * pairs.len() / rows;
                        let pair = TextPair::of_record(pairs.get(own));
                        (own, pair.first.to_owned(), pair.second.to_owned())
                    }
                };
                let record = json!({"id": id, QUERY_FIELD: query, TEXT_FIELD: text});
                writeln!(file, "{record}")?;
            }
            file.flush()
        };
        write().map_err(|error| Error::io("write", &path, error))?;
        self.files.insert(rows, path.clone());
        Ok((path, rows))
    }
}

/// Reads records of the user's own, as many as are used.
fn records(
    sources: &[Source],
    input: &InputOptions,
    cancel: &CancelToken,
) -> Result<(WorkloadInfo, Texts)> {
    let mut reader = RecordReader::open(sources, input.clone())?;
    let names = reader.names();
    let (mut texts, mut rejected, mut cut) = (Texts::default(), 0, false);
    'reading: while let Some(window) = reader.next_window()? {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        rejected += window.rejects().count();
        for text in window.texts.iter() {
            if texts.len() == MOST_ROWS || texts.bytes() > MOST_BYTES {
                cut = true;
                break 'reading;
            }
            texts.push(text);
        }
    }
    if texts.is_empty() {
        return Err(Error::usage(format!(
            "{} holds no record to measure with{}",
            names.join(", "),
            if rejected > 0 {
                format!(
                    " ({rejected} could not be read; {} names the field of the text)",
                    setting::TEXT_FIELD
                )
            } else {
                String::new()
            }
        )));
    }
    let info = WorkloadInfo {
        name: names.join(", "),
        built_in: false,
        records: texts.len(),
        rejected,
        cut,
    };
    Ok((info, texts))
}

/// How a sample's file is read, as texts or as pairs.
pub(super) fn input(pairs: bool) -> InputOptions {
    InputOptions {
        text_field: TEXT_FIELD.to_owned(),
        text_template: pairs.then(|| Template::of_pair(QUERY_FIELD, TEXT_FIELD, None)),
        ..InputOptions::default()
    }
}

/// The texts, or the joined pairs, of a sample's file.
pub(super) fn read(path: &Path, options: &InputOptions) -> Result<Texts> {
    let sources = [Source::Path(path.to_path_buf())];
    let mut reader = RecordReader::open(&sources, options.clone())?;
    let mut texts = Texts::default();
    while let Some(window) = reader.next_window()? {
        window.texts.iter().for_each(|text| texts.push(text));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(options: &WorkloadOptions, folder: &Path) -> Workload {
        Workload::open(options, folder, &CancelToken::new()).unwrap()
    }

    fn lines(text: &str, folder: &Path) -> Result<Workload> {
        let path = folder.join("own.jsonl");
        std::fs::write(&path, text).unwrap();
        let options = WorkloadOptions::Records {
            sources: vec![Source::Path(path)],
            input: InputOptions::default(),
        };
        Workload::open(&options, folder, &CancelToken::new())
    }

    #[test]
    fn a_corpus_has_samples_of_any_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut workload = open(&WorkloadOptions::Corpus(Corpus::Short), folder.path());
        let (small, rows) = workload.sample(4).unwrap();
        assert_eq!(rows, 4);
        let texts = read(&small, &input(false)).unwrap();
        assert_eq!(texts.len(), 4);
        assert_eq!(texts.get(2), Corpus::Short.text(2));
        assert_eq!(workload.sample(4).unwrap().0, small);
        assert_eq!(workload.sample(usize::MAX).unwrap().1, corpus::TEXTS);
    }

    #[test]
    fn own_records_are_spread_and_never_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let text: String = (0..10)
            .map(|i| format!("{{\"text\":\"t{i}\\n\"}}\n"))
            .collect();
        let mut workload = lines(&format!("{text}{{\"text\":3}}\n"), folder.path()).unwrap();
        assert_eq!((workload.info.records, workload.info.rejected), (10, 1));
        let (path, _) = workload.sample(5).unwrap();
        let texts = read(&path, &input(false)).unwrap();
        let texts: Vec<&str> = texts.iter().collect();
        assert_eq!(texts, ["t0\n", "t2\n", "t4\n", "t6\n", "t8\n"]);
        let (path, rows) = workload.sample(1000).unwrap();
        assert_eq!((rows, read(&path, &input(false)).unwrap().len()), (10, 10));
    }

    #[test]
    fn pairs_are_the_users_own_or_have_built_in_queries() {
        let folder = tempfile::tempdir().unwrap();
        let mut built_in = open(&WorkloadOptions::Corpus(Corpus::Long), folder.path());
        let (path, _) = built_in.sample(40).unwrap();
        let pairs = read(&path, &input(true)).unwrap();
        for index in 0..40 {
            let pair = TextPair::of(pairs.get(index)).unwrap();
            assert_eq!(pair.first, Corpus::Short.text(index / 16));
            assert_eq!(pair.second, Corpus::Long.text(index));
        }
        let path = folder.path().join("pairs.jsonl");
        let lines: String = (0..9)
            .map(|at| format!("{{\"q\": \"query {at}\", \"body\": \"text {at}\"}}\n"))
            .collect();
        std::fs::write(&path, lines).unwrap();
        let options = WorkloadOptions::Records {
            sources: vec![Source::Path(path)],
            input: InputOptions {
                text_template: Some(Template::of_pair("q", "body", None)),
                ..InputOptions::default()
            },
        };
        let mut own = open(&options, folder.path());
        let (path, rows) = own.sample(9).unwrap();
        assert_eq!(rows, 9);
        let pairs = read(&path, &input(true)).unwrap();
        let last = TextPair::of(pairs.get(8)).unwrap();
        assert_eq!((last.first, last.second), ("query 8", "text 8"));
    }

    #[test]
    fn nothing_to_measure_with_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{\"body\":\"b\"}\n"] {
            let error = lines(text, folder.path()).unwrap_err();
            assert!(error.kind() == crate::ErrorKind::Usage, "{error}");
            assert!(error.to_string().contains("own.jsonl"), "{error}");
        }
    }
}
