//! A model's architecture as data: what config.json says, by `model_type`, and nothing that a name says.
//!
//! Every function below restates what the class that `AutoModel` would take does with the settings it
//! reads; [`Settings::finish`] refuses what none of them has read. The executor knows no model types.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::kernels::Activation;
use super::names::{self, Names};
use super::rotary::Rotary;
use super::settings::{Known, Settings, Unsupported};

/// More layers than any model has; a bound for damaged files.
const MAX_LAYERS: usize = 4096;

/// Larger heads than any model has.
const MAX_HEAD: usize = 4096;

/// How a norm works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NormKind {
    /// Mean and variance, scale, and a shift where `bias` says so.
    Layer {
        /// Whether there is a shift.
        bias: bool,
    },
    /// Root of the mean square, and a scale to which `offset` is added.
    Rms {
        /// 1 where a checkpoint stores the scale's distance from 1.
        offset: f32,
    },
}

/// A norm: the same for all places of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// How it works.
    pub kind: NormKind,
    /// What is added to the variance.
    pub epsilon: f32,
}

/// Learned positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    /// Rows of the table.
    pub count: usize,
    /// The RoBERTa family counts from this id + 1 on, and tokens with this id keep it as their position.
    pub after: Option<u32>,
}

/// What happens before the first layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// Rows of the token table, where they are stated.
    pub vocabulary: Option<usize>,
    /// Its width, which a projection brings to the model's where it differs.
    pub width: usize,
    /// What token embeddings are multiplied with.
    pub scale: f32,
    /// Learned positions.
    pub positions: Option<Positions>,
    /// Rows of the table of token types; 0: there is none.
    pub types: usize,
    /// The norm of the sum.
    pub norm: Option<Norm>,
    /// Whether a projection follows.
    pub projected: bool,
}

/// A layer's attention, as far as all layers agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / key_value_heads` query heads.
    pub key_value_heads: usize,
    /// Width of a head.
    pub head_size: usize,
    /// What scores are multiplied with.
    pub scale: f32,
    /// Whether query, key and value have a bias.
    pub input_bias: bool,
    /// Whether the output has one.
    pub output_bias: bool,
    /// The norm of each head's query and key.
    pub head_norm: Option<Norm>,
    /// Buckets of a relative position bias that all layers share.
    pub relative_buckets: Option<usize>,
}

/// A layer's feed-forward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeedForward {
    /// Its inner width.
    pub width: usize,
    /// Its activation.
    pub activation: Activation,
    /// Whether the activated half is multiplied with another.
    pub gated: bool,
    /// Whether the first product has a bias.
    pub up_bias: bool,
    /// Whether the second has one.
    pub down_bias: bool,
}

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Which set of weights it takes (ALBERT's layers share them).
    pub weights: usize,
    /// Whether a token sees only what stands before it.
    pub causal: bool,
    /// How far it sees at most, in tokens.
    pub reach: Option<usize>,
    /// Which of [`Architecture::rotary`] turns its queries and keys.
    pub rotary: Option<usize>,
    /// Whether the norm before attention is there (ModernBERT's first layer has none).
    pub first_norm: bool,
}

/// A model, described.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: String,
    /// Width of a hidden state.
    pub hidden: usize,
    /// What comes before the layers.
    pub embeddings: Embeddings,
    /// The norm of all layers.
    pub norm: Norm,
    /// Attention.
    pub attention: Attention,
    /// Feed-forward.
    pub feed_forward: FeedForward,
    /// The layers in the order in which they run.
    pub layers: Vec<Layer>,
    /// Sets of weights, as the part of a tensor's name that stands for a layer; alternatives of each.
    pub weight_sets: Vec<Vec<String>>,
    /// Sets of rotary frequencies.
    pub rotary: Vec<Rotary>,
    /// Whether a norm follows the last layer.
    pub final_norm: bool,
    /// What tensors are called.
    pub names: &'static Names,
}

impl Architecture {
    /// Reads `folder`'s config.json.
    ///
    /// # Errors
    /// If there is none, or it asks for anything that the engine doesn't do exactly; the reason names it.
    pub fn read(folder: &Path) -> Result<Self, Unsupported> {
        let file = folder.join("config.json");
        let refuse = |reason: String| Unsupported {
            file: file.clone(),
            reason,
        };
        let text =
            std::fs::read(&file).map_err(|error| refuse(format!("cannot be read ({error})")))?;
        let value = serde_json::from_slice(&text)
            .map_err(|error| refuse(format!("is no JSON: {error}")))?;
        Self::parse(file, value)
    }

