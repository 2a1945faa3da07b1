//! NV-Embed by its repository's own code: Mistral that looks both ways, and latent attention behind it. The reference
//! is that code (`nvidia/NV-Embed-v2`), as sentence-transformers calls it: its states are pooled by modules.json.

use serde_json::json;

use super::mistral::MISTRAL;
use super::{Architecture, KnownType, LatentAttention};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("nvembed", &["embedding_model"], nvembed).own_code()];

fn nvembed(settings: &ConfigSettings) -> Supported<Architecture> {
    // What the code's own `encode` does with texts; no effect on a hidden state.
    for unread in [
        "add_eos",
        "add_pad_token",
        "is_mask_instruction",
        "padding_side",
        "mask_type",
    ] {
        settings.value(unread);
    }
    let text = settings.nested("text_config")?;
    text.pinned("model_type", &[json!("bidir_mistral")])?;
    let mut all = MISTRAL.read(&text)?;
    // The code's masks hide padding alone, whatever the settings say.
    for layer in &mut all.layers {
        (layer.causal, layer.reach) = (false, None);
    }
    all.ignored.extend(text.finish("mistral")?);
    let hidden = all.hidden;
    settings.pinned("hidden_size", &[json!(hidden)])?;

    let own = settings.nested("latent_attention_config")?;
    own.pinned("model_type", &[json!("latent_attention")])?;
    for width in ["hidden_dim", "latent_dim"] {
        if own.count(width, 4096)? != hidden {
            return Err(own.unknown(width));
        }
    }
    own.value("output_normalize"); // of pooled vectors, which modules.json normalizes
    let latent = LatentAttention {
        latents: own.count("num_latents_value", 512)?,
        heads: own.count("num_cross_heads", 8)?,
        head_size: own.count("cross_dim_head", 4096)?,
    };
    let inner = latent
        .heads
        .saturating_mul(latent.head_size.max(latent.latents));
    if inner > 1 << 24 {
        return Err(own.unknown("num_cross_heads"));
    }
    all.latent = Some(latent);
    own.finish("")?;
    Ok(all)
}
