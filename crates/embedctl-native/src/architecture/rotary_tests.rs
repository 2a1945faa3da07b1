//! Rotary settings.

use super::tests::{read, refusal};
use super::*;

#[test]
fn a_rotary_setting_that_is_not_understood_is_refused_by_its_name() {
    let qwen = |rope: Value| json!({"model_type": "qwen3", "rope_parameters": rope});
    for (name, rope) in [
        ("rope_type", json!({"rope_type": "proportional"})),
        ("short_factor", json!({"rope_type": "longrope"})),
        ("type", json!({"type": "mystery", "factor": 2.0})),
        ("factor", json!({"rope_type": "linear"})),
        ("factor", json!({"rope_type": "linear", "factor": -1})),
        (
            "partial_rotary_factor",
            json!({"rope_type": "default", "partial_rotary_factor": 0.5}),
        ),
        (
            "mrope_section",
            json!({"rope_type": "default", "mrope_section": [1, 2]}),
        ),
    ] {
        let refused = refusal(qwen(rope));
        assert!(refused.contains(&format!("\"{name}\"")), "{refused}");
    }
    assert!(read(qwen(json!({"rope_type": "default", "rope_theta": 5000}))).is_ok());
}