    /// Reads the settings in `value`; `file` is named where they are refused.
    ///
    /// # Errors
    /// As [`Architecture::read`].
    pub fn parse(file: PathBuf, value: Value) -> Result<Self, Unsupported> {
        let settings = Settings::new(file, value)?;
        let model_type = settings.word("model_type", "")?.to_string();
        settings.pinned("is_encoder_decoder", &[json!(false)])?;
        let architecture = match model_type.as_str() {
            "bert" | "ernie" => bert(&settings, BertLike::Bert)?,
            "electra" => bert(&settings, BertLike::Electra)?,
            "roberta" | "xlm-roberta" | "camembert" => bert(&settings, BertLike::Roberta)?,
            "mpnet" => bert(&settings, BertLike::MpNet)?,
            "distilbert" => distilbert(&settings)?,
            "albert" => albert(&settings)?,
            "nomic_bert" => rotary_bert(&settings, RotaryBert::Nomic)?,
            "gte" => rotary_bert(&settings, RotaryBert::Gte)?,
            "jina_embeddings_v3" => rotary_bert(&settings, RotaryBert::Jina)?,
            "modernbert" => modernbert(&settings)?,
            "llama" => decoder(&settings, Decoder::Llama)?,
            "eurobert" => decoder(&settings, Decoder::EuroBert)?,
            "mistral" => decoder(&settings, Decoder::Mistral)?,
            "ministral" => decoder(&settings, Decoder::Ministral)?,
            "qwen2" => decoder(&settings, Decoder::Qwen2)?,
            "qwen3" => decoder(&settings, Decoder::Qwen3)?,
            "gemma" => decoder(&settings, Decoder::Gemma)?,
            "gemma3_text" => gemma3(&settings)?,
            _ => return Err(settings.unknown("model_type")),
        };
        if architecture.attention.head_size > MAX_HEAD {
            return Err(settings.refuse(format!(
                "heads of {} channels are larger than the engine inside takes",
                architecture.attention.head_size
            )));
        }
        settings.finish()?;
        Ok(Self {
            model_type,
            ..architecture
        })
    }

    /// Multiplications and additions of the products with weights, for one token.
    #[must_use]
    pub fn operations_per_token(&self) -> usize {
        let attention = &self.attention;
        let inner = attention.heads * attention.head_size;
        let input = inner + 2 * attention.key_value_heads * attention.head_size;
        let ups = if self.feed_forward.gated { 3 } else { 2 };
        2 * self.hidden * (inner + input + ups * self.feed_forward.width) * self.layers.len()
    }
}

