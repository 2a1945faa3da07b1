//! Jina embeddings v3 by its repository's own code: an encoder with rotary positions, and adapters for tasks in its
//! checkpoint. The reference is that code (`jinaai/xlm-roberta-flash-implementation`).

use serde_json::{Value, json};

use super::common::{activation, base, epsilon, turn_by};
use super::{Architecture, TaskAdapters};
use crate::names;
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

/// How the network is computed, trained and pooled by the code's own `encode`; no effect on a hidden state.
const UNREAD: [&str; 11] = [
    "use_flash_attn",
    "use_reentrant",
    "fused_bias_fc",
    "fused_dropout_add_ln",
    "lora_dropout_p",
    "lora_main_params_trainable",
    "emb_pooler",
    "matryoshka_dimensions",
    "truncate_dim",
    "task_instructions", // prompts
    "max_position_embeddings",
];

pub(super) fn jina_lora(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &names::JINA,
        settings.count("hidden_size", 1024)?,
        settings.count_or_zero("num_hidden_layers", 24)?,
        settings.count("num_attention_heads", 16)?,
    )?;
    all.own_code = true;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-5)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count_or_zero("type_vocab_size", 1)?;
    all.feed_forward.width = settings.count("intermediate_size", 4096)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    let known = ["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"];
    settings.pinned("hidden_act", &known.map(Value::from))?;
    for absent in ["rotary_emb_dim", "rotary_emb_scale_base"] {
        settings.pinned(absent, &[])?;
    }
    for off in ["rotary_emb_interleaved", "last_layer_subset", "fused_mlp"] {
        settings.pinned(off, &[json!(false)])?;
    }
    // The table of tokens has rows for a multiple.
    let multiple = settings.count("pad_vocab_size_multiple", 1)?;
    let vocabulary = all.embeddings.vocabulary;
    all.embeddings.vocabulary = vocabulary.map(|rows| rows.next_multiple_of(multiple));
    for name in UNREAD {
        settings.value(name);
    }
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rotary_emb_base", 10_000.0)?,
        positions: settings.count("max_position_embeddings", 8194)?,
        partial: false,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &serde_json::Map::new(), shape)?;
    all.tasks = tasks(settings)?;
    Ok(all)
}

/// The tasks whose adapters the checkpoint has.
fn tasks(settings: &ConfigSettings) -> Supported<Option<TaskAdapters>> {
    let unknown = || settings.unknown("lora_adaptations");
    let rank = settings.count("lora_rank", 4)?;
    let alpha = settings.positive("lora_alpha", 1.0)?;
    let Some(names) = settings.value("lora_adaptations") else {
        settings.value("load_trained_adapters");
        return Ok(None);
    };
    let names: Vec<String> = serde_json::from_value(names.clone()).map_err(|_| unknown())?;
    let is_twice = |(index, name): (usize, &String)| names[..index].contains(name);
    if names.is_empty() || names.iter().enumerate().any(is_twice) {
        return Err(unknown());
    }
    // Otherwise the code makes new ones for a training.
    if !settings.flag("load_trained_adapters", false)? {
        return Err(settings.refuse(
            "names tasks (lora_adaptations) without trained adapters (load_trained_adapters is not true); \
             remove lora_adaptations if the checkpoint has none",
        ));
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    let scale = (alpha / rank as f64) as f32;
    Ok(Some(TaskAdapters { names, rank, scale }))
}
