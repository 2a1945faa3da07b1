//! Notes of what precisions cost, which are kept beside prepared weights.

use crate::batch::TokenRows;
use crate::engine::{Cosine, FinishRow};
use crate::hash::Hash;

/// The name of the cosine that is measured by these rows and this way to a vector.
pub(super) fn name(rows: &TokenRows, finish: FinishRow<'_>) -> String {
    let mut name = Hash::default();
    name.add(format!("cosine\n{}\n", finish.digest));
    for row in (0..rows.len()).map(|row| rows.get(row)) {
        name.add(row.len().to_le_bytes());
        row.iter().for_each(|id| name.add(id.to_le_bytes()));
    }
    name.hex()
}

/// A cosine in a note: its numbers bit by bit, since decimal digits may be read back as a neighbouring number.
pub(super) fn write(cosine: Cosine) -> String {
    let Cosine {
        least,
        mean,
        texts,
        tokens,
    } = cosine;
    serde_json::json!([least.to_bits(), mean.to_bits(), texts, tokens]).to_string()
}

/// The cosine in a note.
pub(super) fn read(note: &str) -> Option<Cosine> {
    let (least, mean, texts, tokens) = serde_json::from_str(note).ok()?;
    Some(Cosine {
        least: f64::from_bits(least),
        mean: f64::from_bits(mean),
        texts,
        tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Lengths;

    #[test]
    fn a_cosine_is_read_from_a_note_as_it_was() {
        let lengths = Lengths { least: 4, most: 48 };
        let mut least = 1.0_f64;
        for step in 0..1000_u32 {
            least = least.next_down();
            let cosine = Cosine {
                least,
                mean: least - f64::from(step) * 1e-7 / 3.0,
                texts: 68,
                tokens: (step % 2 == 0).then_some(lengths),
            };
            assert_eq!(read(&write(cosine)), Some(cosine));
        }
        assert_eq!(read("{\"least\": 1.0}"), None);
    }
}
