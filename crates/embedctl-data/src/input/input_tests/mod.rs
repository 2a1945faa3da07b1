//! The reader as a whole: sources to windows.

mod choices;
mod columns;
mod csv;
mod damaged;
mod documents;
mod expansion;
mod hostile;
mod ids;
mod partitions;
mod places;
mod quoting;
mod records;
mod refused;
mod sources;
mod tables;

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::reading::source::Stdin;
use embedctl_common::error::Result;
use embedctl_records::csv_options::{CsvEscape, CsvOptions, CsvQuote, Delimiter};
use embedctl_records::fields::{IdType, LineIds};
use embedctl_records::format::InputFormat;
use embedctl_records::options::{BatchWindows, InputOptions, InputRange, Part, Share};
use embedctl_records::position::Position;
use embedctl_records::record::Window;

pub fn options() -> InputOptions {
    InputOptions {
        max_record_bytes: 1000,
        window_rows: 100,
        ..InputOptions::default()
    }
}

fn keeping(keep: &[&str]) -> InputOptions {
    InputOptions {
        keep: keep.iter().map(|keep| keep.parse().unwrap()).collect(),
        ..options()
    }
}

/// A folder of files, and the sources in it in the order in which they were written.
struct Files {
    folder: TempDir,
    sources: Vec<Source>,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            sources: Vec::new(),
        }
    }

    fn with(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        self.sources.push(Source::Path(path));
        self
    }

    fn path(&self, index: usize) -> &Path {
        match &self.sources[index] {
            Source::Path(path) => path,
            _ => unreachable!("only files are here"),
        }
    }

    fn open(&self, options: InputOptions) -> Result<RecordReader> {
        RecordReader::open(&self.sources, options)
    }

    fn read(&self, options: InputOptions) -> Vec<Window> {
        windows(self.open(options).unwrap()).unwrap()
    }

    /// The windows of a part of it.
    fn read_range(&self, options: InputOptions, range: &InputRange) -> Result<Vec<Window>> {
        windows(self.open(options.clone())?.again(options, range)?)
    }

    /// The windows from a place on.
    fn read_from(&self, options: InputOptions, start: Position) -> Vec<Window> {
        let range = InputRange {
            start: Some(start),
            ..InputRange::default()
        };
        self.read_range(options, &range).unwrap()
    }

    /// The one window that there is.
    fn window(&self, options: InputOptions) -> Window {
        let mut windows = self.read(options);
        assert_eq!(windows.len(), 1);
        windows.remove(0)
    }
}

fn windows(mut reader: RecordReader) -> Result<Vec<Window>> {
    let mut windows = Vec::new();
    while let Some(window) = reader.next_window()? {
        assert_eq!(window.texts.len(), window.origins().count());
        assert_eq!(window.texts.len(), window.columns.num_rows());
        windows.push(window);
    }
    assert!(reader.next_window()?.is_none());
    Ok(windows)
}

fn from_stdin(input: &[u8], options: InputOptions) -> Result<Vec<Window>> {
    let stdin = Stdin {
        reader: Box::new(Cursor::new(input.to_vec())),
        bytes: None,
    };
    windows(RecordReader::open_with(
        &[Source::Stdin],
        options,
        Some(stdin),
    )?)
}

fn texts(windows: &[Window]) -> Vec<&str> {
    windows
        .iter()
        .flat_map(|window| window.texts.iter())
        .collect()
}

fn failure<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => error.to_string(),
    }
}
