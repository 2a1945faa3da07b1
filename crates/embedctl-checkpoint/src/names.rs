//! The names of a layer's tensors, by family of architectures.
//!
//! A tensor's name begins with the checkpoint's prefix (`bert.`, `model.`, nothing; see `prefix.rs`). The layer's part
//! follows, then one of the names below. Several spellings are alternatives, tried in order: checkpoints that were
//! written by a repository's own code differ from those that transformers writes.

/// Alternatives; each a list of tensors whose rows follow one another. `NAME#0` and `NAME#1` are the first
/// and the second half of a tensor's rows; `^NAME` is a tensor whose columns are the rows.
pub type Sources = &'static [&'static [&'static str]];

/// The module of a part: its name without marks.
#[must_use]
pub fn module(part: &str) -> &str {
    let part = part.strip_prefix('^').unwrap_or(part);
    part.split_once('#').map_or(part, |(name, _)| name)
}

/// Alternative names of one tensor pair (`.weight`, `.bias`).
pub type Alternatives = &'static [&'static str];

/// The normalizations around one half of a layer (attention or feed-forward); empty where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NormNames {
    /// Of the branch's input, which leaves the residual as it is.
    pub before: Alternatives,
    /// Of the branch's output, before it is added to the residual.
    pub after: Alternatives,
    /// Of the branch's output and its input, added, before both are added to the residual.
    pub with_input: Alternatives,
    /// Of the sum.
    pub sum: Alternatives,
}

impl NormNames {
    /// No norm.
    const NONE: Self = Self {
        before: &[],
        after: &[],
        with_input: &[],
        sum: &[],
    };

    /// Of the input alone.
    pub(crate) const fn before(before: Alternatives) -> Self {
        Self {
            before,
            ..Self::NONE
        }
    }

    /// Of the output alone.
    pub(crate) const fn after(after: Alternatives) -> Self {
        Self {
            after,
            ..Self::NONE
        }
    }

    /// Of input and output.
    pub(crate) const fn around(before: Alternatives, after: Alternatives) -> Self {
        Self {
            before,
            after,
            ..Self::NONE
        }
    }

    /// Of the sum alone.
    pub(crate) const fn sum(sum: Alternatives) -> Self {
        Self { sum, ..Self::NONE }
    }

    /// All names of one place.
    #[must_use]
    pub fn all(&self) -> [Alternatives; 4] {
        [self.before, self.after, self.with_input, self.sum]
    }
}

/// The names of a family's tensors.
#[derive(Debug, PartialEq, Eq)]
pub struct TensorNames {
    /// Token embeddings.
    pub word: Alternatives,
    /// Learned positions.
    pub position: &'static str,
    /// Token types.
    pub token_type: &'static str,
    /// The embeddings' normalization.
    pub embedding_norm: Alternatives,
    /// The projection from the embeddings' width to the model's.
    pub projection: Sources,
    /// A layer's own part, with `{}` for its number.
    pub layer: Alternatives,
    /// Query, key and value.
    pub query_key_value: Sources,
    /// Biases of query and value with names of their own, full below the layer's part, where keys have none.
    pub query_value_bias: Option<[&'static str; 2]>,
    /// Normalization of each head's query and key.
    pub query_key_norm: [Alternatives; 2],
    /// Attention's output projection.
    pub attention_output: Sources,
    /// Norms around attention.
    pub attention_norms: NormNames,
    /// The first product of the feed-forward; if it is gated, the activated half and then its factor.
    pub up: Sources,
    /// Its second product.
    pub down: Sources,
    /// Norms around the feed-forward.
    pub feed_forward_norms: NormNames,
    /// The norm after the last layer.
    pub final_norm: Alternatives,
    /// Relative position bias: of all layers, or of each below the layer's own part.
    pub relative_bias: &'static str,
    /// The experts of a layer.
    pub experts: ExpertNames,
    /// The convolution of a layer.
    pub convolution: ConvolutionNames,
    /// The gated delta rule of a layer.
    pub delta_rule: DeltaNames,
}

/// The names of a gated delta rule's tensors, below the layer's own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaNames {
    /// The products of [`DeltaRule::inputs`](crate::architecture::DeltaRule).
    pub input: Sources,
    /// The convolution's filters, `[channels, 1, tokens]`.
    pub filters: &'static str,
    /// The logarithm of how fast each head's state decays; the full name.
    pub decay: &'static str,
    /// Added to what decides how much it decays; the full name.
    pub step: &'static str,
    /// The norm of a head's output.
    pub norm: Alternatives,
    /// The product behind it.
    pub output: Sources,
}

