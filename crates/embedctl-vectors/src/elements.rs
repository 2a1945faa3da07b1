//! The elements of weights as files store them. All that runs for each of them is here.

/// How a tensor's elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `F32`.
    Bf16,
    /// A signed 64-bit integer (token maps only).
    I64,
    /// A signed 32-bit integer (token maps only).
    I32,
    /// IEEE double precision (token weights only).
    F64,
    /// A signed byte (quantized static embeddings only).
    I8,
}

impl Element {
    /// Bytes of one.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

/// A row-major table of `[rows, width]` in memory, in the checkpoint's own element type; its elements are converted when
/// they are looked up.
pub struct ElementTable {
    data: Vec<u8>,
    element: Element,
    rows: usize,
    width: usize,
}

impl ElementTable {
    /// A table of `rows` rows of `width` elements, which `data` holds one after another.
    ///
    /// # Panics
    /// If `data` has another length.
    #[must_use]
    pub fn new(data: Vec<u8>, element: Element, [rows, width]: [usize; 2]) -> Self {
        assert!(
            rows.checked_mul(width)
                .and_then(|all| all.checked_mul(element.size()))
                == Some(data.len()),
            "bytes of [{rows}, {width}]"
        );
        Self {
            data,
            element,
            rows,
            width,
        }
    }

    /// The same in single precision, each row changed by `change`.
    #[must_use]
    pub fn changed(&self, change: &dyn Fn(usize, &mut [f32])) -> Self {
        let mut values = vec![0.0; self.width];
        let mut data = Vec::with_capacity(self.rows * self.width * Element::F32.size());
        for row in 0..self.rows {
            self.row(row, &mut values);
            change(row, &mut values);
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Self {
            data,
            element: Element::F32,
            ..*self
        }
    }

    /// Its rows as they are stored.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The type of its elements.
    #[must_use]
    pub fn element(&self) -> Element {
        self.element
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes row `row` to `out`, which has [`ElementTable::width`] elements.
    ///
    /// # Panics
    /// If there is no such row, or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(
            row < self.rows && out.len() == self.width,
            "row {row} of {}",
            self.rows
        );
        let stride = self.width * self.element.size();
        let start = row * stride;
        widen(self.element, &self.data[start..start + stride], out);
    }
}

impl std::fmt::Debug for ElementTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, width, .. } = self;
        write!(f, "[{rows}, {width}] of {:?}", self.element)
    }
}

/// Converts raw elements, as many as `out` has.
///
/// # Panics
/// If the elements are whole numbers of more than a byte.
pub fn widen(element: Element, data: &[u8], out: &mut [f32]) {
    fn fill<const N: usize>(data: &[u8], out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
        for (slot, word) in out.iter_mut().zip(data.as_chunks::<N>().0) {
            *slot = read(*word);
        }
    }
    match element {
        Element::F32 => fill(data, out, f32::from_le_bytes),
        Element::F16 => widen_halves(data, out),
        Element::Bf16 => fill(data, out, |word| {
            f32::from_bits(u32::from(u16::from_le_bytes(word)) << 16)
        }),
        #[allow(clippy::cast_possible_truncation)]
        Element::F64 => fill(data, out, |word| f64::from_le_bytes(word) as f32),
        Element::I8 => fill(data, out, |[byte]| f32::from(byte.cast_signed())),
        Element::I64 | Element::I32 => unreachable!("integers are refused before"),
    }
}

/// Half precision to single, eight at a time where the processor has an instruction for it. `half` has the same, behind calls
/// for each eight.
fn widen_halves(data: &[u8], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has the instructions.
        return unsafe { widen_eights(data, out) };
    }
    widen_one_by_one(data, out);
}

fn widen_one_by_one(data: &[u8], out: &mut [f32]) {
    for (slot, word) in out.iter_mut().zip(data.as_chunks().0) {
        *slot = widened_half(*word);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "f16c")]
fn widen_eights(data: &[u8], out: &mut [f32]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    let count = out.len().min(data.len() / 2);
    let (eights, rest) = out[..count].as_chunks_mut::<8>();
    let (words, last) = data[..2 * count].as_chunks::<16>();
    for (slots, words) in eights.iter_mut().zip(words) {
        // SAFETY: sixteen bytes are read, and eight numbers written, wherever they lie.
        unsafe {
            let halves = _mm_loadu_si128(words.as_ptr().cast());
            _mm256_storeu_ps(slots.as_mut_ptr(), _mm256_cvtph_ps(halves));
        }
    }
    widen_one_by_one(last, rest);
}

