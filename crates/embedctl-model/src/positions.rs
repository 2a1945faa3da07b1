//! How many positions an architecture has, where `config.json` leaves that to the reference's defaults, and whether a
//! row can be longer.

use super::metadata::TransformerConfig;
use embedctl_common::word_list::lists;
use embedctl_rows::PositionIds;

/// `max_position_embeddings` of architectures whose `config.json` does not state it, and their names.
const DEFAULTS: [(i64, &str); 24] = [
    (77, "clip_text_model"),
    (128, "blenderbot"),
    (256, "ctrl"),
    (510, "nystromformer"),
    (
        512,
        "albert bert bert-generation blenderbot-small camembert convbert data2vec-text deberta deberta-v2
         distilbert dpr electra ernie flaubert fnet ibert layoutlm lilt longformer luke lxmert megatron-bert
         mobilebert mpnet mra openai-gpt prophetnet rembert roberta roberta-prelayernorm roc_bert splinter
         squeezebert visual_bert xlm xlm-roberta xmod",
    ),
    (514, "xlm-roberta-xl"),
    (
        1024,
        "bart biogpt fsmt gpt-sw3 gpt2 gpt_bigcode m2m_100 marian mbart mvp nllb-moe pegasus plbart rwkv
         tapas",
    ),
    (1026, "esm"),
    (1536, "roformer"),
    (
        2048,
        "bitnet codegen dbrx deepseek_v2 diffllama doge dots1 exaone4 exaone_moe falcon gpt_neo gpt_neox
         gpt_neox_japanese gptj granite granitemoe granitemoe_swa granitemoehybrid granitemoeshared
         hunyuan_v1_dense hunyuan_v1_moe hyperclovax llama nomic_bert olmo olmo2 olmo3 opt perceiver phi xglm",
    ),
    (
        4096,
        "arcee big_bird bigbird_pegasus blt deepseek_v3 flex_olmo helium jetmoe nemotron nemotron_h olmoe
         phi3 reformer stablelm starcoder2 yoso zamba zamba2",
    ),
    (
        8192,
        "cohere cohere2 cohere2_moe eurobert falcon_h1 gemma gemma2 granite_swa gte jais2 modernbert
         modernbert-decoder vaultgemma",
    ),
    (8194, "jina_embeddings_v3"),
    (16_384, "afmoe canine pegasus_x persimmon"),
    (
        32_768,
        "gemma3n_text internlm3 minicpm3 qwen2 qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe
         qwen3_next smollm3 ultrabert",
    ),
    (65_536, "apertus olmo_hybrid"),
    (128_000, "lfm2 lfm2_moe lfm3 qwen3_vl_text"),
    (
        131_072,
        "cwm ernie4_5 ernie4_5_moe gemma3_text gemma4_text glm glm4 glm4_moe gpt_oss iquestcoder llama4_text
         longcat_flash mellum mimo_v2_flash minimax ministral mistral mixtral phimoe solar_open youtu zaya",
    ),
    (163_840, "deepseek_v32"),
    (196_608, "minimax_m2"),
    (202_752, "glm4_moe_lite glm_moe_dsa"),
    (
        262_144,
        "bailing_hybrid bamba embedding_gemma2_text jamba ministral3",
    ),
    (524_288, "seed_oss"),
    (1_048_576, "deepseek_v4 kimi_linear mistral4"),
];

/// Architectures with a learned vector for each position and none beyond; those of
/// [`AFTER_PADDING`] are such too.
const LEARNED: &str = "albert bart bert bert-generation big_bird biogpt blenderbot blenderbot-small convbert distilbert
    dpr electra ernie flaubert fnet gpt2 gpt_bigcode gpt_neo layoutlm lxmert mbart megatron-bert mobilebert mra mvp
    nystromformer openai-gpt opt plbart rembert roc_bert splinter squeezebert tapas visual_bert xlm yoso";

/// Architectures whose learned positions start at the padding id + 1, so that the first ones of
/// `max_position_embeddings` are never used. A repository's files do not tell.
const AFTER_PADDING: &str =
    "camembert data2vec-text esm ibert lilt longformer luke markuplm mpnet roberta
    roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod";

