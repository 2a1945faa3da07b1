//! Hashes of what is written, by which a reader tells that files belong together.

use sha2::{Digest, Sha256};

/// The SHA-256 of what was written so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hash(Sha256);

impl Hash {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn hex(&self) -> String {
        let hash = self.0.clone().finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
