//! Encoders: BERT and its kin, with learned, relative or rotary positions.

use serde_json::{Value, json};

use super::common::{activation, base, epsilon, inverse_root, layer_types, turn_all, turn_by_type};
use super::jina_bert::jina_bert;
use super::jina_lora::jina_lora;
use super::nomic_moe::nomic_moe;
use super::{
    Architecture, FeedForward, KnownType, Layer, LearnedPositions, MAX_LAYERS, MODEL,
    NormDescription, NormKind, PositionBias,
};
use crate::names::{self, TensorNames};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::word_list::words;

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("bert", &["bert"], |all| {
        // The repository's own class behind this model_type is told by its positions.
        match all.word("position_embedding_type", "absolute")? {
            "alibi" => jina_bert(all),
            _ => bert(all, BertLike::Bert),
        }
    }),
    KnownType::new("ernie", &["ernie"], |all| bert(all, BertLike::Ernie)),
    KnownType::new("electra", &["electra"], |all| bert(all, BertLike::Electra)),
    KnownType::new("roberta", &["roberta"], |all| bert(all, BertLike::Roberta)),
    KnownType::new("xlm-roberta", &["roberta"], |all| {
        // As above.
        match all.word("position_embedding_type", "absolute")? {
            "rotary" => jina_lora(all),
            _ => bert(all, BertLike::Roberta),
        }
    }),
    KnownType::new("camembert", &["roberta"], |all| {
        bert(all, BertLike::Roberta)
    }),
    KnownType::new("luke", &["luke"], |all| bert(all, BertLike::Luke)),
    KnownType::new("mpnet", &["mpnet"], |all| bert(all, BertLike::MpNet)),
    KnownType::new("distilbert", &["distilbert"], distilbert),
    KnownType::new("albert", &["albert"], albert),
    KnownType::new("nomic_bert", &["nomic_bert"], |all| {
        match all.count_or_zero("num_experts", 0)? {
            0 => rotary_bert(all, RotaryBert::Nomic),
            _ => nomic_moe(all),
        }
    }),
    // transformers takes `new` off GTE's names as well.
    KnownType::new("gte", &["gte", "new"], |all| {
        rotary_bert(all, RotaryBert::Gte)
    }),
    KnownType::new("jina_embeddings_v3", &["roberta"], |all| {
        rotary_bert(all, RotaryBert::Jina)
    }),
    KnownType::new("modernbert", MODEL, modernbert),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BertLike {
    Bert,
    Ernie,
    Electra,
    Roberta,
    Luke,
    MpNet,
}

/// BERT and its nearest kin: absolute positions, norms of sums.
pub(super) fn bert(settings: &ConfigSettings, kind: BertLike) -> Supported<Architecture> {
    use BertLike::{Bert, Electra, Ernie, Luke, MpNet, Roberta};
    let (width, layers, heads, inner) = if kind == Electra {
        (256, 12, 4, 1024)
    } else {
        (768, 12, 12, 3072)
    };
    let hidden = settings.count("hidden_size", width)?;
    let names = if kind == MpNet {
        &names::MPNET
    } else {
        &names::BERT
    };
    let mut all = base(
        settings,
        names,
        hidden,
        settings.count_or_zero("num_hidden_layers", layers)?,
        settings.count("num_attention_heads", heads)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after: match kind {
            Bert | Ernie | Electra => None,
            MpNet => Some(1), // for any pad_token_id
            Roberta | Luke => Some(match settings.value("pad_token_id") {
                None => 1,
                Some(value) => value
                    .as_u64()
                    .and_then(|id| u32::try_from(id).ok())
                    .ok_or_else(|| settings.unknown("pad_token_id"))?,
            }),
        },
    });
    if kind == Electra {
        all.embeddings.width = settings.count("embedding_size", 128)?;
        all.embeddings.projected = all.embeddings.width != hidden;
    }
    if kind == MpNet {
        // Buckets are counted up to 32 for every size of the table.
        let buckets = settings.count("relative_attention_num_buckets", 32)?;
        if buckets < 32 {
            return Err(settings.unknown("relative_attention_num_buckets"));
        }
        all.attention.position_bias = Some(PositionBias::Buckets {
            rows: buckets,
            count: 32,
            reach: 128,
            of_each_layer: false,
        });
    } else {
        all.embeddings.types = settings.count("type_vocab_size", 2)?;
        settings.pinned("position_embedding_type", &[json!("absolute")])?;
        settings.pinned("add_cross_attention", &[json!(false)])?;
        if kind == Luke {
            // Entities, which texts alone do not have.
            for unread in [
                "entity_vocab_size",
                "entity_emb_size",
                "use_entity_aware_attention",
                "bert_model_name",
            ] {
                settings.value(unread);
            }
        }
        // The other classes don't read it.
        if kind == Ernie && settings.flag("use_task_id", false)? {
            all.embeddings.tasks = settings.count("task_type_vocab_size", 3)?;
        }
        if settings.flag("is_decoder", false)? {
            settings.pinned("is_causal", &[json!(true)])?;
            all.layers.iter_mut().for_each(|layer| layer.causal = true);
        }
    }
    all.feed_forward.width = settings.count("intermediate_size", inner)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}

