//! What a library file is, read from its headers: whether this program could load it at all, and what it
//! needs beside it. Nothing is loaded for that, so a file that would crash the loader does no harm.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::fault::LibraryFault;
use super::search_path::System;

/// Tables longer than this are no tables: the file is damaged, or not what it seems.
const LONGEST_TABLE: u64 = 16 << 20;

/// The processor that this program was built for, as [`Binary::machines`] names it.
const HERE: &str = std::env::consts::ARCH;

/// A file's format and the processors it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binary {
    system: System,
    machines: Vec<String>,
}

/// Why this program cannot load the file at `path`, as far as its headers tell; a file that is not there
/// or cannot be read is left to the loader.
pub(super) fn check(path: &Path) -> Result<(), LibraryFault> {
    let Ok(mut file) = File::open(path) else {
        return Ok(());
    };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut head = Vec::new();
    if file.by_ref().take(4096).read_to_end(&mut head).is_err() {
        return Ok(());
    }
    if head.is_empty() {
        return Err(LibraryFault::Empty);
    }
    if head.starts_with(b"version https://git-lfs") {
        return Err(LibraryFault::LfsPointer);
    }
    let Some(binary) = identify(&head) else {
        return Err(LibraryFault::NoLibrary);
    };
    if binary.system != System::HERE {
        return Err(LibraryFault::OtherSystem(binary.system));
    }
    if !binary.machines.iter().any(|machine| machine == HERE) {
        return Err(LibraryFault::OtherProcessor(binary.machines));
    }
    if binary.system == System::Linux
        && let Ok(elf) = Elf::read(&mut file)
        && elf.end() > length
    {
        return Err(LibraryFault::CutShort(length, elf.end()));
    }
    Ok(())
}

