//! Tokens of all rows one after another, without padding: CUDA has operators for it.

use embedctl_native::architecture::AttentionDescription;
use embedctl_onnx::Attribute;

use super::heads::Heads;
use super::own::OWN;
use super::shared::SharedValues;
use super::writer::GraphWriter;

/// Where the tokens of rows without padding belong.
pub(super) struct Packing {
    /// The place of each token, then those of padding, `[rows, length]`.
    offsets: String,
    /// Where each row's tokens begin, and the last one's end, `[rows + 1]`.
    bounds: String,
}

impl GraphWriter {
    /// `states`, `[rows, length, width]`, without those of padding, `[tokens, width]`.
    pub(super) fn packed(&mut self, states: &str, shared: &SharedValues) -> (String, Packing) {
        let operator = format!("{OWN}:RemovePadding");
        // The last output is the longest row, which no node takes.
        let made = self.nodes(&operator, &[states, &shared.lengths], Vec::new(), 4);
        let packing = Packing {
            offsets: made[1].clone(),
            bounds: made[2].clone(),
        };
        (made[0].clone(), packing)
    }

    /// The reverse; states of padding are zeros.
    pub(super) fn unpacked(&mut self, states: &str, packing: &Packing) -> String {
        self.own("RestorePadding", &[states, &packing.offsets], Vec::new())
    }

    /// The values that queries take, `[tokens, heads * size]`.
    pub(super) fn packed_context(
        &mut self,
        attention: &AttentionDescription,
        [queries, keys, values]: &[Heads; 3],
        packing: &Packing,
    ) -> String {
        let inputs = [
            queries.name.as_str(),
            &keys.name,
            &values.name,
            "",
            &packing.offsets,
            &packing.bounds,
        ];
        let attributes = vec![
            Attribute::int("num_heads", attention.heads as i64),
            Attribute::float("scale", attention.scale),
        ];
        self.own("PackedMultiHeadAttention", &inputs, attributes)
    }
}