pub(super) fn distilbert(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &names::DISTILBERT,
        settings.count("dim", 768)?,
        settings.count_or_zero("n_layers", 6)?,
        settings.count("n_heads", 12)?,
    )?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after: None,
    });
    all.feed_forward.width = settings.count("hidden_dim", 4 * 768)?;
    all.feed_forward.activation = activation(settings, "activation", "gelu")?;
    Ok(all)
}

pub(super) fn albert(settings: &ConfigSettings) -> Supported<Architecture> {
    let layers = settings.count_or_zero("num_hidden_layers", 12)?;
    let groups = settings.count("num_hidden_groups", 1)?;
    let inner = settings.count("inner_group_num", 1)?;
    if groups > layers.max(1) || groups * inner > MAX_LAYERS || layers * inner > MAX_LAYERS {
        return Err(settings.unknown("num_hidden_groups"));
    }
    let mut all = base(
        settings,
        &names::ALBERT,
        settings.count("hidden_size", 4096)?,
        layers,
        settings.count("num_attention_heads", 64)?,
    )?;
    all.embeddings.width = settings.count("embedding_size", 128)?;
    all.embeddings.projected = true;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after: None,
    });
    settings.pinned("position_embedding_type", &[json!("absolute")])?;
    all.feed_forward.width = settings.count("intermediate_size", 16384)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu_new")?;
    let plain = all.layers.first().cloned();
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let group = |layer: usize| (layer as f64 / (layers as f64 / groups as f64)) as usize;
    all.layers = (0..layers)
        .flat_map(|layer| (0..inner).map(move |place| (layer, place)))
        .filter_map(|(layer, place)| {
            Some(Layer {
                weights: group(layer) * inner + place,
                ..plain.clone()?
            })
        })
        .collect();
    all.weight_sets = (0..groups * inner)
        .map(|set| {
            let name = format!("{}.albert_layers.{}", set / inner, set % inner);
            names::ALBERT
                .layer
                .iter()
                .map(|layer| layer.replace("{}", &name))
                .collect()
        })
        .collect();
    Ok(all)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RotaryBert {
    Nomic,
    Gte,
    Jina,
}

pub(super) fn rotary_bert(settings: &ConfigSettings, kind: RotaryBert) -> Supported<Architecture> {
    use RotaryBert::{Gte, Jina, Nomic};
    let jina = kind == Jina;
    if kind == Nomic {
        nomic_spellings(settings)?;
    }
    let (hidden, layers, heads, inner) = if jina {
        (1024, 24, 16, 4096)
    } else {
        (768, 12, 12, 3072)
    };
    let mut all = base(
        settings,
        if jina {
            &names::JINA
        } else {
            &names::ROTARY_BERT
        },
        settings.count("hidden_size", hidden)?,
        settings.count_or_zero("num_hidden_layers", layers)?,
        settings.count("num_attention_heads", heads)?,
    )?;
    if let Some(size) = settings.optional_count("head_dim")? {
        all.attention.head_size = size;
        all.attention.scale = inverse_root(size);
    }
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", if jina { 1e-5 } else { 1e-12 })?;
    all.embeddings.norm = Some(all.norm);
    let types = if kind == Nomic { 2 } else { 1 };
    all.embeddings.types = if kind == Gte {
        settings.count_or_zero("type_vocab_size", types)?
    } else {
        settings.count("type_vocab_size", types)?
    };
    all.attention.input_bias = kind != Nomic;
    all.attention.output_bias = kind != Nomic;
    let act = if kind == Nomic { "silu" } else { "gelu" };
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", inner)?,
        activation: activation(settings, "hidden_act", act)?,
        gated: !jina,
        up_bias: jina,
        down_bias: kind != Nomic,
        experts: None,
    };
    let (theta, positions) = match kind {
        Nomic => (1000.0, 2048),
        Gte => (160_000.0, 8192),
        Jina => (20_000.0, 8194),
    };
    turn_all(settings, &mut all, theta, positions)?;
    Ok(all)
}

