//! Constants beyond the range of bfloat16.
//!
//! Older exports hide padding by `(1 - mask) × c`, with c the least number of float32. In bfloat16 that becomes
//! -∞, 0 × -∞ is NaN, and attention is lost: OpenVINO 2025.4 computes MiniLM with cosines about 0.3 so. The
//! largest number of bfloat16 does the same work in both.
//!
//! The file is not decoded: numbers are changed where they stand.

use embedctl_onnx::{self as onnx, FLOAT, MessageKind, fields};

/// Bits of float32 above which (the sign apart) bfloat16 rounds to infinity.
const LARGEST: u32 = 0x7F7F_0000;
const INFINITY: u32 = 0x7F80_0000;

/// Brings the float32 constants of an ONNX file into bfloat16's range; returns how many.
pub(super) fn clamp(model: &mut [u8]) -> Result<usize, String> {
    let mut found = Vec::new();
    let start = model.as_ptr() as usize;
    collect(MessageKind::Model, model, &mut |number| {
        found.push(number.as_ptr() as usize - start);
    })?;
    for &at in &found {
        // bfloat16 keeps a number's upper half; with a lower half of zeros it is the largest number there.
        model[at..at + 2].fill(0);
    }
    Ok(found.len())
}

/// Calls `beyond` for every number in a message that is beyond the range.
fn collect<'a>(
    kind: MessageKind,
    message: &'a [u8],
    beyond: &mut dyn FnMut(&'a [u8]),
) -> Result<(), String> {
    let is_float = match kind {
        MessageKind::Tensor => {
            let mut parts = fields(message);
            parts.any(|field| {
                field.is_ok_and(|field| {
                    field.number == 2 && field.whole.get(1..) == Some(&[FLOAT as u8])
                })
            })
        }
        _ => true,
    };
    for field in fields(message) {
        let onnx::Field {
            number,
            whole,
            content,
        } = field?;
        if let Some(inner) = kind.field(number) {
            collect(inner, content, beyond)?;
            continue;
        }
        let numbers = match (kind, number) {
            // `float_data` and `raw_data`, an attribute's `floats`; packed.
            (MessageKind::Tensor, 4 | 9) | (MessageKind::Attribute, 7) if !content.is_empty() => {
                content
            }
            // An attribute's `f`.
            (MessageKind::Attribute, 2 | 7) | (MessageKind::Tensor, 4) => {
                whole.get(1..).unwrap_or_default()
            }
            _ => continue,
        };
        if is_float {
            numbers
                .chunks_exact(4)
                .filter(|number| is_beyond(number))
                .for_each(&mut *beyond);
        }
    }
    Ok(())
}

fn is_beyond(number: &[u8]) -> bool {
    let bits = number.try_into().map_or(0, u32::from_le_bytes) & 0x7FFF_FFFF;
    bits > LARGEST && bits < INFINITY
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use embedctl_onnx::{GraphProto, ModelProto, Node, Tensor};

    fn tensor(values: &[f32]) -> Tensor {
        Tensor {
            dims: vec![values.len() as i64],
            data_type: FLOAT,
            raw_data: values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
            ..Tensor::default()
        }
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        let numbers = tensor.raw_data.chunks_exact(4);
        numbers
            .map(|number| f32::from_le_bytes(number.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn numbers_beyond_bfloat16_come_to_its_largest_and_nothing_else_changes() {
        let largest = f32::from_bits(LARGEST);
        let kept = [1.0, -largest, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-40];
        let integers = Tensor {
            data_type: onnx::INT64,
            raw_data: [0xFF; 16].into(),
            ..tensor(&[])
        };
        let model = |mask: &[f32]| ModelProto {
            graph: Some(GraphProto {
                node: vec![Node {
                    op_type: "Mul".into(),
                    ..Node::default()
                }],
                initializer: vec![tensor(&kept), tensor(mask), integers.clone()],
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        };
        let mut bytes = model(&[f32::MIN, f32::MAX, -10_000.0]).encode_to_vec();
        assert_eq!(clamp(&mut bytes), Ok(2));
        let changed = ModelProto::decode(bytes.as_slice()).unwrap().graph.unwrap();
        assert_eq!(
            values(&changed.initializer[1]),
            [-largest, largest, -10_000.0]
        );
        let same = |tensor: &Tensor| {
            values(tensor)
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(same(&changed.initializer[0]), kept.map(f32::to_bits));
        assert_eq!(changed.initializer[2], integers);
        assert_eq!(clamp(&mut bytes), Ok(0));
        assert!(clamp(&mut [0x3A, 0xFF]).is_err());
    }

    /// As exporters write them: a `Constant` whose attribute is a tensor, or a number.
    #[test]
    fn constants_in_attributes_are_found() {
        let mut attribute = Vec::new();
        onnx::append(5, &tensor(&[f32::MIN]).encode_to_vec(), &mut attribute);
        // Field 2, four bytes.
        attribute.push(0x15);
        attribute.extend(f32::MIN.to_le_bytes());
        let (mut node, mut graph, mut model) = (Vec::new(), Vec::new(), Vec::new());
        onnx::append(5, &attribute, &mut node);
        onnx::append(1, &node, &mut graph);
        onnx::append(7, &graph, &mut model);
        assert_eq!(clamp(&mut model), Ok(2));
    }
}
