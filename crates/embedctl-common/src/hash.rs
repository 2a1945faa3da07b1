//! SHA-256, which identifies content.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

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

/// Hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
