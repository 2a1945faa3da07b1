//! Names of PCI devices, from the list that most distributions install.

use std::fs;
use std::path::Path;

/// Where the list lies.
const PLACES: [&str; 3] = [
    "usr/share/hwdata/pci.ids",
    "usr/share/misc/pci.ids",
    "usr/share/pci.ids",
];

/// The list below `root`, which stands for `/`; empty if there is none.
pub(super) fn list(root: &Path) -> String {
    PLACES
        .iter()
        .find_map(|place| fs::read(root.join(place)).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// The name of a device: its product name, if the list has one in brackets behind the chip's name.
///
/// A vendor's line starts with its number, the lines of its devices with a tab and theirs, and those of
/// makers of cards with two.
pub(super) fn name(list: &str, vendor: u32, device: u32) -> Option<&str> {
    let vendor = format!("{vendor:04x}  ");
    let device = format!("\t{device:04x}  ");
    let mut lines = list.lines().skip_while(|line| !line.starts_with(&vendor));
    lines.next()?;
    let full = lines
        .take_while(|line| line.starts_with('\t') || line.starts_with('#') || line.is_empty())
        .find_map(|line| line.strip_prefix(&device))?
        .trim();
    let bracketed = full
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once('['))
        .map(|(_, name)| name);
    Some(bracketed.unwrap_or(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# comment\n\
        1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\
        \t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]\n\
        \t\t1002 0e3b  Radeon RX 7900 XTX Sapphire\n\
        \t74a1  Aqua Vanjaram [Instinct MI300X]\n\
        10de  NVIDIA Corporation\n\
        \t744c  Something else\n";

    #[test]
    fn a_name_is_the_one_people_use() {
        assert_eq!(
            name(LIST, 0x1002, 0x744c),
            Some("Radeon RX 7900 XT/7900 XTX/7900M")
        );
        assert_eq!(name(LIST, 0x10de, 0x744c), Some("Something else"));
    }

    #[test]
    fn a_device_is_looked_for_under_its_vendor_alone() {
        assert_eq!(name(LIST, 0x10de, 0x74a1), None);
        assert_eq!(name(LIST, 0x8086, 0x744c), None);
        assert_eq!(name("", 0x10de, 0x74a1), None);
    }
}