/// The repository's own code spelled NomicBERT's settings otherwise. transformers' class ignores those spellings and
/// uses its defaults, so their values must equal the defaults.
pub(super) fn nomic_spellings(settings: &ConfigSettings) -> Supported<()> {
    const OFF: &str =
        "rotary_emb_interleaved mlp_fc1_bias mlp_fc2_bias qkv_proj_bias causal prenorm
        use_rms_norm parallel_block parallel_block_tied_norm scale_attn_by_inverse_layer_idx
        reorder_and_upcast_attn";
    // How the layers were computed; no effect on the result.
    const EITHER: &str =
        "dense_seq_output fused_bias_fc fused_dropout_add_ln use_xentropy summary_use_proj";
    let same: [(&'static str, &[Value]); 14] = [
        ("n_embd", &[json!(768)]),
        ("n_head", &[json!(12)]),
        ("n_layer", &[json!(12)]),
        ("n_inner", &[json!(3072)]),
        ("activation_function", &[json!("swiglu")]),
        ("layer_norm_epsilon", &[json!(1e-12)]),
        ("rotary_emb_base", &[json!(1000), json!(1000.0)]),
        ("rotary_emb_fraction", &[json!(1.0), json!(1)]),
        ("rotary_emb_scale_base", &[]),
        ("rotary_scaling_factor", &[]),
        ("scale_attn_weights", &[json!(true)]),
        ("n_positions", &[json!(8192), json!(2048)]),
        ("max_trained_positions", &[json!(2048)]),
        ("pad_vocab_size_multiple", &[json!(1), json!(8), json!(64)]),
    ];
    for (name, values) in same {
        settings.pinned(name, values)?;
    }
    for name in words(OFF) {
        settings.pinned(name, &[json!(false)])?;
    }
    for name in words(EITHER) {
        settings.pinned(name, &[json!(true), json!(false)])?;
    }
    Ok(())
}

fn modernbert(settings: &ConfigSettings) -> Supported<Architecture> {
    modernbert_like(settings, &names::MODERNBERT)
}

/// ModernBERT with these names.
pub(super) fn modernbert_like(
    settings: &ConfigSettings,
    names: &'static TensorNames,
) -> Supported<Architecture> {
    let mut all = base(
        settings,
        names,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 22)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm = NormDescription {
        kind: NormKind::Layer {
            bias: settings.flag("norm_bias", false)?,
        },
        epsilon: epsilon(settings, "norm_eps", 1e-5)?,
    };
    all.embeddings.norm = Some(all.norm);
    all.final_norm = true;
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    let bias = settings.flag("mlp_bias", false)?;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 1152)?,
        activation: activation(settings, "hidden_activation", "gelu")?,
        gated: true,
        up_bias: bias,
        down_bias: bias,
        experts: None,
    };
    let every = settings.count("global_attn_every_n_layers", 3)?;
    let sliding = layer_types(settings, all.layers.len(), |layer| layer % every != 0)?;
    let reach = settings.count("local_attention", 128)? / 2;
    let positions = settings.count("max_position_embeddings", 8192)?;
    turn_by_type(
        settings,
        &mut all,
        &sliding,
        [
            ("global_rope_theta", 160_000.0),
            ("local_rope_theta", 10_000.0),
        ],
        true,
        positions,
    )?;
    for (layer, sliding) in all.layers.iter_mut().zip(sliding) {
        layer.reach = sliding.then_some(reach);
    }
    if let Some(layer) = all.layers.first_mut() {
        layer.first_norm = false;
    }
    Ok(all)
}
