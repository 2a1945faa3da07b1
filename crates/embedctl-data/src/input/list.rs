//! Inputs as they are given: files, folders, patterns, addresses, `-`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use walkdir::{DirEntry, WalkDir};

use super::{documents, lake};
use crate::reading::format;
use crate::reading::source::Source;
use crate::writing::format::OutputFormat;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_records::format::InputFormat;
use embedctl_storage::{Address, Location, Storage, StoredObject};

/// The sources that `inputs` name, in order; standard input where they name none. A folder is all files in it and in folders below, sorted by
/// path, whose endings name a format (`format`, where it is given), without hidden ones; a pattern (`*`, `?`,
/// `[…]`, `{…}`, `**`) is all files that it matches, sorted by path.
///
/// With [`InputFormat::File`], and if all files of a folder are documents ([`implied_format`](super::implied_format)), the
/// folder is its documents. `notes` gets how many files of folders are none of the sources.
///
/// # Errors
/// If a folder or a pattern is none, or one cannot be read, or a folder of documents holds a binary one.
pub fn expand(
    inputs: &[PathBuf],
    format: Option<InputFormat>,
    notes: &mut Vec<String>,
) -> Result<Vec<Source>> {
    if inputs.is_empty() {
        return Ok(vec![Source::Stdin]);
    }
    let mut sources = Vec::with_capacity(inputs.len());
    for input in inputs {
        if input == Path::new("-") {
            sources.push(Source::Stdin);
        } else if Address::is_url_path(input) {
            sources.push(Source::Path(input.clone()));
        } else if input.is_dir() {
            // A folder inside of a table is a part of it.
            for folder in input
                .ancestors()
                .skip(1)
                .filter(|it| !it.as_os_str().is_empty())
            {
                lake::refuse_table(folder)?;
            }
            let all = walk(input, |path| !is_provenance(path))?;
            let are_documents = || documents::are_of_folder(all.iter().map(PathBuf::as_path));
            let format = match format {
                None if are_documents() => Some(InputFormat::File),
                named => named,
            };
            match format {
                Some(InputFormat::File) => documents::refuse_binary(&all)?,
                None => documents::refuse_binary_and_lines(input, &all)?,
                Some(_) => {}
            }
            let known = |path: &Path| match (format, format::by_ending(path).0) {
                (Some(InputFormat::File), _) => format::is_document(path),
                (_, None) => is_bare_part(path) && (format.is_some() || is_recognised(path)),
                (_, found) => format.is_none() || found == format,
            };
            let mut others = SkippedFiles::default();
            let is_read = |path: &PathBuf| known(path) || others.add(path);
            let files: Vec<PathBuf> = all.into_iter().filter(is_read).collect();
            notes.extend(others.note(input, format));
            if files.is_empty() {
                let which = format.map_or_else(String::new, |format| format!("{format} "));
                let found = match others.endings.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", others.listed()),
                };
                let pattern = input.join("*");
                return Err(Error::usage(format!(
                    "the folder {} holds no {which}files with a known ending{found}",
                    input.display()
                ))
                .with_remedy(match others.has_documents(format) {
                    true => format!("`{INPUT_FORMAT} {}` embeds documents", InputFormat::File),
                    false => format!(
                        "name them by a pattern, with their format: `{INPUT_FORMAT} FORMAT '{}'`",
                        pattern.display()
                    ),
                }));
            }
            sources.extend(files.into_iter().map(Source::Path));
        } else if is_pattern(input) && !input.exists() {
            let (folder, pattern) = split(input);
            let matcher = matcher(input, &pattern)?;
            let matches =
                |path: &Path| matcher.is_match(path.strip_prefix(&folder).unwrap_or(path));
            let root = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &folder
            };
            if !root.is_dir() {
                return Err(Error::usage(format!(
                    "the pattern {} begins in {}, which is not a folder",
                    input.display(),
                    root.display()
                )));
            }
            let matches = |path: &Path| matches(path.strip_prefix("./").unwrap_or(path));
            let files = walk(root, matches)?;
            if files.is_empty() {
                return Err(Error::usage(format!(
                    "no file matches the pattern {}",
                    input.display()
                )));
            }
            sources.extend(files.into_iter().map(Source::Path));
        } else {
            sources.push(Source::Path(input.clone()));
        }
    }
    if matches!(format, None | Some(InputFormat::File)) {
        let paths = sources.iter().filter_map(Source::path);
        let paths: Vec<PathBuf> = paths.map(Path::to_path_buf).collect();
        documents::refuse_binary(&paths)?;
    }
    Ok(sources)
}