/// The positions of an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PositionRange {
    /// `max_position_embeddings`, as the reference has it.
    pub stated: Option<usize>,
    /// Tokens of a row at most, where the architecture has a vector for each position.
    pub usable: Option<usize>,
    /// The padding id behind which positions start.
    pub after_padding: Option<u32>,
}

impl PositionRange {
    /// How a row's positions are numbered.
    pub(super) fn ids(self) -> PositionIds {
        match self.after_padding {
            Some(id) => PositionIds::AfterPadding(id),
            None => PositionIds::FromZero,
        }
    }
}

/// The positions of `transformer`, whose padding token the tokenizer gives the id `padding`.
pub(super) fn position_range(transformer: &TransformerConfig, padding: u32) -> PositionRange {
    let kind = transformer.model_type.as_deref().unwrap_or_default();
    let alias = match kind {
        "codegen" | "ctrl" | "gpt-sw3" | "gpt2" | "gpt_bigcode" | "gptj" | "openai-gpt" => {
            transformer.n_positions
        }
        "dbrx" => transformer.max_seq_len,
        "rwkv" => transformer.context_length,
        "bailing_hybrid" | "kimi_linear" => transformer.model_max_length,
        _ => None,
    };
    let default = || {
        let known = DEFAULTS.iter().find(|(_, kinds)| lists(kinds, kind))?;
        Some(known.0)
    };
    let stated = transformer
        .max_position_embeddings
        .or(alias)
        .or_else(default)
        .and_then(|max| usize::try_from(max).ok())
        .filter(|&max| max > 0);
    // Rotary positions of a repository's own code.
    let is_rotary = (transformer.position_embedding_type.as_ref()).is_some_and(|it| it == "rotary");
    let after_padding =
        (lists(AFTER_PADDING, kind) && !is_rotary).then(|| transformer.pad_id().unwrap_or(padding));
    let learned = match kind {
        "deberta" | "deberta-v2" => transformer.position_biased_input.unwrap_or(true),
        _ => after_padding.is_some() || lists(LEARNED, kind),
    };
    PositionRange {
        stated,
        usable: stated.filter(|_| learned).map(|max| match after_padding {
            Some(id) => max.saturating_sub(id as usize + 1),
            None => max,
        }),
        after_padding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(json: serde_json::Value) -> PositionRange {
        position_range(&serde_json::from_value(json).unwrap(), 1)
    }

    #[test]
    fn positions_are_stated_under_several_names_or_left_to_the_architecture() {
        let stated = |json| range(json).stated;
        assert_eq!(
            stated(serde_json::json!({"model_type": "gpt2", "n_positions": 40})),
            Some(40)
        );
        assert_eq!(
            stated(serde_json::json!({"model_type": "llama", "n_positions": 40})),
            Some(2048)
        );
        assert_eq!(
            stated(serde_json::json!({"model_type": "roberta"})),
            Some(512)
        );
        assert_eq!(
            stated(serde_json::json!({"model_type": "t5", "n_positions": 512})),
            None
        );
        assert_eq!(
            stated(serde_json::json!({"model_type": "xlnet", "max_position_embeddings": -1})),
            None
        );
    }

    #[test]
    fn no_architecture_stands_twice() {
        let mut names: Vec<&str> = DEFAULTS
            .iter()
            .flat_map(|(_, kinds)| kinds.split_ascii_whitespace())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn only_learned_positions_end() {
        let usable = |json| range(json).usable;
        assert_eq!(
            usable(serde_json::json!({"model_type": "bert", "max_position_embeddings": 30})),
            Some(30)
        );
        assert_eq!(
            usable(
                serde_json::json!({"model_type": "roberta", "max_position_embeddings": 34, "pad_token_id": 1})
            ),
            Some(32)
        );
        let rotary =
            serde_json::json!({"model_type": "xlm-roberta", "position_embedding_type": "rotary"});
        assert_eq!(usable(rotary), None);
        assert_eq!(
            usable(serde_json::json!({"model_type": "qwen3", "max_position_embeddings": 30})),
            None
        );
        let deberta = |biased| serde_json::json!({"model_type": "deberta-v2", "position_biased_input": biased});
        assert_eq!(usable(deberta(false)), None);
        assert_eq!(usable(deberta(true)), Some(512));
    }
}
