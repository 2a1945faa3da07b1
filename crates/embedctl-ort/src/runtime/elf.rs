//! The parts of ELF files that matter here, read without loading them: how long a file should be, which
//! libraries it asks for, and, but for Windows and macOS, whether it exports a name. By hand, without the crate
//! `object`: a header and two tables of bounded length, in a format that does not change.

#[cfg(not(any(windows, target_vendor = "apple")))]
mod exports;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

#[cfg(not(any(windows, target_vendor = "apple")))]
pub use exports::exports;

/// Tables longer than this are no tables: the file is damaged, or not what it seems.
const LONGEST_TABLE: u64 = 16 << 20;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;

/// Names of the libraries that the file at `path` asks the loader for.
pub(super) fn needed(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let elf = Elf::read(&mut file)?;
    let dynamic = elf.dynamic(&mut file)?;
    let (Some(names), Some(size)) = (value(&dynamic, DT_STRTAB), value(&dynamic, DT_STRSZ)) else {
        return Ok(Vec::new());
    };
    let names = table(&mut file, elf.offset(names)?, size)?;
    dynamic
        .iter()
        .filter(|&&(tag, _)| tag == DT_NEEDED)
        .map(|&(_, at)| {
            let rest = usize::try_from(at).ok().and_then(|at| names.get(at..));
            let name = rest.and_then(|rest| rest.split(|&byte| byte == 0).next());
            name.map(|name| String::from_utf8_lossy(name).into_owned())
                .ok_or_else(damaged)
        })
        .collect()
}

fn value(dynamic: &[(u64, u64)], tag: u64) -> Option<u64> {
    let found = dynamic.iter().find(|entry| entry.0 == tag);
    found.map(|entry| entry.1)
}

/// The parts of a 64-bit little-endian ELF file that matter here.
pub(super) struct Elf {
    segments: Vec<Segment>,
    /// Where the section headers end: usually the last thing in the file.
    sections_end: u64,
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

impl Segment {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
}

impl Elf {
    /// Reads the headers.
    pub(super) fn read(file: &mut File) -> io::Result<Self> {
        let header = table(file, 0, 64)?;
        if !header.starts_with(&[0x7F, b'E', b'L', b'F', 2, 1]) {
            return Err(damaged());
        }
        let (at, size, count) = (
            number(&header, 32, 8),
            number(&header, 54, 2),
            number(&header, 56, 2),
        );
        if size != 56 {
            return Err(damaged());
        }
        let segments = table(file, at, size * count)?
            .chunks_exact(56)
            .map(|header| Segment {
                kind: number(header, 0, 4),
                offset: number(header, 8, 8),
                address: number(header, 16, 8),
                size: number(header, 32, 8),
            })
            .collect();
        let sections = number(&header, 58, 2) * number(&header, 60, 2);
        Ok(Self {
            segments,
            sections_end: number(&header, 40, 8).saturating_add(sections),
        })
    }

    /// The size that the file must have at least.
    pub(super) fn end(&self) -> u64 {
        let loaded = self.segments.iter().filter(|one| one.kind == Segment::LOAD);
        loaded
            .map(|one| one.offset.saturating_add(one.size))
            .fold(self.sections_end, u64::max)
    }

    /// What the file tells the loader: tags and their values.
    fn dynamic(&self, file: &mut File) -> io::Result<Vec<(u64, u64)>> {
        let segment = self
            .segments
            .iter()
            .find(|one| one.kind == Segment::DYNAMIC);
        let Some(segment) = segment else {
            return Ok(Vec::new());
        };
        let entries = table(file, segment.offset, segment.size)?;
        Ok(entries
            .chunks_exact(16)
            .map(|entry| (number(entry, 0, 8), number(entry, 8, 8)))
            .take_while(|&(tag, _)| tag != 0)
            .collect())
    }

    /// Where in the file a virtual address is.
    fn offset(&self, address: u64) -> io::Result<u64> {
        self.segments
            .iter()
            .filter(|one| one.kind == Segment::LOAD)
            .find(|one| address >= one.address && address - one.address < one.size)
            .and_then(|one| one.offset.checked_add(address - one.address))
            .ok_or_else(damaged)
    }
}

/// A little-endian number of `width` bytes; 0 where there are none.
pub(super) fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut all = [0; 8];
    if let Some(part) = bytes.get(at..at.saturating_add(width)) {
        all[..width].copy_from_slice(part);
    }
    u64::from_le_bytes(all)
}

fn table(file: &mut File, offset: u64, size: u64) -> io::Result<Vec<u8>> {
    if size > LONGEST_TABLE {
        return Err(damaged());
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| damaged())?];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no sound ELF file")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_read() {
        let myself = std::env::current_exe().unwrap();
        let names = needed(&myself).unwrap();
        assert!(
            names.iter().any(|name| name.starts_with("libc.")),
            "{names:?}"
        );
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("no.so");
        std::fs::write(&path, &std::fs::read(myself).unwrap()[..100]).unwrap();
        assert!(needed(&path).is_err());
    }
}
