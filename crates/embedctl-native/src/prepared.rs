//! Packed weights and small notes about them, kept in a folder of the user's cache: packing in 8 bits takes many
//! seconds for a large model, and reading the result takes one.
//!
//! ```text
//!  KEY.weights   the products of all layers as they lie in memory, a SHA-256 for each layer behind them
//!  KEY.note      the SHA-256 of the rest, and a small text, such as a measured cosine
//! ```
//!
//! A key is a SHA-256 of all that decides the content. A file appears whole (two runs may write it at once), is checked
//! when it is read, and goes, the longest unused first, when all of them are too large together. A file that cannot be
//! read or written costs time alone, so no error comes from here.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use embedctl_common::atomic::{AtomicFile, PendingFiles, remove_abandoned};
use embedctl_common::hash::{self, Hash};
use embedctl_common::small_file::{self, read_at};
use embedctl_common::trust;
use rayon::prelude::*;

use embedctl_kernels::{Arithmetic, Isa, Matrix, PackedLayout};

/// Raised when packing, or the form of the files, changes within a version of the program.
const FORM: u32 = 2;

/// First line of a file of weights.
const MAGIC: &[u8] = b"embedctl weights\n";

/// Bytes of a SHA-256 in hexadecimal.
const HASH: usize = 64;

/// Bytes of a note at most.
const LARGEST_NOTE: u64 = 1 << 16;

/// Bytes of all files together at most, where nothing else is said.
const MOST_BYTES: u64 = 32 << 30;

/// Notes at most.
const MOST_NOTES: usize = 512;

/// A folder of packed weights and notes. Cloning it is cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedCache {
    folder: PathBuf,
    most_bytes: u64,
}

/// The weights of one model in one arithmetic, for one instruction set.
#[derive(Debug, Clone)]
pub(crate) struct PreparedWeights {
    cache: PreparedCache,
    key: String,
}

