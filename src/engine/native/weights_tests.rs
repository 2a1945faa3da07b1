use super::*;

#[test]
fn half_precision_is_widened_exactly() {
    for bits in 0..=u16::MAX {
        let (ours, theirs) = (half_to_float(bits), half::f16::from_bits(bits).to_f32());
        assert!(
            ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
            "{bits:#x}: {ours} instead of {theirs}"
        );
    }
}

#[test]
fn whatever_is_not_finite_is_seen_in_every_element_type() {
    let halves = |values: [f32; 3]| {
        values
            .map(|value| half::f16::from_f32(value).to_le_bytes())
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
