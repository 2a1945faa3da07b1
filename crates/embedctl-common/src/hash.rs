//! SHA-256, which identifies content.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use crate::file_state::FileState;
use crate::threads::locked;

/// The SHA-256 of the bytes written so far.
#[derive(Debug, Clone, Default)]
pub struct Hash(Sha256);

impl Hash {
    /// Adds bytes to the hashed content.
    pub fn add(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    /// The hash of the bytes added so far, as hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn of(bytes: impl AsRef<[u8]>) -> String {
    let mut hash = Hash::default();
    hash.add(bytes);
    hash.hex()
}

/// A file's hash, once it is known.
type KnownHash = Arc<Mutex<Option<String>>>;

/// The hashes of the files that were hashed last, each in the state in which it was.
static KNOWN: Mutex<Vec<(PathBuf, FileState, KnownHash)>> = Mutex::new(Vec::new());

/// Files whose hashes are kept.
const MOST_KNOWN: usize = 64;

/// The SHA-256 of the file at `path`, which is open as `file`, in hexadecimal. A process hashes the same state of a
/// file once, and a second thread waits for the first.
///
/// # Errors
/// If the file cannot be read.
pub fn of_file(path: &Path, mut file: &File) -> io::Result<String> {
    let state = FileState::of(file)?;
    let known = {
        let mut all = locked(&KNOWN);
        let same = all
            .iter()
            .find(|(own, then, _)| own == path && *then == state);
        match same {
            Some((_, _, known)) => Arc::clone(known),
            None => {
                if all.len() >= MOST_KNOWN {
                    all.remove(0);
                }
                let known = KnownHash::default();
                all.push((path.to_path_buf(), state.clone(), Arc::clone(&known)));
                known
            }
        }
    };
    let mut known = locked(&known);
    if let Some(hash) = &*known {
        return Ok(hash.clone());
    }
    file.seek(SeekFrom::Start(0))?;
    // 8 KiB at a time, as a file alone is copied, would be a call to the system for each of them.
    let mut hash = Hash::default();
    io::copy(&mut BufReader::with_capacity(1 << 18, file), &mut hash)?;
    let hash = hash.hex();
    if FileState::of(file)? == state {
        *known = Some(hash.clone());
    }
    Ok(hash)
}

/// Hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_hashed_again_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in ["one", "two", "longer than before"] {
            fs::remove_file(&path).ok();
            fs::write(&path, content).unwrap();
            for _ in 0..2 {
                let file = File::open(&path).unwrap();
                assert_eq!(of_file(&path, &file).unwrap(), of(content));
            }
        }
    }
}
