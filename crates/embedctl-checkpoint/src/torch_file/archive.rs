//! A ZIP archive whose members are not compressed, as `torch.save` writes it. Read by hand, since the crate `zip` gives a member
//! as a reader and not as a part of the bytes.

use std::collections::BTreeMap;

/// The members of an archive by their names, without the folder that all of them lie in.
pub(super) struct Archive<'a>(BTreeMap<&'a str, &'a [u8]>);

/// The end of an archive: its fixed part.
const END: usize = 22;

/// An entry of the directory, and the head of a member: their fixed parts.
const ENTRY: usize = 46;
const HEAD: usize = 30;

/// The comment behind the end is at most so long.
const COMMENT: usize = 1 << 16;

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    let number = bytes
        .iter()
        .rev()
        .fold(0, |all: u64, &byte| all << 8 | u64::from(byte));
    usize::try_from(number).ok()
}

impl<'a> Archive<'a> {
    /// Reads the directory of an archive.
    ///
    /// # Errors
    /// The reason why it is none, or is refused.
    pub fn read(bytes: &'a [u8]) -> Result<Self, String> {
        if !bytes.starts_with(b"PK\x03\x04") {
            return Err("is not an archive of torch.save (PyTorch 1.6 or later)".into());
        }
        let first = bytes.len().saturating_sub(END + COMMENT);
        let rest = &bytes[first..];
        let end = rest.windows(4).rposition(|four| four == b"PK\x05\x06");
        let end = first + end.ok_or("is cut short: the archive has no end")?;
        Self::members(bytes, end).ok_or_else(|| "has a damaged directory".into())
    }

    fn members(bytes: &'a [u8], end: usize) -> Option<Self> {
        let (count, mut at) = (number(bytes, end + 10, 2)?, number(bytes, end + 16, 4)?);
        let mut members = BTreeMap::new();
        for _ in 0..count {
            let entry = bytes.get(at..at.checked_add(ENTRY)?)?;
            let method = number(entry, 10, 2)?;
            let (packed, size) = (number(entry, 20, 4)?, number(entry, 24, 4)?);
            let (name, extra) = (number(entry, 28, 2)?, number(entry, 30, 2)?);
            let (comment, head) = (number(entry, 32, 2)?, number(entry, 42, 4)?);
            if !entry.starts_with(b"PK\x01\x02") || method != 0 || packed != size {
                return None;
            }
            let start = at + ENTRY;
            let full = std::str::from_utf8(bytes.get(start..start + name)?).ok()?;
            at = start + name + extra + comment;
            // Its head has a name and an extra field of its own.
            let own = bytes.get(head..head.checked_add(HEAD)?)?;
            if !own.starts_with(b"PK\x03\x04") {
                return None;
            }
            let data = head + HEAD + number(own, 26, 2)? + number(own, 28, 2)?;
            let content = bytes.get(data..data.checked_add(size)?)?;
            let (_, inside) = full.split_once('/')?;
            members.insert(inside, content);
        }
        Some(Self(members))
    }

    /// A member.
    ///
    /// # Errors
    /// If it is not there.
    pub fn get(&self, name: &str) -> Result<&'a [u8], String> {
        self.0
            .get(name)
            .copied()
            .ok_or_else(|| format!("has no member '{name}'"))
    }
}

/// An archive of these members, as [`Archive::read`] reads it.
#[cfg(test)]
pub(super) fn stored(members: &[(&str, &[u8])]) -> Vec<u8> {
    let two = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let four = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let (name, head) = (format!("archive/{name}"), archive.len());
        let sizes = [four(content.len()), four(content.len())].concat();
        let lengths = [two(name.len()), two(0)].concat();
        archive.extend(
            [
                b"PK\x03\x04",
                &[0; 14][..],
                &sizes,
                &lengths,
                name.as_bytes(),
            ]
            .concat(),
        );
        archive.extend_from_slice(content);
        directory.extend(
            [
                b"PK\x01\x02",
                &[0; 16][..],
                &sizes,
                &lengths,
                &[0; 10],
                &four(head),
            ]
            .concat(),
        );
        directory.extend_from_slice(name.as_bytes());
    }
    let (count, start) = (two(members.len()), four(archive.len()));
    let end = [
        b"PK\x05\x06",
        &[0; 4][..],
        &count,
        &count,
        &four(directory.len()),
        &start,
        &two(0),
    ];
    [archive, directory, end.concat()].concat()
}