/// The names of a convolution's tensors, below the layer's own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionNames {
    /// The product that makes the gate before it, the gate behind it, and its input.
    pub input: Sources,
    /// Its filters, `[channels, 1, tokens]`.
    pub filters: &'static str,
    /// The product behind it.
    pub output: Sources,
}

/// The names of experts' tensors, below the layer's own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertNames {
    /// The shares of the experts.
    pub router: &'static str,
    /// An expert's first product, with `{}` for its number; if it is gated, the activated half and then its factor.
    /// Without `{}`, one tensor holds the rows of all experts.
    pub up: &'static [&'static str],
    /// Its second product. `^` before it: one tensor holds all experts, and their columns are its rows.
    pub down: &'static str,
    /// The bias of their sum.
    pub bias: &'static str,
}

/// The beginning of the names of latent attention's tensors, which stand beside the network's.
pub const LATENT: &str = "latent_attention_model.";

/// ERNIE's table of tasks.
pub const TASK_TYPE: &str = "embeddings.task_type_embeddings";

/// BERT's names, from which the others differ in some.
pub(crate) const BASE: TensorNames = TensorNames {
    word: &["embeddings.word_embeddings"],
    position: "embeddings.position_embeddings",
    token_type: "embeddings.token_type_embeddings",
    embedding_norm: &["embeddings.LayerNorm"],
    projection: &[&["embeddings_project"]],
    layer: &["encoder.layer.{}."],
    query_key_value: &[&[
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ]],
    query_value_bias: None,
    query_key_norm: [&["self_attn.q_norm"], &["self_attn.k_norm"]],
    attention_output: &[&["attention.output.dense"]],
    attention_norms: NormNames::sum(&["attention.output.LayerNorm"]),
    up: &[&["intermediate.dense"]],
    down: &[&["output.dense"]],
    feed_forward_norms: NormNames::sum(&["output.LayerNorm"]),
    final_norm: &["norm"],
    relative_bias: "encoder.relative_attention_bias",
    experts: ExpertNames {
        router: "mlp.gate",
        up: &["mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj"],
        down: "mlp.experts.{}.down_proj",
        bias: "",
    },
    convolution: ConvolutionNames {
        input: &[&["conv.in_proj"]],
        filters: "conv.conv",
        output: &[&["conv.out_proj"]],
    },
    delta_rule: DeltaNames {
        input: &[&[
            "linear_attn.in_proj_qkv",
            "linear_attn.in_proj_z",
            "linear_attn.in_proj_b",
            "linear_attn.in_proj_a",
        ]],
        filters: "linear_attn.conv1d",
        decay: "linear_attn.A_log",
        step: "linear_attn.dt_bias",
        norm: &["linear_attn.norm"],
        output: &[&["linear_attn.out_proj"]],
    },
};

/// BERT, RoBERTa and architectures built like them.
pub(crate) static BERT: TensorNames = BASE;

/// DistilBERT.
pub(crate) static DISTILBERT: TensorNames = TensorNames {
    layer: &["transformer.layer.{}."],
    query_key_value: &[&["attention.q_lin", "attention.k_lin", "attention.v_lin"]],
    attention_output: &[&["attention.out_lin"]],
    attention_norms: NormNames::sum(&["sa_layer_norm"]),
    up: &[&["ffn.lin1"]],
    down: &[&["ffn.lin2"]],
    feed_forward_norms: NormNames::sum(&["output_layer_norm"]),
    ..BASE
};

/// MPNet.
pub(crate) static MPNET: TensorNames = TensorNames {
    query_key_value: &[&["attention.attn.q", "attention.attn.k", "attention.attn.v"]],
    attention_output: &[&["attention.attn.o"]],
    attention_norms: NormNames::sum(&["attention.LayerNorm"]),
    ..BASE
};

/// ALBERT; its layers are numbered by group and place in it.
pub(crate) static ALBERT: TensorNames = TensorNames {
    projection: &[&["encoder.embedding_hidden_mapping_in"]],
    layer: &["encoder.albert_layer_groups.{}."],
    query_key_value: &[&["attention.query", "attention.key", "attention.value"]],
    attention_output: &[&["attention.dense"]],
    attention_norms: NormNames::sum(&["attention.LayerNorm"]),
    up: &[&["ffn"]],
    down: &[&["ffn_output"]],
    feed_forward_norms: NormNames::sum(&["full_layer_layer_norm"]),
    ..BASE
};

