//! Tokenizer classes of the reference that rebuild parts of a tokenizer.
//!
//! In transformers 5 a family's class takes only the vocabulary and the added tokens from
//! `tokenizer.json`; normalizer, pre-tokenizer and special-token template come from the class and from
//! `tokenizer_config.json` (seen by running it: a missing `do_lower_case` lower-cases a cased file). The
//! generic classes take `tokenizer.json` as it is. The class is named by `tokenizer_config.json`, or
//! follows from the architecture (`model_type`) where it is not.

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{
    BertNormalizer, Lowercase, NFC, NFKD, NormalizerWrapper, Replace, Sequence as Normalizations,
    Strip, StripAccents,
};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior;
use tokenizers::{NormalizerWrapper as Normalizers, Tokenizer};

use super::metadata::{Token, TokenizerConfig, TransformerConfig};

/// What kind of rebuilding a class does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `BertTokenizer` and its kin.
    Bert,
    /// `MPNetTokenizer`: BERT's, with other special tokens.
    Mpnet,
    /// `RobertaTokenizer`.
    Roberta,
    /// `XLMRobertaTokenizer`, `CamembertTokenizer`.
    XlmRoberta,
    /// `AlbertTokenizer`.
    Albert,
    /// `DebertaV2Tokenizer`.
    DebertaV2,
    /// `T5Tokenizer`.
    T5,
    /// `TokenizersBackend`, `PreTrainedTokenizerFast`: the file as it is.
    Backend,
    /// A class whose rebuilding is not reproduced here, or that does none.
    Other,
}

impl Class {
    fn of(config: &TokenizerConfig, transformer: &TransformerConfig) -> Self {
        if let Some(name) = config
            .tokenizer_class
            .as_deref()
            .or(transformer.tokenizer_class.as_deref())
        {
            // What these models' repositories name is known to be wrong.
            let misnamed = matches!(
                transformer.model_type.as_deref(),
                Some("modernbert" | "modernbert-decoder")
            );
            if name == "PreTrainedTokenizerFast" || misnamed {
                return Self::Backend;
            }
            return match name.trim_end_matches("Fast") {
                "BertTokenizer"
                | "ConvBertTokenizer"
                | "DPRContextEncoderTokenizer"
                | "DPRQuestionEncoderTokenizer"
                | "DistilBertTokenizer"
                | "ElectraTokenizer"
                | "LayoutLMTokenizer"
                | "LxmertTokenizer"
                | "MobileBertTokenizer"
                | "SqueezeBertTokenizer" => Self::Bert,
                "MPNetTokenizer" => Self::Mpnet,
                "RobertaTokenizer" | "BartTokenizer" | "LEDTokenizer" | "LongformerTokenizer" => {
                    Self::Roberta
                }
                "XLMRobertaTokenizer" | "CamembertTokenizer" => Self::XlmRoberta,
                "AlbertTokenizer" => Self::Albert,
                "DebertaV2Tokenizer" => Self::DebertaV2,
                "T5Tokenizer" => Self::T5,
                "TokenizersBackend" => Self::Backend,
                _ => Self::Other,
            };
        }
        match transformer.model_type.as_deref() {
            Some(
                "bert" | "convbert" | "distilbert" | "electra" | "ernie" | "layoutlm"
                | "megatron-bert" | "nezha" | "nomic_bert" | "squeezebert",
            ) => Self::Bert,
            Some("mpnet") => Self::Mpnet,
            Some(
                "bart"
                | "data2vec-text"
                | "ibert"
                | "lilt"
                | "longformer"
                | "mra"
                | "roberta"
                | "roberta-prelayernorm",
            ) => Self::Roberta,
            Some("camembert" | "gte" | "jina_embeddings_v3" | "xlm-roberta" | "xmod") => {
                Self::XlmRoberta
            }
            Some("albert" | "yoso") => Self::Albert,
            Some("deberta-v2") => Self::DebertaV2,
            Some("mt5" | "t5") => Self::T5,
            _ => Self::Other,
        }
    }
}