/// Names of the libraries that the ELF file at `path` asks the loader for.
///
/// # Errors
/// If it cannot be read as one.
pub(super) fn needed(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let elf = Elf::read(&mut file)?;
    let Some(dynamic) = elf.segments.iter().find(|one| one.kind == Segment::DYNAMIC) else {
        return Ok(Vec::new());
    };
    let entries = table(&mut file, dynamic.offset, dynamic.size)?;
    let entries: Vec<(u64, u64)> = entries
        .chunks_exact(16)
        .map(|entry| (number(entry, 0, 8), number(entry, 8, 8)))
        .take_while(|&(tag, _)| tag != 0)
        .collect();
    let value = |tag| {
        entries
            .iter()
            .find(|entry| entry.0 == tag)
            .map(|entry| entry.1)
    };
    let (Some(names), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
        return Ok(Vec::new());
    };
    let names = elf.offset(names).ok_or_else(damaged)?;
    let names = table(&mut file, names, size)?;
    entries
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

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;

fn identify(head: &[u8]) -> Option<Binary> {
    let (system, machines) = match head {
        [0x7F, b'E', b'L', b'F', class, order, ..] => {
            let bytes = head.get(18..20)?;
            let machine = match order {
                2 => u16::from_be_bytes([bytes[0], bytes[1]]),
                _ => u16::from_le_bytes([bytes[0], bytes[1]]),
            };
            (System::Linux, vec![elf_machine(machine, *class, *order)])
        }
        // Mach-O for one processor, then for several, whose list is in the other byte order.
        [0xCF, 0xFA, 0xED, 0xFE, ..] => (System::MacOs, vec![mach_machine(number(head, 4, 4))]),
        [0xCA, 0xFE, 0xBA, 0xBE, ..] => {
            let big = |at: usize| {
                let bytes = head.get(at..at + 4)?;
                Some(u32::from_be_bytes(bytes.try_into().ok()?))
            };
            let count = big(4)?.min(16) as usize;
            let machines = (0..count).map_while(|index| big(8 + 20 * index));
            let machines = machines.map(|machine| mach_machine(machine.into()));
            (System::MacOs, machines.collect())
        }
        [b'M', b'Z', ..] => {
            let at = usize::try_from(number(head, 0x3C, 4)).ok()?;
            if head.get(at..at + 4)? != b"PE\0\0" {
                return None;
            }
            let machine = match number(head, at + 4, 2) {
                0x8664 => "x86_64".to_owned(),
                0xAA64 => "aarch64".to_owned(),
                0x014C => "x86".to_owned(),
                other => format!("machine {other:#x}"),
            };
            (System::Windows, vec![machine])
        }
        _ => return None,
    };
    Some(Binary { system, machines })
}

/// The names are those of `std::env::consts::ARCH`.
fn elf_machine(machine: u16, class: u8, order: u8) -> String {
    let name = match (machine, class, order) {
        (62, 2, _) => "x86_64",
        (62, ..) => "x32",
        (183, _, 1) => "aarch64",
        (3, ..) => "x86",
        (40, ..) => "arm",
        (243, 2, _) => "riscv64",
        (21, ..) => "powerpc64",
        (22, ..) => "s390x",
        (258, 2, _) => "loongarch64",
        (other, ..) => return format!("ELF machine {other}"),
    };
    name.to_owned()
}

fn mach_machine(machine: u64) -> String {
    match machine {
        0x0100_0007 => "x86_64".to_owned(),
        0x0100_000C => "aarch64".to_owned(),
        other => format!("Mach-O machine {other:#x}"),
    }
}

/// The parts of a 64-bit little-endian ELF file that matter here.
struct Elf {
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
    fn read(file: &mut File) -> io::Result<Self> {
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
    fn end(&self) -> u64 {
        let loaded = self.segments.iter().filter(|one| one.kind == Segment::LOAD);
        loaded
            .map(|one| one.offset.saturating_add(one.size))
            .fold(self.sections_end, u64::max)
    }

    /// Where in the file a virtual address is.
    fn offset(&self, address: u64) -> Option<u64> {
        self.segments
            .iter()
            .filter(|one| one.kind == Segment::LOAD)
            .find(|one| address >= one.address && address - one.address < one.size)
            .map(|one| one.offset + (address - one.address))
    }
}

/// A little-endian number of `width` bytes; 0 where there are none.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
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
mod tests {
    use super::*;

    /// The test program itself: a sound file for this machine, whatever that is.
    fn myself() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    fn reason(content: &[u8]) -> Result<(), String> {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("libonnxruntime.so");
        std::fs::write(&path, content).unwrap();
        check(&path).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_sound_file_passes_and_a_missing_one_is_left_to_the_loader() {
        assert_eq!(reason(&myself()), Ok(()));
        assert_eq!(check(Path::new("nowhere/libonnxruntime.so")), Ok(()));
    }

    #[test]
    fn what_is_no_library_is_told_by_its_beginning() {
        for (content, word) in [
            (&b""[..], "empty"),
            (b"hello", "no shared library"),
            (b"/* GNU ld script */ INPUT(x)", "no shared library"),
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
            (b"MZ", "no shared library"),
        ] {
            let reason = reason(content).unwrap_err();
            assert!(reason.contains(word), "{reason}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn other_processors_and_systems_are_named() {
        let mut elf = myself();
        let foreign = if HERE == "aarch64" { 62 } else { 183 };
        elf[18] = foreign;
        let name = elf_machine(foreign.into(), 2, 1);
        assert_eq!(
            reason(&elf).unwrap_err(),
            format!("foreign architecture: the file is for {name}, and this program is for {HERE}")
        );
        let mut mach = vec![0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 2];
        mach.extend([1, 0, 0, 7].iter().chain(&[0; 16]));
        mach.extend([1, 0, 0, 12].iter().chain(&[0; 16]));
        assert_eq!(identify(&mach).unwrap().machines, ["x86_64", "aarch64"]);
        assert_eq!(
            reason(&mach).unwrap_err(),
            "it is a library for macOS, and this is Linux"
        );
        let mut windows = vec![0; 128];
        windows[..2].copy_from_slice(b"MZ");
        windows[0x3C] = 64;
        windows[64..70].copy_from_slice(b"PE\0\0\x64\xAA");
        assert_eq!(identify(&windows).unwrap().machines, ["aarch64"]);
        assert!(reason(&windows).unwrap_err().contains("for Windows"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_was_cut_is_not_given_to_the_loader() {
        let whole = myself();
        let reason = reason(&whole[..whole.len() / 2]).unwrap_err();
        assert!(reason.contains("cut short"), "{reason}");
        assert!(reason.contains(&(whole.len() / 2).to_string()), "{reason}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn needed_libraries_are_read() {
        let names = needed(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            names.iter().any(|name| name.starts_with("libc.")),
            "{names:?}"
        );
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("no.so");
        std::fs::write(&path, &myself()[..100]).unwrap();
        assert!(needed(&path).is_err());
    }
}