/// The same sources, with the objects that an address among them means in its place: the one of that name, those that
/// a pattern fits, or all below a prefix whose names tell a format (with `format`, whatever their names), without
/// hidden ones.
///
/// # Errors
/// If an address means nothing, or its store refuses.
pub fn resolve(
    sources: Vec<Source>,
    format: Option<InputFormat>,
    storage: &Storage,
) -> Result<Vec<Source>> {
    let mut resolved = Vec::with_capacity(sources.len());
    for source in sources {
        match source.path().map(Location::of).transpose()? {
            Some(Location::Remote(address)) => resolved.extend(objects(&address, format, storage)?),
            _ => resolved.push(source),
        }
    }
    Ok(resolved)
}

fn objects(
    address: &Address,
    format: Option<InputFormat>,
    storage: &Storage,
) -> Result<impl Iterator<Item = Source> + use<>> {
    let mut objects = storage.list(address)?;
    if address.is_prefix() {
        let names = objects.iter().map(|object| object.address().to_string());
        let names: Vec<String> = names.collect();
        lake::refuse_listed(names.iter().map(String::as_str))?;
    }
    let is_visible = |object: &StoredObject| {
        let below = object.address().key().strip_prefix(address.key());
        !below.is_some_and(|below| below.split('/').any(|name| is_hidden(name.as_bytes())))
    };
    let are_documents = match format {
        None => documents::are_of_folder(objects.iter().map(|object| object.address().path())),
        Some(format) => format == InputFormat::File,
    };
    if address.is_prefix() && (are_documents || format.is_none()) {
        let names = objects.iter().filter(|object| is_visible(object));
        let names = names.map(|object| PathBuf::from(object.address().to_string()));
        let names: Vec<PathBuf> = names.collect();
        match are_documents {
            true => documents::refuse_binary(&names)?,
            false => {
                let prefix = address.to_string();
                documents::refuse_binary_and_lines(Path::new(&prefix), &names)?;
            }
        }
    }
    if address.is_prefix() && format.is_none() {
        objects.retain(|object| {
            let path = object.address().path();
            let is_read = match are_documents {
                true => format::is_document(path),
                false => format::by_ending(path).0.is_some(),
            };
            is_visible(object) && is_read && !is_provenance(path)
        });
        if objects.is_empty() {
            return Err(Error::usage(format!(
                "{address}: no object below it has a name that tells its format"
            ))
            .with_remedy(format!("say it with {INPUT_FORMAT}")));
        }
    }
    let sources = objects.into_iter();
    Ok(sources.map(|object| Source::Object(object.into())))
}

/// As in Spark and Arrow, files whose names begin with `.` or `_` are not data.
fn is_hidden(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'.' | b'_'))
}

/// The files below `root` that are wanted, sorted by path.
fn walk(root: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let is_data =
        |entry: &DirEntry| entry.depth() == 0 || !is_hidden(entry.file_name().as_encoded_bytes());
    let mut found = Vec::new();
    for entry in WalkDir::new(root)
        .follow_links(true)
        .into_iter()
        .filter_entry(is_data)
    {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(root).to_path_buf();
            match error.into_io_error() {
                Some(error) => Error::io("read", path, error),
                None => Error::usage(format!(
                    "{} links to a folder that holds it",
                    path.display()
                )),
            }
        })?;
        if entry.file_type().is_dir() {
            lake::refuse_table(entry.path())?;
        }
        if entry.file_type().is_file() && wanted(entry.path()) {
            let path = entry.into_path();
            found.push(
                path.strip_prefix("./")
                    .map_or(path.clone(), Path::to_path_buf),
            );
        }
    }
    found.sort();
    Ok(found)
}

/// The files of a folder that are no sources, by their endings.
#[derive(Default)]
struct SkippedFiles {
    endings: BTreeMap<String, usize>,
    /// Whether there is a document among them.
    documents: bool,
}

impl SkippedFiles {
    /// Counts one; false.
    fn add(&mut self, path: &Path) -> bool {
        let ending = path.extension().map_or_else(
            || "without an ending".to_owned(),
            |ending| format!(".{}", ending.to_string_lossy()),
        );
        self.documents |= format::is_document(path);
        *self.endings.entry(ending).or_default() += 1;
        false
    }

    /// Whether there are documents that another format would take.
    fn has_documents(&self, format: Option<InputFormat>) -> bool {
        self.documents && format.is_none()
    }

    /// Their endings.
    fn listed(&self) -> String {
        let mut endings: Vec<_> = self.endings.keys().map(String::as_str).collect();
        let more = endings.len().saturating_sub(LISTED);
        endings.truncate(LISTED);
        let listed = endings.join(", ");
        match more {
            0 => listed,
            more => format!("{listed} and {more} more"),
        }
    }