/// Rebuilds `tokenizer` as its class does.
///
/// # Errors
/// If a special token that the class needs is not in the vocabulary.
pub(super) fn rebuild(
    tokenizer: &mut Tokenizer,
    config: &TokenizerConfig,
    transformer: &TransformerConfig,
) -> Result<(), String> {
    let class = Class::of(config, transformer);
    match (class, tokenizer.get_model()) {
        (Class::Bert | Class::Mpnet, ModelWrapper::WordPiece(model)) => {
            let mut model = model.clone();
            // The class makes its own WordPiece with the default.
            model.max_input_chars_per_word = 100;
            tokenizer.with_model(model);
            let normalizer = BertNormalizer::new(
                true,
                config.tokenize_chinese_chars.unwrap_or(true),
                config.strip_accents,
                config.do_lower_case.unwrap_or(true),
            );
            set_normalizer(tokenizer, Some(normalizer.into()))?;
            tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
            let (first, last) = match class {
                Class::Mpnet => ("<s>", "</s>"),
                _ => ("[CLS]", "[SEP]"),
            };
            surround(
                tokenizer,
                Some(named(config.cls_token.as_ref(), first)),
                Some(named(config.sep_token.as_ref(), last)),
            )
        }
        (Class::Roberta, ModelWrapper::BPE(_)) => {
            let prefix = config.add_prefix_space.unwrap_or(false);
            tokenizer.with_pre_tokenizer(Some(ByteLevel::new(prefix, true, true)));
            set_normalizer(tokenizer, None)?;
            surround(
                tokenizer,
                Some(named(config.cls_token.as_ref(), "<s>")),
                Some(named(config.sep_token.as_ref(), "</s>")),
            )
        }
        (Class::XlmRoberta, ModelWrapper::Unigram(_)) => {
            let table = table(tokenizer);
            set_normalizer(tokenizer, table)?;
            split_at_spaces(tokenizer, config.add_prefix_space.unwrap_or(true));
            surround(
                tokenizer,
                Some(named(config.bos_token.as_ref(), "<s>")),
                Some(named(config.eos_token.as_ref(), "</s>")),
            )
        }
        (Class::T5, ModelWrapper::Unigram(_)) => {
            let table = table(tokenizer);
            set_normalizer(tokenizer, table)?;
            split_at_spaces(tokenizer, true);
            surround(
                tokenizer,
                None,
                Some(named(config.eos_token.as_ref(), "</s>")),
            )
        }
        (Class::Albert, ModelWrapper::Unigram(_)) => {
            let table = table(tokenizer);
            set_normalizer(tokenizer, Some(albert(config, table)?))?;
            split_at_spaces(tokenizer, config.add_prefix_space.unwrap_or(true));
            surround(
                tokenizer,
                Some(named(config.cls_token.as_ref(), "[CLS]")),
                Some(named(config.sep_token.as_ref(), "[SEP]")),
            )
        }
        (Class::DebertaV2, ModelWrapper::Unigram(_)) => {
            set_normalizer(tokenizer, Some(deberta(config)?))?;
            let scheme = match config.add_prefix_space {
                Some(false) => PrependScheme::First,
                _ => PrependScheme::Always,
            };
            let mut steps = Vec::new();
            if config.split_by_punct == Some(true) {
                steps.push(PreTokenizerWrapper::Punctuation(Punctuation::new(
                    SplitDelimiterBehavior::Isolated,
                )));
            }
            steps.push(PreTokenizerWrapper::Metaspace(Metaspace::new(
                '▁', scheme, true,
            )));
            tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
            surround(
                tokenizer,
                Some(named(config.cls_token.as_ref(), "[CLS]")),
                Some(named(config.sep_token.as_ref(), "[SEP]")),
            )
        }
        // A post-processor in tokenizer.json goes before these flags.
        (Class::Backend | Class::Other, _) if tokenizer.get_post_processor().is_none() => {
            let wanted = |token: &Option<Token>, flag: Option<bool>| {
                token
                    .as_ref()
                    .filter(|_| flag == Some(true))
                    .map(|token| token.content().to_string())
            };
            let bos = wanted(&config.bos_token, config.add_bos_token);
            let eos = wanted(&config.eos_token, config.add_eos_token);
            surround(tokenizer, bos, eos)
        }
        _ => Ok(()),
    }
}

