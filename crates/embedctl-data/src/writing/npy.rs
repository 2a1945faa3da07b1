//! Headers of NPY files of version 1.0, as `NumPy` writes them.

use embedctl_records::quantize::Dtype;

/// Length of a whole header: a multiple of 64, so that the values are aligned when the file is mapped, and enough for
/// any number of rows, which is known at the end only.
pub(crate) const HEADER: usize = 128;

/// The type of lengths.
const LENGTH: &str = "<i8";

/// The header of an array of that type and shape, in C order.
///
/// # Panics
/// If type and shape are too long for it.
pub(crate) fn header(kind: &str, shape: &str) -> [u8; HEADER] {
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut header = [b' '; HEADER];
    header[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    let length = u16::try_from(HEADER - 10).expect("128 fits");
    header[8..10].copy_from_slice(&length.to_le_bytes());
    header[10..10 + text.len()].copy_from_slice(text.as_bytes());
    header[HEADER - 1] = b'\n';
    header
}

/// The header of `rows × width` values.
pub(crate) fn matrix(dtype: Dtype, rows: u64, width: usize) -> [u8; HEADER] {
    let kind = match dtype {
        Dtype::F32 => "<f4",
        Dtype::F16 => "<f2",
        Dtype::Int8 | Dtype::Binary => "|i1",
        Dtype::Uint8 | Dtype::Ubinary => "|u1",
    };
    header(kind, &format!("{rows}, {width}"))
}

/// The header of the lengths of so many rows.
pub(crate) fn lengths(rows: u64) -> [u8; HEADER] {
    header(LENGTH, &format!("{rows},"))
}

/// Whether a file with this beginning is one of lengths.
pub(crate) fn is_lengths(start: &[u8]) -> bool {
    let text = start.get(10..).map(String::from_utf8_lossy);
    let rows = text.as_deref().and_then(|text| {
        let (_, rows) = text.split_once("'shape': (")?;
        rows.split_once(",)")?.0.parse().ok()
    });
    rows.is_some_and(|rows| start == lengths(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_numpys() {
        let header = matrix(Dtype::F32, 3, 384);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(
            std::str::from_utf8(&header[10..]).unwrap().trim_end(),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 384), }"
        );
        assert_eq!(header[HEADER - 1], b'\n');
        assert_eq!(header.len() % 64, 0);
    }

    #[test]
    fn the_header_has_room_for_any_shape() {
        let header = matrix(Dtype::F32, u64::MAX, usize::MAX / 4);
        assert_eq!(&header[HEADER - 2..], b" \n");
    }

    #[test]
    fn lengths_are_told_from_other_arrays() {
        assert!(is_lengths(&lengths(0)) && is_lengths(&lengths(u64::MAX)));
        assert!(!is_lengths(&matrix(Dtype::F32, 3, 1)) && !is_lengths(&header("<i4", "3,")));
        for cut in 0..HEADER {
            assert!(!is_lengths(&lengths(3)[..cut]), "{cut}");
        }
    }
}
