//! 64-bit little-endian ELF files, read without loading them: the size that a file should have, the libraries it
//! needs, and, but for Windows and macOS, whether it exports a name.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use object::LittleEndian;
use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, DynamicTag, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::read::{ReadCache, Result, StringTable};

const ENDIAN: LittleEndian = LittleEndian;

type Header = FileHeader64<LittleEndian>;

/// Names of the libraries that the file at `path` asks the loader for.
///
/// # Errors
/// If the file cannot be read, or its headers are damaged.
pub(super) fn needed(path: &Path) -> io::Result<Vec<String>> {
    let data = &ReadCache::new(File::open(path)?);
    // Segments, as the loader reads them: a stripped file may have no sections.
    let header = Header::parse(data).map_err(damaged)?;
    let segments = header.program_headers(ENDIAN, data).map_err(damaged)?;
    let mut entries = Vec::new();
    for segment in segments {
        let dynamic = segment.dynamic(ENDIAN, data).map_err(damaged)?;
        let dynamic = dynamic.into_iter().flatten();
        entries.extend(dynamic.map(|entry| (entry.tag(ENDIAN), entry.val(ENDIAN))));
    }
    let value = |tag: DynamicTag| entries.iter().find(|one| one.0 == tag).map(|one| one.1);
    let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
        return Ok(Vec::new());
    };
    let mut loaded = segments.iter().filter(|one| one.p_type(ENDIAN) == PT_LOAD);
    let start = loaded.find_map(|segment| {
        let (offset, length) = segment.file_range(ENDIAN);
        let inside = address.checked_sub(segment.p_vaddr(ENDIAN))?;
        offset.checked_add(inside).filter(|_| inside < length)
    });
    let start = start.ok_or_else(|| damaged("its table of names lies in no segment"))?;
    let names = StringTable::new(data, start, start.saturating_add(size));
    let needed = entries.iter().filter(|one| one.0 == DT_NEEDED);
    needed
        .map(|&(_, offset)| {
            let name = u32::try_from(offset).ok().and_then(|at| names.get(at).ok());
            let name = name.ok_or_else(|| damaged("it names no library"))?;
            Ok(String::from_utf8_lossy(name).into_owned())
        })
        .collect()
}

/// The size in bytes that the file must have at least: up to the end of its segments and section headers.
pub(super) fn least_size(file: File) -> Result<u64> {
    let data = &ReadCache::new(file);
    let header = Header::parse(data)?;
    let sections = u64::from(header.e_shentsize(ENDIAN)) * u64::from(header.e_shnum(ENDIAN));
    let segments = header.program_headers(ENDIAN, data)?.iter();
    let ends = segments
        .filter(|one| one.p_type(ENDIAN) == PT_LOAD)
        .map(|one| one.p_offset(ENDIAN).saturating_add(one.p_filesz(ENDIAN)));
    Ok(ends.fold(header.e_shoff(ENDIAN).saturating_add(sections), u64::max))
}

/// Whether the file at `path` exports all of `names`, as the loader would find them: by the GNU hash table.
///
/// # Errors
/// If the file cannot be read, or its headers are damaged.
#[cfg(not(any(windows, target_vendor = "apple")))]
pub(super) fn exports(path: &Path, names: &[&str]) -> io::Result<bool> {
    use object::elf::{SHN_UNDEF, SHT_DYNSYM, gnu_hash};
    use object::read::elf::{Sym as _, VersionTable};

    let data = &ReadCache::new(File::open(path)?);
    let header = Header::parse(data).map_err(damaged)?;
    let sections = header.sections(ENDIAN, data).map_err(damaged)?;
    let symbols = sections
        .symbols(ENDIAN, data, SHT_DYNSYM)
        .map_err(damaged)?;
    let Some((table, _)) = sections.gnu_hash(ENDIAN, data).map_err(damaged)? else {
        return Ok(false);
    };
    Ok(names.iter().all(|name| {
        let (name, any) = (name.as_bytes(), VersionTable::default());
        let found = table.find(ENDIAN, name, gnu_hash(name), None, &symbols, &any);
        // A symbol without a section is wanted from another library.
        found.is_some_and(|(_, symbol)| symbol.st_shndx(ENDIAN) != SHN_UNDEF)
    }))
}

fn damaged(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
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
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("no.so");
        let myself = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        std::fs::write(&path, &myself[..100]).unwrap();
        assert!(needed(&path).is_err());
        assert!(exports(&path, &["malloc"]).is_err());
    }

    #[test]
    fn damaged_libraries_are_read_or_refused() {
        let Some(libc) = libc_file() else {
            return; // another C library, or none
        };
        let libc = std::fs::read(libc).unwrap();
        embedctl_testing::mutation::each("libdamaged.so", &libc, 20, |path| {
            let _ = needed(path);
            let _ = exports(path, &["malloc"]);
            let _ = least_size(File::open(path).unwrap());
        });
    }

    fn libc_file() -> Option<std::path::PathBuf> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut files = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        let libc = files.find(|path| path.contains("/libc.so.6") || path.contains("/libc-2"));
        libc.map(Into::into)
    }

    /// The C library's own file: names that it exports, that it only asks for, and that are in no table.
    #[test]
    fn exported_names_are_found_by_their_hash() {
        let Some(libc) = libc_file() else {
            return; // another C library, or none
        };
        assert!(exports(&libc, &["malloc", "pthread_create", "qsort"]).unwrap());
        assert!(!exports(&libc, &["malloc", "CreateEpFactories"]).unwrap());
        // Wanted from the loader, defined there.
        assert!(!exports(&libc, &["_dl_argv"]).unwrap());
    }
}
