//! Rejected records, written as JSON Lines: mended, the list is an input like any other.
//!
//! One object per record: `file`, `line` (from 1), `offset` (of its first byte, decompressed), `reason`, and `raw`, the
//! record's beginning as far as it is UTF-8. `"raw_truncated": true` says that the record may go on. Then the record
//! itself, as far as it could be read: its id, its text and its kept fields, under the names that they have in the input.
//! A field that bears the name of one of the list's own keys keeps it, and that key is written as `reject_…` then.
//! The file is published even if it is empty, so that a script can rely on it.

use std::io::{ErrorKind, Write};
use std::path::Path;

use super::options::Destination;
use super::place::OutputPlace;
use super::run_files::RunFiles;
use super::target::Target;
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::setting::REJECTS;
use embedctl_records::json_values as json;
use embedctl_records::record::Reject;

/// Writes rejected records beside their final name; they are published with the output
/// ([`crate::output::Finish::rejects`]). Dropped before, it removes what it wrote.
#[derive(Debug)]
pub struct RejectsWriter {
    target: Target,
    hash: Hash,
}

impl RejectsWriter {
    /// Creates the file (beside `path`), before any work.
    ///
    /// # Errors
    /// If it exists and `force` is not given, or cannot be written.
    pub fn create(path: &Path, force: bool, files: &RunFiles) -> Result<Self> {
        let place = OutputPlace::find(&Destination::Path(path.to_path_buf()), REJECTS.into())?;
        Ok(Self {
            target: Target::create(&place, force, &[], files)?,
            hash: Hash::default(),
        })
    }

    /// Whether [`RejectsWriter::create`] can succeed; leaves nothing behind.
    ///
    /// # Errors
    /// As there.
    pub fn check(path: &Path, force: bool, files: &RunFiles) -> Result<()> {
        let place = OutputPlace::find(&Destination::Path(path.to_path_buf()), REJECTS.into())?;
        Target::check(&place, force, &[], files)
    }

    /// Appends a record; `names` are the sources' names.
    ///
    /// # Errors
    /// If the system refuses. A closed pipe is no error here: later records are dropped.
    pub fn write(&mut self, reject: &Reject, names: &[String]) -> Result<()> {
        self.append(&line(reject, names)?)
    }

    /// Appends lines that [`line()`] has made.
    ///
    /// # Errors
    /// As [`RejectsWriter::write`].
    pub fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.hash.add(lines);
        // Unbuffered: rejects are few, and a stream's reader wants to see them.
        match self.target.write_all(lines) {
            // A closed reader of the rejects does not stop the vectors.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.target.abandon();
                Ok(())
            }
            result => result.map_err(|error| self.target.error(error)),
        }
    }

    /// The hash of the file.
    pub(crate) fn hash(&self) -> &Hash {
        &self.hash
    }

    pub(crate) fn into_target(self) -> Target {
        self.target
    }
}

