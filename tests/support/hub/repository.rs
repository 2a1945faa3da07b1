//! Repositories as the Hub keeps them: commits, and files that are named by their hashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Files from this size on, and all `.onnx`, are kept in the Hub's storage (LFS).
const LFS_FROM: usize = 1024;

/// The files of a repository, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files(pub BTreeMap<String, Vec<u8>>);

impl Files {
    /// Everything in a folder.
    pub fn of(folder: &Path) -> Self {
        let mut files = Self::default();
        files.add(folder, "");
        files
    }

    fn add(&mut self, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                self.add(&path, &format!("{name}/"));
            } else {
                self.0.insert(name, fs::read(&path).unwrap());
            }
        }
    }

    /// The same with one more file, or with other content in one.
    pub fn with(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.0.insert(path.to_owned(), content.into());
        self
    }

    /// The same without a file.
    pub fn without(mut self, path: &str) -> Self {
        assert!(self.0.remove(path).is_some(), "there is no {path}");
        self
    }

    pub fn get(&self, path: &str) -> &[u8] {
        &self.0[path]
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A commit's name: the same for the same files.
    pub fn commit(&self) -> String {
        let mut hash = Sha1::new();
        for (path, content) in &self.0 {
            hash.update(format!("{path}\0{}\0", content.len()));
            hash.update(content);
        }
        hexadecimal(&hash.finalize())
    }
}

/// Whether a file is kept in the storage.
pub fn is_lfs(path: &str, content: &[u8]) -> bool {
    path.ends_with(".onnx") || content.len() >= LFS_FROM
}

/// The etag: SHA-256 of what is in the storage, git's name for the rest.
pub fn etag(path: &str, content: &[u8]) -> String {
    if is_lfs(path, content) {
        sha256(content)
    } else {
        git_blob(content)
    }
}

pub fn sha256(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

/// Git's name for content.
pub fn git_blob(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hexadecimal(&hash.finalize())
}

/// The pointer that git keeps in place of a file in the storage.
pub fn pointer(content: &[u8]) -> Vec<u8> {
    format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n",
        sha256(content),
        content.len()
    )
    .into_bytes()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