fn named(token: Option<&Token>, default: &str) -> String {
    token.map_or(default, Token::content).to_string()
}

fn set_normalizer(
    tokenizer: &mut Tokenizer,
    normalizer: Option<NormalizerWrapper>,
) -> Result<(), String> {
    tokenizer
        .with_normalizer(normalizer)
        .map(|_| ())
        .map_err(|error| error.to_string())
}

/// SentencePiece's table of characters, the one step of a file's normalizer that classes keep.
fn table(tokenizer: &Tokenizer) -> Option<NormalizerWrapper> {
    tokenizer.get_normalizer().and_then(precompiled).cloned()
}

/// Words at white space, each with SentencePiece's mark before it.
fn split_at_spaces(tokenizer: &mut Tokenizer, mark: bool) {
    let scheme = if mark {
        PrependScheme::Always
    } else {
        PrependScheme::Never
    };
    tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![
        PreTokenizerWrapper::WhitespaceSplit(WhitespaceSplit),
        PreTokenizerWrapper::Metaspace(Metaspace::new('▁', scheme, true)),
    ])));
}

/// The normalizer of `AlbertTokenizer`.
fn albert(
    config: &TokenizerConfig,
    table: Option<NormalizerWrapper>,
) -> Result<NormalizerWrapper, String> {
    let mut steps = vec![
        replace("``".to_owned().into(), "\"")?,
        replace("''".to_owned().into(), "\"")?,
    ];
    if config.keep_accents != Some(true) {
        steps.push(NFKD.into());
        steps.push(StripAccents.into());
    }
    if config.do_lower_case != Some(false) {
        steps.push(Lowercase.into());
    }
    steps.extend(table);
    Ok(Normalizations::new(steps).into())
}

/// The normalizer of `DebertaV2Tokenizer`, which has no use for a table.
fn deberta(config: &TokenizerConfig) -> Result<NormalizerWrapper, String> {
    let mut steps = Vec::new();
    if config.do_lower_case == Some(true) {
        steps.push(Lowercase.into());
    }
    steps.push(replace(
        ReplacePattern::Regex(r"\s{2,}|[\n\r\t]".into()),
        " ",
    )?);
    steps.push(NFC.into());
    steps.push(Strip::new(false, true).into());
    Ok(Normalizations::new(steps).into())
}

fn replace(pattern: ReplacePattern, by: &str) -> Result<NormalizerWrapper, String> {
    Replace::new(pattern, by)
        .map(Into::into)
        .map_err(|error| error.to_string())
}

fn precompiled(normalizer: &Normalizers) -> Option<&Normalizers> {
    match normalizer {
        Normalizers::Precompiled(_) => Some(normalizer),
        Normalizers::Sequence(all) => all.as_ref().iter().find_map(precompiled),
        _ => None,
    }
}

/// Sets the special tokens put before and after a text.
fn surround(
    tokenizer: &mut Tokenizer,
    first: Option<String>,
    last: Option<String>,
) -> Result<(), String> {
    let mut special = Vec::new();
    let mut single = Vec::new();
    for (place, token) in [(0, &first), (2, &last)] {
        if let Some(content) = token {
            let id = tokenizer.token_to_id(content).ok_or_else(|| {
                format!("has no token '{content}', which its tokenizer class puts around a text")
            })?;
            special.push((content.clone(), id));
            single.push((place, format!("{content}:0")));
        }
    }
    single.push((1, "$A:0".to_string()));
    single.sort();
    let template: Vec<String> = single.into_iter().map(|(_, piece)| piece).collect();
    let template = TemplateProcessing::builder()
        .try_single(template)?
        .special_tokens(special)
        .build()
        .map_err(|error| error.to_string())?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}