/// A record's line in a file of rejects, with its end; `names` are the sources' names.
///
/// # Errors
/// If the record came from no source.
pub fn line(reject: &Reject, names: &[String]) -> Result<Vec<u8>> {
    let source = reject.origin.source;
    let file = names
        .get(source as usize)
        .ok_or_else(|| Error::internal(format!("a record came from source {source}")))?;
    let raw_truncated = reject.raw.len() >= Reject::RAW_BYTES;
    let raw = if raw_truncated {
        without_cut_character(&reject.raw)
    } else {
        &reject.raw
    };
    let mut line = vec![b'{'];
    let mut own = |key: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut key = key.to_owned();
        while reject.fields.has(&key) {
            key.insert_str(0, "reject_");
        }
        if line.len() > 1 {
            line.push(b',');
        }
        line.extend(json::key(&key));
        write(&mut line);
    };
    own("file", &|out| json::push(out, file));
    own("line", &|out| json::push(out, &reject.origin.line));
    own("offset", &|out| json::push(out, &reject.origin.offset));
    own("reason", &|out| json::push(out, &reject.cause.to_string()));
    own("raw", &|out| json::push(out, &String::from_utf8_lossy(raw)));
    if raw_truncated {
        own("raw_truncated", &|out| json::push(out, &true));
    }
    let members = reject.fields.members();
    if !members.is_empty() {
        line.push(b',');
        line.extend_from_slice(members);
    }
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// Leaves out the first bytes of a character that the cut went through.
fn without_cut_character(raw: &[u8]) -> &[u8] {
    let rest = raw
        .utf8_chunks()
        .last()
        .map_or(&[][..], |last| last.invalid());
    let cut = match rest {
        [0xc2..=0xf4, ..] if rest.len() < 4 => rest.len(),
        _ => 0,
    };
    &raw[..raw.len() - cut]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Compression, Finish, Forms, OutputFormat, OutputOptions, create};
    use arrow::datatypes::Schema;
    use embedctl_records::record::{Origin, RecordFields};
    use serde_json::{Value, json};
    use std::fs;

    fn reject(line: u64, raw: &[u8]) -> Reject {
        Reject {
            origin: Origin {
                source: 1,
                line,
                offset: line * 100,
            },
            cause: format!("line {line} is \"bad\"").into(),
            raw: raw.to_vec(),
            fields: RecordFields::default(),
        }
    }

    fn names() -> [String; 2] {
        ["a.jsonl".into(), "b.jsonl".into()]
    }

    fn written(rejects: &[Reject]) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejects");
        let mut writer = RejectsWriter::create(&path, false, &RunFiles::default()).unwrap();
        for reject in rejects {
            writer.write(reject, &names()).unwrap();
        }
        assert!(!path.exists());
        publish(writer);
        let text = fs::read_to_string(&path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Publishes with an output that is no file.
    fn publish(writer: RejectsWriter) {
        let options = OutputOptions {
            format: Some(OutputFormat::Jsonl(Compression::None)),
            force: true,
            ..OutputOptions::new(Destination::Path("/dev/null".into()))
        };
        let (names, schema) = ([].into(), Schema::empty());
        let output = create(
            &options.clone().into(),
            &Forms::dense(&[1]),
            names,
            &schema,
            &RunFiles::default(),
        )
        .unwrap();
        let finish = Finish {
            schema: schema.into(),
            provenance: &json!({}),
            rejects: Some(writer),
        };
        output.finish(finish).unwrap();
    }

    #[test]
    fn an_entry_says_where_why_and_what() {
        let entries = written(&[reject(3, b"{\"text\": \xff\n}"), reject(4, b"")]);
        assert_eq!(
            entries[0],
            json!({
                "file": "b.jsonl", "line": 3, "offset": 300,
                "reason": "line 3 is \"bad\"", "raw": "{\"text\": \u{fffd}\n}",
            })
        );
        assert_eq!(entries[1]["raw"], "");
    }

    #[test]
    fn what_was_cut_says_so_and_ends_in_a_whole_character() {
        let mut raw = "x".repeat(Reject::RAW_BYTES - 2).into_bytes();
        raw.extend_from_slice(&"日".as_bytes()[..2]);
        let entries = written(&[reject(1, &raw), reject(2, &raw[..9])]);
        assert_eq!(entries[0]["raw"], "x".repeat(Reject::RAW_BYTES - 2));
        assert_eq!(entries[0]["raw_truncated"], true);
        assert_eq!(entries[1].get("raw_truncated"), None);
    }

    #[test]
    fn an_entry_holds_the_record_and_its_names_come_first() {
        let mut whole = reject(3, b"raw");
        for name in ["key", "reason", "reject_reason"] {
            whole.fields.add_text(name, &format!("own {name}"));
        }
        whole.fields.add_text("key", "another");
        let entries = written(&[whole, reject(4, b"")]);
        assert_eq!(
            entries[0],
            json!({
                "file": "b.jsonl", "line": 3, "offset": 300, "raw": "raw",
                "reject_reject_reason": "line 3 is \"bad\"",
                "key": "own key", "reason": "own reason", "reject_reason": "own reject_reason",
            })
        );
        assert_eq!(entries[1]["reason"], "line 4 is \"bad\"");
    }

    #[test]
    fn an_empty_file_is_published_too() {
        assert_eq!(written(&[]), Vec::<Value>::new());
    }

    #[test]
    fn a_dropped_writer_leaves_nothing_and_a_file_needs_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejects");
        let files = RunFiles::default();
        let mut writer = RejectsWriter::create(&path, false, &files).unwrap();
        writer.write(&reject(1, b"x"), &names()).unwrap();
        drop(writer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fs::write(&path, "old").unwrap();
        let error = RejectsWriter::create(&path, false, &files)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("rejects") && error.contains("force"),
            "{error}"
        );
        publish(RejectsWriter::create(&path, true, &files).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[cfg(unix)]
    #[test]
    fn a_reader_that_leaves_does_not_stop_the_run() {
        let (reader, pipe) = std::io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        let mut writer =
            RejectsWriter::create(Path::new(&path), false, &RunFiles::default()).unwrap();
        writer.write(&reject(1, b"x"), &names()).unwrap();
        drop(reader);
        for line in 2..4 {
            writer.write(&reject(line, b"x"), &names()).unwrap();
        }
        publish(writer);
    }
}