    /// The note about them, if there are any.
    fn note(&self, folder: &Path, format: Option<InputFormat>) -> Option<String> {
        let count: usize = self.endings.values().sum();
        let documents = match self.has_documents(format) {
            false => String::new(),
            true => format!("; `{INPUT_FORMAT} {}` embeds documents", InputFormat::File),
        };
        let (files, endings) = match count {
            1 => ("file", "this ending"),
            _ => ("files", "these endings"),
        };
        (count > 0).then(|| {
            format!(
                "{count} {files} in {} skipped: no input format has {endings}: {}{documents}",
                folder.display(),
                self.listed()
            )
        })
    }
}

/// Endings that a note lists.
const LISTED: usize = 10;

/// Whether a file is called like the provenance beside an output, such as `a.npy.json`.
fn is_provenance(path: &Path) -> bool {
    let output = path.with_extension("");
    path.extension().is_some_and(|ending| ending == "json")
        && OutputFormat::from_path(&output).is_some()
}

/// Whether a file is called as those that Hive and Spark write without an ending, such as `000000_0`.
fn is_bare_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.contains('.') && name.contains(|character: char| character.is_ascii_digit())
}

/// Whether a file's first bytes tell its format.
fn is_recognised(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut start));
    read.is_ok() && format::recognised(&start).is_some()
}

fn is_pattern(path: &Path) -> bool {
    path.as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| b"*?[{".contains(byte))
}

/// The folder in which a pattern begins, and the rest.
fn split(pattern: &Path) -> (PathBuf, PathBuf) {
    let parts: Vec<Component<'_>> = pattern.components().collect();
    let plain = parts
        .iter()
        .take_while(|part| !is_pattern(Path::new(part.as_os_str())))
        .count();
    (
        parts[..plain].iter().collect(),
        parts[plain..].iter().collect(),
    )
}

fn matcher(input: &Path, pattern: &Path) -> Result<GlobMatcher> {
    let pattern = pattern.to_string_lossy();
    let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| {
        Error::usage(format!(
            "the pattern {} is wrong: {}",
            input.display(),
            error.kind()
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path, inputs: &[&str], format: Option<InputFormat>) -> Vec<String> {
        let inputs: Vec<_> = inputs.iter().map(|input| folder.join(input)).collect();
        let sources = expand(&inputs, format, &mut Vec::new()).unwrap();
        let relative = |source: &Source| {
            let path = source.path().unwrap().strip_prefix(folder).unwrap();
            path.to_string_lossy().replace('\\', "/")
        };
        sources.iter().map(relative).collect()
    }

    #[test]
    fn folders_and_patterns_are_walked_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in [
            "b.jsonl",
            "a/2.csv.gz",
            "a/1.parquet",
            "a/deep/0.txt",
            "a/notes.md",
            "d/1.md",
            "d/2.txt",
            "d/3.htm",
            "d/logo.png",
            "a/.hidden.txt",
            "_temporary/part.parquet",
            "a/_SUCCESS.txt",
            "c[1].txt",
            "README1",
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let all = [
            "a/1.parquet",
            "a/2.csv.gz",
            "a/deep/0.txt",
            "b.jsonl",
            "c[1].txt",
            "d/2.txt",
        ];
        assert_eq!(names(root, &["."], None), all);
        assert_eq!(names(root, &["d"], None), ["d/1.md", "d/2.txt", "d/3.htm"]);
        assert_eq!(
            names(root, &["a"], Some(InputFormat::Parquet)),
            ["a/1.parquet"]
        );
        assert_eq!(
            names(root, &["a/*"], None),
            ["a/1.parquet", "a/2.csv.gz", "a/notes.md"]
        );
        assert_eq!(
            names(root, &["**/*.txt"], None),
            ["a/deep/0.txt", "c[1].txt", "d/2.txt"]
        );
        assert_eq!(
            names(root, &["{b,c}*", "a/deep"], None),
            ["b.jsonl", "c[1].txt", "a/deep/0.txt"]
        );
        assert_eq!(
            names(root, &["a"], Some(InputFormat::File)),
            ["a/deep/0.txt", "a/notes.md"]
        );
        let mut notes = Vec::new();
        expand(&[root.to_owned()], None, &mut notes).unwrap();
        let note = "5 files in ";
        assert!(notes[0].starts_with(note), "{notes:?}");
        assert!(
            notes[0].ends_with(": .htm, .md, .png, without an ending; `-i file` embeds documents"),
            "{notes:?}"
        );
        // A file of that very name is no pattern.
        assert_eq!(names(root, &["c[1].txt"], None), ["c[1].txt"]);
        for (input, format, words) in [
            ("*.orc", None, "no file matches"),
            ("a/deep", Some(InputFormat::Arrow), "holds no arrow files"),
            ("none/*", None, "which is not a folder"),
            ("a/[", None, "is wrong"),
        ] {
            let error = expand(&[root.join(input)], format, &mut Vec::new());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
