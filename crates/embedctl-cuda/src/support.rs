//! What this engine runs, of what the native engine knows.

use embedctl_checkpoint::architecture::Architecture;

use crate::kernels::{MOST_HEAD, MOST_NORM};

/// Whether all of a network's parts have kernels.
///
/// # Errors
/// A sentence that names the part which has none.
pub fn knows(architecture: &Architecture) -> Result<(), String> {
    if architecture.delta_rule.is_some() {
        return Err(
            "its layers keep a state (a gated delta rule), for which there is no kernel".into(),
        );
    }
    if architecture.attention.gated {
        return Err("a gate follows its attention, for which there is no kernel".into());
    }
    let head = architecture.attention.head_size;
    if head > MOST_HEAD {
        return Err(format!(
            "attention heads have {head} channels, and kernels {MOST_HEAD} at most"
        ));
    }
    let query = architecture.attention.heads * head;
    let widest = architecture
        .hidden
        .max(architecture.embeddings.width)
        .max(query);
    if widest > MOST_NORM {
        return Err(format!(
            "a state has {widest} components, and kernels {MOST_NORM} at most"
        ));
    }
    Ok(())
}