/// BERT-like encoders with rotary positions and a gate: NomicBERT, GTE.
pub(crate) static ROTARY_BERT: TensorNames = ROTARY_BASE;

/// Names of NomicBERT and GTE.
pub(crate) const ROTARY_BASE: TensorNames = TensorNames {
    embedding_norm: &["embeddings.LayerNorm", "emb_ln"],
    layer: &["layers.{}.", "encoder.layers.{}.", "encoder.layer.{}."],
    query_key_value: &[
        &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        &["attn.Wqkv"],
        &["mixer.Wqkv"],
        &["attention.qkv_proj"],
    ],
    attention_output: &[
        &["self_attn.o_proj"],
        &["attn.out_proj"],
        &["mixer.out_proj"],
        &["attention.o_proj"],
    ],
    attention_norms: NormNames::sum(&["post_attention_layernorm", "norm1", "attn_ln"]),
    up: &[
        &["mlp.gate_proj", "mlp.up_proj"],
        &["mlp.fc12", "mlp.fc11"],
        &["mlp.up_gate_proj#1", "mlp.up_gate_proj#0"],
    ],
    down: &[&["mlp.down_proj"], &["mlp.fc2"]],
    feed_forward_norms: NormNames::sum(&["post_mlp_layernorm", "norm2", "mlp_ln"]),
    ..BASE
};

/// Jina embeddings v3: the same without a gate.
pub(crate) static JINA: TensorNames = TensorNames {
    up: &[&["mlp.fc1"]],
    down: &[&["mlp.fc2"]],
    ..ROTARY_BASE
};

/// ModernBERT.
pub(crate) static MODERNBERT: TensorNames = MODERNBERT_BASE;

/// ModernBERT's names.
pub(crate) const MODERNBERT_BASE: TensorNames = TensorNames {
    word: &["embeddings.tok_embeddings"],
    embedding_norm: &["embeddings.norm"],
    layer: &["layers.{}."],
    query_key_value: &[&["attn.Wqkv"]],
    attention_output: &[&["attn.Wo"]],
    attention_norms: NormNames::before(&["attn_norm"]),
    up: &[&["mlp.Wi"]],
    down: &[&["mlp.Wo"]],
    feed_forward_norms: NormNames::before(&["mlp_norm"]),
    final_norm: &["final_norm"],
    ..BASE
};

/// Llama and the decoders that took its names.
pub(crate) static LLAMA: TensorNames = LLAMA_BASE;

/// Llama's names.
pub(crate) const LLAMA_BASE: TensorNames = TensorNames {
    word: &["embed_tokens"],
    layer: &["layers.{}."],
    query_key_value: &[&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]],
    attention_output: &[&["self_attn.o_proj"]],
    attention_norms: NormNames::before(&["input_layernorm"]),
    up: &[&["mlp.gate_proj", "mlp.up_proj"]],
    down: &[&["mlp.down_proj"]],
    feed_forward_norms: NormNames::before(&["post_attention_layernorm"]),
    ..BASE
};

/// Gemma 3, which also normalizes a branch's output.
pub(crate) static GEMMA3: TensorNames = TensorNames {
    attention_norms: NormNames::around(&["input_layernorm"], &["post_attention_layernorm"]),
    feed_forward_norms: NormNames::around(
        &["pre_feedforward_layernorm"],
        &["post_feedforward_layernorm"],
    ),
    ..LLAMA_BASE
};

/// T5 and mT5, whose layers share the first one's table of relative positions.
pub(crate) static T5: TensorNames = T5_BASE;

/// Its names, of which UMT5's differ in some.
pub(crate) const T5_BASE: TensorNames = TensorNames {
    word: &["shared", "encoder.embed_tokens"],
    layer: &["encoder.block.{}."],
    query_key_value: &[&[
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
    ]],
    attention_output: &[&["layer.0.SelfAttention.o"]],
    attention_norms: NormNames::before(&["layer.0.layer_norm"]),
    up: &[
        &["layer.1.DenseReluDense.wi"],
        &["layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"],
    ],
    down: &[&["layer.1.DenseReluDense.wo"]],
    feed_forward_norms: NormNames::before(&["layer.1.layer_norm"]),
    final_norm: &["encoder.final_layer_norm"],
    relative_bias: "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    ..BASE
};