impl PreparedCache {
    /// The cache in `folder`, which is made when something is written. All of its files together take at most 32 GiB.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            most_bytes: MOST_BYTES,
        }
    }

    /// The same with another limit, in bytes.
    #[must_use]
    pub fn with_limit(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// The weights that these files hold, packed in `arithmetic` for `isa`; `hashes` are those of all files that
    /// decide them.
    pub(crate) fn weights(
        &self,
        isa: Isa,
        arithmetic: Arithmetic,
        hashes: &[String],
    ) -> PreparedWeights {
        let mut key = Hash::default();
        let version = env!("CARGO_PKG_VERSION");
        let order = u32::from_ne_bytes([1, 2, 3, 4]);
        key.add(format!("{FORM} {version} {isa} {order} {arithmetic:?}\n"));
        hashes.iter().for_each(|hash| key.add(format!("{hash}\n")));
        PreparedWeights {
            cache: self.clone(),
            key: key.hex(),
        }
    }

    fn path(&self, key: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{key}.{ending}"))
    }

    /// Writes a file whole, and removes others until the limits hold.
    fn write(
        &self,
        path: &Path,
        bytes: u64,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if bytes > self.most_bytes {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        if trust::doubt(path).is_some() {
            return Ok(());
        }
        let _ = remove_abandoned(path);
        self.trim(bytes);
        let file = AtomicFile::create(path, &PendingFiles::default())?;
        let mut out = BufWriter::with_capacity(1 << 20, file.file());
        write(&mut out)?;
        out.flush()?;
        drop(out);
        file.replace()
    }

    /// Removes the files that were not used for the longest time, until there is room for `more` bytes and a note.
    fn trim(&self, more: u64) {
        let used = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_own = [".weights", ".note", ".tmp"]
                .iter()
                .any(|it| name.ends_with(it));
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            if !is_own {
                return None;
            }
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((used, entry.path(), metadata.len()))
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.filter_map(used).collect();
        files.sort();
        let is_note = |path: &Path| path.extension().is_some_and(|ending| ending == "note");
        let mut bytes: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        let mut notes = files.iter().filter(|(_, path, _)| is_note(path)).count();
        for (_, path, own) in files {
            let (is_note, name) = (is_note(&path), path.file_name());
            let too_large = bytes.saturating_add(more) > self.most_bytes;
            let too_many = is_note && notes >= MOST_NOTES;
            // A hidden file is one that grows, or that a killed run left: that goes if nobody holds it.
            let name = name.unwrap_or_default().to_string_lossy();
            if let Some(grown) = name.strip_prefix('.') {
                let grown = grown.split(".embedctl-").next().unwrap_or_default();
                bytes -= remove_abandoned(&self.folder.join(grown)).1.min(bytes);
            } else if (too_large || too_many) && fs::remove_file(&path).is_ok() {
                bytes -= own;
                notes -= usize::from(is_note);
            }
        }
    }
}

impl PreparedWeights {
    /// The products of all layers, of these layouts, if they are kept and undamaged.
    pub(crate) fn read(
        &self,
        isa: Isa,
        arithmetic: Arithmetic,
        layouts: &[Vec<PackedLayout>],
    ) -> Option<Vec<Vec<Matrix>>> {
        let path = self.cache.path(&self.key, "weights");
        if trust::doubt(&path).is_some() {
            return None;
        }
        let file = small_file::open(&path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut head = [0; MAGIC.len() + HASH];
        read_at(&file, &mut head, 0).ok()?;
        if head != self.head()[..] {
            return None;
        }
        let bytes = |layouts: &Vec<PackedLayout>| -> u64 {
            let one = |layout: &PackedLayout| layout.bytes(isa, layout.fitting(arithmetic));
            layouts.iter().map(one).sum()
        };
        let mut start = head.len() as u64;
        let mut starts = Vec::with_capacity(layouts.len());
        for layouts in layouts {
            starts.push(start);
            start = start.checked_add(bytes(layouts))?;
        }
        if length != start.checked_add((HASH * layouts.len()) as u64)? {
            return None;
        }
        let mut hashes = vec![0; HASH * layouts.len()];
        read_at(&file, &mut hashes, start).ok()?;
        let sets = layouts.par_iter().zip(starts).zip(hashes.par_chunks(HASH));
        let sets = sets.map(|((layouts, start), hash)| {
            let (set, found) = read_set(&file, start, isa, arithmetic, layouts).ok()?;
            (found.as_bytes() == hash).then_some(set)
        });
        let sets = sets.collect::<Option<Vec<_>>>()?;
        // Used now: others go first.
        let _ = file.set_modified(SystemTime::now());
        Some(sets)
    }

    /// Keeps the products of all layers.
    pub(crate) fn write<'a>(&self, sets: impl Iterator<Item = &'a [Matrix]> + Clone) {
        let path = self.cache.path(&self.key, "weights");
        let products = sets.clone().flatten();
        let bytes: usize = products.flat_map(Matrix::parts).map(<[u8]>::len).sum();
        let all = (bytes + HASH * sets.clone().count() + MAGIC.len() + HASH) as u64;
        // Without it the weights are packed again, which is only slower.
        let _ = self.cache.write(&path, all, |out| {
            out.write_all(&self.head())?;
            let mut hashes = Vec::new();
            for products in sets {
                let mut hash = Hash::default();
                for part in products.iter().flat_map(Matrix::parts) {
                    hash.add(part);
                    out.write_all(part)?;
                }
                hashes.push(hash.hex());
            }
            hashes
                .iter()
                .try_for_each(|hash| out.write_all(hash.as_bytes()))
        });
    }

    fn head(&self) -> Vec<u8> {
        [MAGIC, self.key.as_bytes()].concat()
    }

    /// The note about these weights that was kept under `name`.
    pub(crate) fn note(&self, name: &str) -> Option<String> {
        let path = self.cache.path(&self.note_key(name), "note");
        if trust::doubt(&path).is_some() {
            return None;
        }
        let limit = LARGEST_NOTE + HASH as u64;
        let file = String::from_utf8(small_file::read(&path, limit).ok()?).ok()?;
        let (hash, note) = file.split_at_checked(HASH)?;
        (hash == hash::of(note)).then(|| note.to_owned())
    }

    /// Keeps a note about these weights under `name`.
    pub(crate) fn keep_note(&self, name: &str, note: &str) {
        let path = self.cache.path(&self.note_key(name), "note");
        let _ = self.cache.write(&path, (HASH + note.len()) as u64, |out| {
            out.write_all(hash::of(note).as_bytes())?;
            out.write_all(note.as_bytes())
        });
    }

    fn note_key(&self, name: &str) -> String {
        hash::of(format!("{}\n{name}", self.key))
    }
}

/// The products of a layer from the place `start` on, and the hash of their bytes.
fn read_set(
    file: &File,
    mut start: u64,
    isa: Isa,
    arithmetic: Arithmetic,
    layouts: &[PackedLayout],
) -> io::Result<(Vec<Matrix>, String)> {
    let mut hash = Hash::default();
    let mut read = |out: &mut [u8]| {
        // In pieces that are hashed while they are in the cache.
        out.chunks_mut(1 << 18).try_for_each(|piece| {
            read_at(file, piece, start)?;
            start += piece.len() as u64;
            hash.add(&*piece);
            Ok::<_, io::Error>(())
        })
    };
    let products = layouts
        .iter()
        .map(|layout| Matrix::read(isa, layout.fitting(arithmetic), *layout, &mut read))
        .collect::<io::Result<_>>()?;
    Ok((products, hash.hex()))
}
