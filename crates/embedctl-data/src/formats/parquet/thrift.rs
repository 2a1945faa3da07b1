//! Thrift's compact encoding, as far as it is looked at before the parquet crate reads it.

/// Values in Thrift's compact encoding.
pub(super) struct Thrift<'a>(pub &'a [u8]);

impl Thrift<'_> {
    pub const STOP: u8 = 0;
    pub const I32: u8 = 5;
    pub const LIST: u8 = 9;
    pub const STRUCT: u8 = 12;

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A number whose sign is in the lowest bit.
    pub(super) fn number(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The type of the next field, and its number in place of that of the one before.
    pub(super) fn field(&mut self, number: &mut i16) -> Option<u8> {
        let head = self.byte()?;
        let kind = head & 0xf;
        if kind != Self::STOP {
            *number = match head >> 4 {
                0 => i16::try_from(self.number()?).ok()?,
                more => number.checked_add(i16::from(more))?,
            };
        }
        Some(kind)
    }

    /// The type and number of a list's elements.
    pub(super) fn list(&mut self) -> Option<(u8, u64)> {
        let head = self.byte()?;
        let elements = match head >> 4 {
            15 => self.unsigned()?,
            few => u64::from(few),
        };
        Some((head & 0xf, elements))
    }

    pub(super) fn skip(&mut self, kind: u8, levels: u32) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()), // a truth value in its field's head
            3 => self.pass(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            9 | 10 => {
                let (kind, elements) = self.list()?;
                (0..elements).try_for_each(|_| self.skip_element(kind, levels))
            }
            11 => {
                let entries = self.unsigned()?;
                if entries == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..entries).try_for_each(|_| {
                    self.skip_element(kinds >> 4, levels)?;
                    self.skip_element(kinds & 0xf, levels)
                })
            }
            12 => {
                let mut field = 0;
                loop {
                    match self.field(&mut field)? {
                        Self::STOP => return Some(()),
                        kind => self.skip(kind, levels)?,
                    }
                }
            }
            13 => self.pass(16),
            _ => None,
        }
    }

    /// Passes over an element of a list or map, where a truth value has a byte of its own.
    fn skip_element(&mut self, kind: u8, levels: u32) -> Option<()> {
        match kind {
            1 | 2 => self.pass(1),
            kind => self.skip(kind, levels),
        }
    }
}
