//! Whether this program could load a library file at all, by the system and processor in the file's headers. Nothing
//! is loaded, so a file that would crash the loader does no harm.
//!
//! The magic number and the processor's are read here: the crate `object` parses whole files, also where a file is
//! cut short or for another system, and has no names of processors that match [`std::env::consts::ARCH`].

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::elf;
use super::fault::LibraryFault;
use super::search_path::System;

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
        && let Ok(least) = elf::least_size(file)
        && least > length
    {
        return Err(LibraryFault::CutShort(length, least));
    }
    Ok(())
}

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

/// A little-endian number of `width` bytes; 0 where there are none.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut all = [0; 8];
    if let Some(part) = bytes.get(at..at.saturating_add(width)) {
        all[..width].copy_from_slice(part);
    }
    u64::from_le_bytes(all)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The test program itself: a valid file for any machine.
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
            (b"hello", "not a shared library"),
            (b"/* GNU ld script */ INPUT(x)", "not a shared library"),
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
            (b"MZ", "not a shared library"),
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
            format!("foreign architecture: the file is for {name}, but this program is for {HERE}")
        );
        let mut mach = vec![0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 2];
        mach.extend([1, 0, 0, 7].iter().chain(&[0; 16]));
        mach.extend([1, 0, 0, 12].iter().chain(&[0; 16]));
        assert_eq!(identify(&mach).unwrap().machines, ["x86_64", "aarch64"]);
        assert_eq!(
            reason(&mach).unwrap_err(),
            "it is a library for macOS, but this is Linux"
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
}
