//! Whether an ELF file exports a name, as the loader would find it.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{DT_STRTAB, Elf, damaged, number, table, value};

/// A chain of symbols with one hash has a few links.
const LONGEST_CHAIN: usize = 4096;

const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// Whether the file at `path` exports all of `names`, as the loader would find them: by the GNU hash table,
/// which takes a few short reads however large the file is.
pub fn exports(path: &Path, names: &[&str]) -> io::Result<bool> {
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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_exports_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("no.so");
        let myself = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        std::fs::write(&path, &myself[..100]).unwrap();
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