/// What most descriptions share; the rest is put in its place by each.
fn base(
    settings: &Settings,
    names: &'static Names,
    hidden: usize,
    layers: usize,
    heads: usize,
) -> Known<Architecture> {
    if !hidden.is_multiple_of(heads) {
        return Err(settings.refuse(format!(
            "{heads} attention heads do not divide the width {hidden}"
        )));
    }
    let head_size = hidden / heads;
    if layers > MAX_LAYERS {
        return Err(settings.refuse(format!(
            "{layers} layers are more than the engine inside takes"
        )));
    }
    Ok(Architecture {
        model_type: String::new(),
        hidden,
        embeddings: Embeddings {
            vocabulary: settings.optional_count("vocab_size")?,
            width: hidden,
            scale: 1.0,
            positions: None,
            types: 0,
            norm: None,
            projected: false,
        },
        norm: Norm {
            kind: NormKind::Layer { bias: true },
            epsilon: 1e-12,
        },
        attention: Attention {
            heads,
            key_value_heads: heads,
            head_size,
            scale: inverse_root(head_size),
            input_bias: true,
            output_bias: true,
            head_norm: None,
            relative_buckets: None,
        },
        feed_forward: FeedForward {
            width: 0,
            activation: Activation::Gelu,
            gated: false,
            up_bias: true,
            down_bias: true,
        },
        layers: (0..layers)
            .map(|index| Layer {
                weights: index,
                causal: false,
                reach: None,
                rotary: None,
                first_norm: true,
            })
            .collect(),
        weight_sets: (0..layers)
            .map(|index| {
                let number = index.to_string();
                names
                    .layer
                    .iter()
                    .map(|name| name.replace("{}", &number))
                    .collect()
            })
            .collect(),
        rotary: Vec::new(),
        final_norm: false,
        names,
    })
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn inverse_root(size: usize) -> f32 {
    (size as f64).powf(-0.5) as f32
}

#[allow(clippy::cast_possible_truncation)]
fn epsilon(settings: &Settings, name: &'static str, default: f64) -> Known<f32> {
    Ok(settings.positive(name, default)? as f32)
}

fn activation(settings: &Settings, name: &'static str, default: &str) -> Known<Activation> {
    Ok(match settings.word(name, default)? {
        "gelu" | "gelu_python" => Activation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_fast" | "gelu_accurate" => {
            Activation::GeluTanh
        }
        "quick_gelu" => Activation::QuickGelu,
        "relu" => Activation::Relu,
        "silu" | "swish" => Activation::Silu,
        "tanh" => Activation::Tanh,
        _ => return Err(settings.unknown(name)),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BertLike {
    Bert,
    Electra,
    Roberta,
    MpNet,
}

/// BERT and its nearest kin: absolute positions, norms of sums.
fn bert(settings: &Settings, kind: BertLike) -> Known<Architecture> {
    use BertLike::{Bert, Electra, MpNet, Roberta};
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
    all.embeddings.positions = Some(Positions {
        count: settings.count("max_position_embeddings", 512)?,
        after: match kind {
            Bert | Electra => None,
            MpNet => Some(1), // whatever pad_token_id says
            Roberta => Some(match settings.value("pad_token_id") {
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
        // Buckets are counted up to 32 whatever the table's size.
        let buckets = settings.count("relative_attention_num_buckets", 32)?;
        if buckets < 32 {
            return Err(settings.unknown("relative_attention_num_buckets"));
        }
        all.attention.relative_buckets = Some(buckets);
    } else {
        all.embeddings.types = settings.count("type_vocab_size", 2)?;
        settings.pinned("position_embedding_type", &[json!("absolute")])?;
        settings.pinned("add_cross_attention", &[json!(false)])?;
        settings.pinned("use_task_id", &[json!(false)])?;
        settings.value("task_type_vocab_size");
        if settings.flag("is_decoder", false)? {
            settings.pinned("is_causal", &[json!(true)])?;
            all.layers.iter_mut().for_each(|layer| layer.causal = true);
        }
    }
    all.feed_forward.width = settings.count("intermediate_size", inner)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}

fn distilbert(settings: &Settings) -> Known<Architecture> {
    let mut all = base(
        settings,
        &names::DISTILBERT,
        settings.count("dim", 768)?,
        settings.count_or_zero("n_layers", 6)?,
        settings.count("n_heads", 12)?,
    )?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.positions = Some(Positions {
        count: settings.count("max_position_embeddings", 512)?,
        after: None,
    });
    all.feed_forward.width = settings.count("hidden_dim", 4 * 768)?;
    all.feed_forward.activation = activation(settings, "activation", "gelu")?;
    Ok(all)
}

fn albert(settings: &Settings) -> Known<Architecture> {
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
    all.embeddings.positions = Some(Positions {
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
enum RotaryBert {
    Nomic,
    Gte,
    Jina,
}

fn rotary_bert(settings: &Settings, kind: RotaryBert) -> Known<Architecture> {
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
    };
    let (theta, positions) = match kind {
        Nomic => (1000.0, 2048),
        Gte => (160_000.0, 8192),
        Jina => (20_000.0, 8194),
    };
    turn_all(settings, &mut all, theta, positions)?;
    Ok(all)
}

/// The repository's own code spelled NomicBERT's settings otherwise. transformers' class doesn't read those
/// spellings and goes by its defaults, so they must say what the defaults say.
fn nomic_spellings(settings: &Settings) -> Known<()> {
    let same: [(&'static str, &[Value]); 30] = [
        ("n_embd", &[json!(768)]),
        ("n_head", &[json!(12)]),
        ("n_layer", &[json!(12)]),
        ("n_inner", &[json!(3072)]),
        ("activation_function", &[json!("swiglu")]),
        ("layer_norm_epsilon", &[json!(1e-12)]),
        ("rotary_emb_base", &[json!(1000), json!(1000.0)]),
        ("rotary_emb_fraction", &[json!(1.0), json!(1)]),
        ("rotary_emb_interleaved", &[json!(false)]),
        ("rotary_emb_scale_base", &[]),
        ("rotary_scaling_factor", &[]),
        ("mlp_fc1_bias", &[json!(false)]),
        ("mlp_fc2_bias", &[json!(false)]),
        ("qkv_proj_bias", &[json!(false)]),
        ("causal", &[json!(false)]),
        ("prenorm", &[json!(false)]),
        ("use_rms_norm", &[json!(false)]),
        ("parallel_block", &[json!(false)]),
        ("parallel_block_tied_norm", &[json!(false)]),
        ("scale_attn_weights", &[json!(true)]),
        ("scale_attn_by_inverse_layer_idx", &[json!(false)]),
        ("reorder_and_upcast_attn", &[json!(false)]),
        ("n_positions", &[json!(8192), json!(2048)]),
        ("max_trained_positions", &[json!(2048)]),
        // How the layers were computed, not what.
        ("dense_seq_output", &[json!(true), json!(false)]),
        ("fused_bias_fc", &[json!(true), json!(false)]),
        ("fused_dropout_add_ln", &[json!(true), json!(false)]),
        ("use_xentropy", &[json!(true), json!(false)]),
        ("pad_vocab_size_multiple", &[json!(1), json!(8), json!(64)]),
        ("summary_use_proj", &[json!(true), json!(false)]),
    ];
    same.iter()
        .try_for_each(|(name, values)| settings.pinned(name, values))
}

fn modernbert(settings: &Settings) -> Known<Architecture> {
    let mut all = base(
        settings,
        &names::MODERNBERT,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 22)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm = Norm {
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
    };
    for unread in ["layer_norm_eps", "position_embedding_type"] {
        settings.value(unread); // written by the first releases, read by no class
    }
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decoder {
    Llama,
    EuroBert,
    Mistral,
    Ministral,
    Qwen2,
    Qwen3,
    Gemma,
}

/// Llama and the decoders that are built like it.
fn decoder(settings: &Settings, kind: Decoder) -> Known<Architecture> {
    use Decoder::{EuroBert, Gemma, Llama, Ministral, Mistral, Qwen2, Qwen3};
    let (hidden, layers, heads, inner, positions) = match kind {
        Llama => (4096, 32, 32, 11008, 2048),
        EuroBert => (768, 12, 12, 3072, 8192),
        Mistral | Ministral => (4096, 32, 32, 14336, 4096 * 32),
        Qwen2 | Qwen3 => (4096, 32, 32, 22016, 32768),
        Gemma => (3072, 28, 16, 24576, 8192),
    };
    let head_size = match kind {
        Qwen3 => Some(128),
        Gemma => Some(256),
        _ => None,
    };
    let own_size = settings.optional_count("head_dim")?.or(head_size);
    let mut all = grouped(settings, &names::LLAMA, [hidden, layers, heads], own_size)?;
    let key_value = match kind {
        Llama | EuroBert => all.attention.heads,
        Mistral | Ministral => 8,
        Qwen2 | Qwen3 => 32,
        Gemma => 16,
    };
    key_value_heads(settings, &mut all, key_value)?;
    let offset = if kind == Gemma { 1.0 } else { 0.0 };
    all.norm = Norm {
        kind: NormKind::Rms { offset },
        epsilon: epsilon(
            settings,
            "rms_norm_eps",
            if kind == EuroBert { 1e-5 } else { 1e-6 },
        )?,
    };
    all.final_norm = true;
    let bias = match kind {
        Qwen2 | Mistral | Ministral => false,
        _ => settings.flag("attention_bias", false)?,
    };
    (all.attention.input_bias, all.attention.output_bias) = (bias || kind == Qwen2, bias);
    all.attention.head_norm = (kind == Qwen3).then_some(all.norm);
    let bias = matches!(kind, Llama | EuroBert) && settings.flag("mlp_bias", false)?;
    let act = if kind == Gemma {
        "gelu_pytorch_tanh"
    } else {
        "silu"
    };
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", inner)?,
        activation: activation(settings, "hidden_act", act)?,
        gated: true,
        up_bias: bias,
        down_bias: bias,
    };
    if kind == Gemma {
        all.embeddings.scale = root(all.hidden);
        if all.feed_forward.activation == Activation::Gelu {
            all.feed_forward.activation = Activation::GeluTanh; // what the class makes of its first releases
        }
        settings.pinned("use_bidirectional_attention", &[json!(false)])?;
    }
    let causal = kind != EuroBert && settings.flag("is_causal", true)?;
    let count = all.layers.len();
    let window = match kind {
        Llama | EuroBert | Gemma => None,
        Mistral | Ministral => match settings.value("sliding_window") {
            // Null means none; a setting that is left out means the class's default.
            None if settings.states("sliding_window") => None,
            _ => Some(settings.count("sliding_window", 4096)?),
        },
        Qwen2 | Qwen3 => {
            let window = settings.count("sliding_window", 4096)?;
            let stated =
                settings.value("sliding_window").is_some() || !settings.states("sliding_window");
            (settings.flag("use_sliding_window", false)? && stated).then_some(window)
        }
    };
    let sliding = match kind {
        Llama | EuroBert | Gemma => vec![false; count],
        Mistral => vec![window.is_some(); count],
        Ministral => layer_types(settings, count, |_| window.is_some())?,
        Qwen2 | Qwen3 => {
            let first = settings.count_or_zero("max_window_layers", 28)?;
            layer_types(settings, count, |layer| window.is_some() && layer >= first)?
        }
    };
    for (layer, sliding) in all.layers.iter_mut().zip(sliding) {
        layer.causal = causal;
        if sliding {
            let window = window.ok_or_else(|| settings.unknown("layer_types"))?;
            layer.reach = Some(if causal { window - 1 } else { window });
        }
    }
    turn_all(settings, &mut all, 10_000.0, positions)?;
    Ok(all)
}

fn gemma3(settings: &Settings) -> Known<Architecture> {
    let size = settings.optional_count("head_dim")?.unwrap_or(256);
    let mut all = grouped(settings, &names::GEMMA3, [2304, 26, 8], Some(size))?;
    key_value_heads(settings, &mut all, 4)?;
    all.norm = Norm {
        kind: NormKind::Rms { offset: 1.0 },
        epsilon: epsilon(settings, "rms_norm_eps", 1e-6)?,
    };
    all.final_norm = true;
    all.embeddings.scale = root(all.hidden);
    #[allow(clippy::cast_possible_truncation)]
    let scale = settings
        .positive("query_pre_attn_scalar", 256.0)?
        .powf(-0.5) as f32;
    all.attention.scale = scale;
    all.attention.head_norm = Some(all.norm);
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    settings.pinned("attn_logit_softcapping", &[])?;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 9216)?,
        activation: activation(settings, "hidden_activation", "gelu_pytorch_tanh")?,
        gated: true,
        up_bias: false,
        down_bias: false,
    };
    let bidirectional = settings.flag("use_bidirectional_attention", false)?;
    settings.pinned("is_causal", &[json!(true)])?;
    let pattern = settings.count("sliding_window_pattern", 6)?;
    settings.pinned("_sliding_window_pattern", &[json!(pattern)])?;
    let sliding = layer_types(settings, all.layers.len(), |layer| {
        (layer + 1) % pattern != 0
    })?;
    let window = settings.count("sliding_window", 4096)?;
    if sliding.contains(&true)
        && settings.value("sliding_window").is_none()
        && settings.states("sliding_window")
    {
        return Err(settings.unknown("sliding_window"));
    }
    // Causal: fewer than `window` back. Both ways: at most half of it, on each side.
    let reach = if bidirectional {
        window / 2
    } else {
        window - 1
    };
    let positions = settings.count("max_position_embeddings", 131_072)?;
    turn_by_type(
        settings,
        &mut all,
        &sliding,
        [
            ("rope_theta", 1_000_000.0),
            ("rope_local_base_freq", 10_000.0),
        ],
        false,
        positions,
    )?;
    for (layer, sliding) in all.layers.iter_mut().zip(sliding) {
        layer.causal = !bidirectional;
        layer.reach = sliding.then_some(reach);
    }
    Ok(all)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn root(size: usize) -> f32 {
    (size as f64).sqrt() as f32
}

/// The base of a decoder; `defaults` are width, layers and heads.
fn grouped(
    settings: &Settings,
    names: &'static Names,
    defaults: [usize; 3],
    head_size: Option<usize>,
) -> Known<Architecture> {
    let [hidden, layers, heads] = defaults;
    let hidden = settings.count("hidden_size", hidden)?;
    let layers = settings.count_or_zero("num_hidden_layers", layers)?;
    let heads = settings.count("num_attention_heads", heads)?;
    // A head size of its own frees the heads from dividing the width.
    let divisor = if head_size.is_some() { 1 } else { heads };
    let mut all = base(settings, names, hidden, layers, divisor)?;
    let size = head_size.unwrap_or(hidden / heads);
    if heads.checked_mul(size).is_none_or(|inner| inner > 1 << 24) {
        return Err(settings.unknown("num_attention_heads"));
    }
    all.attention.heads = heads;
    all.attention.head_size = size;
    all.attention.scale = inverse_root(size);
    Ok(all)
}

fn key_value_heads(settings: &Settings, all: &mut Architecture, default: usize) -> Known<()> {
    let heads = match settings.value("num_key_value_heads") {
        // Null means as many as query heads.
        None if settings.states("num_key_value_heads") => all.attention.heads,
        _ => settings.count("num_key_value_heads", default)?,
    };
    if !all.attention.heads.is_multiple_of(heads) {
        return Err(settings.unknown("num_key_value_heads"));
    }
    all.attention.key_value_heads = heads;
    Ok(())
}

/// Which layers see a window only: by `layer_types`, else by the class's pattern.
fn layer_types(
    settings: &Settings,
    layers: usize,
    default: impl Fn(usize) -> bool,
) -> Known<Vec<bool>> {
    let Some(value) = settings.value("layer_types") else {
        return Ok((0..layers).map(default).collect());
    };
    let unknown = || settings.unknown("layer_types");
    let types = value
        .as_array()
        .filter(|types| types.len() == layers)
        .ok_or_else(unknown)?;
    types
        .iter()
        .map(|kind| match kind.as_str() {
            Some("full_attention" | "attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            _ => Err(unknown()),
        })
        .collect()
}

/// One set of frequencies for all layers.
fn turn_all(
    settings: &Settings,
    all: &mut Architecture,
    theta: f64,
    positions: usize,
) -> Known<()> {
    let positions = settings.count("max_position_embeddings", positions)?;
    let theta = settings.positive("rope_theta", theta)?;
    settings.pinned("partial_rotary_factor", &[json!(1.0), json!(1)])?;
    let parameters = rope_parameters(settings)?;
    all.rotary = vec![Rotary::read(
        settings,
        &parameters,
        all.attention.head_size,
        theta,
        positions,
    )?];
    all.layers
        .iter_mut()
        .for_each(|layer| layer.rotary = Some(0));
    Ok(())
}

/// One set for layers that see everything, one for those that see a window; `thetas` names each one's
/// setting outside of its parameters, with its default.
fn turn_by_type(
    settings: &Settings,
    all: &mut Architecture,
    sliding: &[bool],
    thetas: [(&'static str, f64); 2],
    scaled_both: bool,
    positions: usize,
) -> Known<()> {
    let kinds = ["full_attention", "sliding_attention"];
    let given = match settings.value("rope_parameters") {
        None => Map::new(),
        Some(Value::Object(given)) if given.keys().all(|key| kinds.contains(&key.as_str())) => {
            given.clone()
        }
        Some(_) => return Err(settings.unknown("rope_parameters")),
    };
    let scaling = match settings.value("rope_scaling") {
        None => Map::new(),
        Some(Value::Object(scaling)) => scaling.clone(),
        Some(_) => return Err(settings.unknown("rope_scaling")),
    };
    for (index, (kind, (theta, default))) in kinds.into_iter().zip(thetas).enumerate() {
        let mut parameters = match given.get(kind) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(parameters)) => parameters.clone(),
            Some(_) => return Err(settings.unknown("rope_parameters")),
        };
        if index == 0 || scaled_both {
            parameters.extend(scaling.clone());
        }
        let theta = settings.positive(theta, default)?;
        all.rotary.push(Rotary::read(
            settings,
            &parameters,
            all.attention.head_size,
            theta,
            positions,
        )?);
    }
    for (layer, &sliding) in all.layers.iter_mut().zip(sliding) {
        layer.rotary = Some(usize::from(sliding));
    }
    Ok(())
}

/// `rope_scaling` where it says anything, else `rope_parameters`.
fn rope_parameters(settings: &Settings) -> Known<Map<String, Value>> {
    let mut found = Map::new();
    for name in ["rope_parameters", "rope_scaling"] {
        match settings.value(name) {
            None => {}
            Some(Value::Object(parameters)) if parameters.values().any(Value::is_object) => {
                return Err(settings.unknown(name));
            }
            Some(Value::Object(parameters)) if !parameters.is_empty() => {
                found.clone_from(parameters);
            }
            Some(Value::Object(_)) => {}
            Some(_) => return Err(settings.unknown(name)),
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "architecture_tests.rs"]
mod tests;
