//! The parts of ELF files that matter here, read without loading them: how long a file should be, which
//! libraries it asks for, and whether it exports a name. By hand, without the crate `object`: a header and two tables of
//! bounded length, in a format that does not change.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Tables longer than this are no tables: the file is damaged, or not what it seems.
const LONGEST_TABLE: u64 = 16 << 20;

/// A chain of symbols with one hash has a few links.
const LONGEST_CHAIN: usize = 4096;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

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

/// Whether the file at `path` exports all of `names`, as the loader would find them: by the GNU hash table,
/// which takes a few short reads however large the file is.
pub(super) fn exports(path: &Path, names: &[&str]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let elf = Elf::read(&mut file)?;
    let dynamic = elf.dynamic(&mut file)?;
    let (Some(hash), Some(symbols), Some(strings)) = (
        value(&dynamic, DT_GNU_HASH),
        value(&dynamic, DT_SYMTAB),
        value(&dynamic, DT_STRTAB),
    ) else {
        return Ok(false);
    };
    let (hash, symbols, strings) = (
        elf.offset(hash)?,
        elf.offset(symbols)?,
        elf.offset(strings)?,
    );
    for name in names {
        if !exported(&mut file, name, hash, symbols, strings)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Looks `name` up. `hash`, `symbols` and `strings` are where in the file the tables begin.
fn exported(
    file: &mut File,
    name: &str,
    hash: u64,
    symbols: u64,
    strings: u64,
) -> io::Result<bool> {
    let header = table(file, hash, 16)?;
    let [buckets, first, words, shift] = [0, 4, 8, 12].map(|at| number(&header, at, 4));
    if buckets == 0 || words == 0 {
        return Ok(false);
    }
    let wanted = gnu_hash(name);
    let bloom = at(hash, 16 + wanted / 64 % words * 8)?;
    let word = number(&table(file, bloom, 8)?, 0, 8);
    let bit = |number: u64| word >> (number % 64) & 1 == 1;
    if !(bit(wanted) && bit(wanted.checked_shr(shift as u32).unwrap_or(0))) {
        return Ok(false);
    }
    let bucket_table = at(hash, 16 + words * 8)?;
    let bucket = at(bucket_table, wanted % buckets * 4)?;
    let start = number(&table(file, bucket, 4)?, 0, 4);
    if start < first {
        return Ok(false);
    }
    let chains = at(bucket_table, buckets * 4)?;
    for index in (start..).take(LONGEST_CHAIN) {
        let link = number(&table(file, at(chains, (index - first) * 4)?, 4)?, 0, 4);
        if link | 1 == wanted | 1 {
            let symbol = table(file, at(symbols, index * 24)?, 24)?;
            let (text, section) = (number(&symbol, 0, 4), number(&symbol, 6, 2));
            let text = table(file, at(strings, text)?, name.len() as u64 + 1)?;
            // Section 0: it is wanted from elsewhere.
            if section != 0 && text.split_last() == Some((&0, name.as_bytes())) {
                return Ok(true);
            }
        }
        // The lowest bit ends a chain.
        if link & 1 == 1 {
            break;
        }
    }
    Ok(false)
}

/// The hash of the table (32 bits).
fn gnu_hash(name: &str) -> u64 {
    let hash = name.bytes().fold(5381_u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(byte.into())
    });
    hash.into()
}

fn at(start: u64, further: u64) -> io::Result<u64> {
    start.checked_add(further).ok_or_else(damaged)
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
        assert!(exports(&path, &["malloc"]).is_err());
    }

    /// The C library's own file: what it exports, what it only asks for, and what is in no table.
    #[test]
    fn exported_names_are_found_by_their_hash() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .find(|path| path.contains("/libc.so.6") || path.contains("/libc-2"));
        let Some(libc) = libc.map(Path::new) else {
            return; // another C library, or none
        };
        assert!(exports(libc, &["malloc", "pthread_create", "qsort"]).unwrap());
        assert!(!exports(libc, &["malloc", "CreateEpFactories"]).unwrap());
        // Wanted from the loader, defined there.
        assert!(!exports(libc, &["_dl_argv"]).unwrap());
    }
}