/// One number of half precision: its exponent is moved to the bias of 127, subnormal numbers by a subtraction. Without branches,
/// so that compilers compute several at once.
fn widened_half(word: [u8; 2]) -> f32 {
    const EXPONENT: u32 = 0x7c00 << 13;
    const SUBNORMAL: u32 = 113 << 23; // 2^-14, where subnormal numbers begin
    let word = u32::from(u16::from_le_bytes(word));
    let bits = (word & 0x7fff) << 13;
    let normal = bits + ((127 - 15) << 23);
    let not_finite = bits | (0xff << 23);
    let subnormal = f32::from_bits(bits + SUBNORMAL) - f32::from_bits(SUBNORMAL);
    let magnitude = match bits & EXPONENT {
        EXPONENT => not_finite,
        0 => subnormal.to_bits(),
        _ => normal,
    };
    f32::from_bits(magnitude | ((word & 0x8000) << 16))
}

/// Whether no element is NaN or infinite: those whose exponent has all bits set.
#[must_use]
pub fn all_finite(element: Element, data: &[u8]) -> bool {
    match element {
        Element::F32 => !data.as_chunks().0.iter().fold(false, |bad, word| {
            bad | (u32::from_le_bytes(*word) & 0x7f80_0000 == 0x7f80_0000)
        }),
        Element::F16 | Element::Bf16 => {
            let exponent: u16 = if element == Element::F16 {
                0x7c00
            } else {
                0x7f80
            };
            !data.as_chunks().0.iter().fold(false, |bad, word| {
                bad | (u16::from_le_bytes(*word) & exponent == exponent)
            })
        }
        Element::F64 => words(data, f64::from_le_bytes).all(f64::is_finite),
        Element::I8 | Element::I64 | Element::I32 => true,
    }
}

/// Raw elements as whole numbers; `None` where they are none of more than a byte.
#[must_use]
pub fn integers(element: Element, data: &[u8]) -> Option<Vec<i64>> {
    match element {
        Element::I64 => Some(words(data, i64::from_le_bytes).collect()),
        Element::I32 => Some(words(data, |word| i64::from(i32::from_le_bytes(word))).collect()),
        _ => None,
    }
}

fn words<const N: usize, T>(data: &[u8], read: impl Fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    data.as_chunks::<N>().0.iter().map(move |word| read(*word))
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn half_precision_is_widened_exactly() {
        let data: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        type Way = fn(&[u8], &mut [f32]);
        let ways: [Way; 2] = [widen_halves, widen_one_by_one];
        // Rows of every length up to more than any processor computes at once, wherever they begin.
        for (widen, len) in (1..150).flat_map(|len| ways.map(|way| (way, len))) {
            let mut ours = vec![0.0; len];
            for (row, bytes) in data.chunks_exact(2 * len).enumerate() {
                widen(bytes, &mut ours);
                for (i, ours) in ours.iter().enumerate() {
                    let bits = (row * len + i) as u16;
                    let theirs = f16::from_bits(bits).to_f32();
                    assert!(
                        ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                        "{bits:#x}: {ours} instead of {theirs}"
                    );
                }
            }
        }
    }

    #[test]
    fn nan_and_infinity_are_found_in_every_element_type() {
        let halves = |values: [f32; 3]| {
            values
                .map(|value| f16::from_f32(value).to_le_bytes())
                .concat()
        };
        let brains = |values: [f32; 3]| {
            values
                .map(|value| half::bf16::from_f32(value).to_le_bytes())
                .concat()
        };
        let singles = |values: [f32; 3]| values.map(f32::to_le_bytes).concat();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!all_finite(Element::F16, &halves([1.0, bad, 0.0])));
            assert!(!all_finite(Element::Bf16, &brains([1.0, bad, 0.0])));
            assert!(!all_finite(Element::F32, &singles([1.0, bad, 0.0])));
        }
        assert!(all_finite(Element::F16, &halves([65504.0, -0.0, 6e-8])));
        assert!(all_finite(Element::Bf16, &brains([3e38, -0.0, 1e-40])));
        assert!(all_finite(Element::F32, &singles([f32::MAX, -0.0, 1e-45])));
    }
}
