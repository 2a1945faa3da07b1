//! The tokenizer as the reference builds it: `tokenizer.json`, rewritten where a class or other files override it.
//!
//! [`registry`] finds the class that reads a repository, [`arguments`] collects the class's arguments ([`added`]: the
//! tokens among them), and [`classes`] builds the tokenizer. Truncation and padding in `tokenizer.json` are dropped
//! (embedctl cuts and pads itself); their sides and tokens count if no other file names one.

mod added;
mod arguments;
mod classes;
mod languages;
mod registry;

use std::collections::BTreeSet;
use std::path::Path;

use crossbeam_channel::never;
use serde_json::{Map, Value};
use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Sequence};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::utils::truncation::TruncationDirection;
use tokenizers::{Encoding, PostProcessor, Token, Tokenizer, TruncationParams};

use self::arguments::{Arguments, OfFile};
use self::registry::{ChosenClass, TokenizerClass, TokenizerClassHints};
use super::metadata::{self, TransformerConfig};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::small_file;
use embedctl_common::threads;
use embedctl_rows::tokenizer_file::TOKENIZER_TIME;
use embedctl_rows::{Frame, PairFrame, Side};

/// A tokenizer and its files' settings.
#[derive(Debug)]
pub(super) struct TokenizerFiles {
    /// Without truncation and padding.
    pub tokenizer: Tokenizer,
    /// The tokens around a text.
    pub frame: Frame,
    pub truncation_side: Side,
    /// Id of the padding token.
    pub padding: u32,
    /// `model_max_length`: that of the class's arguments, where it is a real limit.
    pub max_length: Option<usize>,
    /// Ids that the reference counts as special.
    pub special_ids: BTreeSet<u32>,
    /// The texts of named special tokens (`bos_token`).
    pub names: Vec<(String, String)>,
    /// Whether the repository brings a chat template, and where.
    pub chat_template: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Settings of the tokenizer in `sentence_bert_config.json`, beside its own files.
#[derive(Debug, Default)]
pub(super) struct TokenizerRequests {
    /// `do_lower_case`.
    pub lower_case: bool,
    /// Arguments for the tokenizer's class.
    pub arguments: Map<String, Value>,
    /// `add_special_tokens: false` where texts are tokenized.
    pub no_special_tokens: bool,
    /// `return_token_type_ids` where texts are tokenized.
    pub token_types: Option<bool>,
    /// `split_special_tokens` where texts are tokenized.
    pub split_special_tokens: Option<bool>,
    /// Whether texts are tokenized in pairs.
    pub pairs: bool,
}

/// Reads the tokenizer in `folder`, the Transformer's own.
pub(super) fn read(
    folder: &Path,
    transformer: &TransformerConfig,
    asked: &TokenizerRequests,
) -> Result<TokenizerFiles> {
    let file = folder.join("tokenizer.json");
    let refuse = |cause: Cause| Error::model(file.display(), cause);
    let mut backend = stored(&file)?;
    let baked = Baked::of(&backend);
    backend
        .with_truncation(None::<TruncationParams>)
        .map_err(|error| refuse(error.to_string().into()))?;
    let mut of_file: OfFile = backend.get_added_tokens_decoder().into_iter().collect();
    of_file.sort_unstable_by_key(|(id, _)| *id);

    let mut arguments = Arguments::read(folder, &asked.arguments, &of_file)?;
    let config = metadata::read_object(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let chosen = choose(&file, transformer, &config)?;
    // The names of special tokens may follow from the padding, which goes afterwards.
    let mut built = classes::build(&chosen, backend, &mut arguments).map_err(refuse)?;
    built.tokenizer.with_padding(None);
    refuse_mistrals_repair(&arguments, &built.tokenizer)?;
    if let Some(split) = asked.split_special_tokens {
        built.tokenizer.set_encode_special_tokens(split);
    }
    if asked.lower_case {
        lower_case(&mut built.tokenizer).map_err(refuse)?;
    }

    let truncation_side = truncation_side(&arguments, baked.side)?;
    let gives_types = asked
        .token_types
        .unwrap_or_else(|| gives_types(&arguments, chosen.class));
    let frame = checked_frame(&built.tokenizer, asked, gives_types).map_err(refuse)?;
    let lacks_end = !asked.no_special_tokens
        && config.get("add_eos_token").is_some_and(metadata::is_true)
        && !arguments.has("add_eos_token")
        && (built.named_id("eos_token")).is_none_or(|end| frame.after.last() != Some(&end));
    // Masked positions need some valid id; such models are padded with the end token.
    let padding = built
        .named_id("pad_token")
        .or(baked.padding)
        .or_else(|| transformer.pad_id())
        .or_else(|| built.named_id("eos_token"))
        .unwrap_or(0);
    Ok(TokenizerFiles {
        special_ids: built.special_ids().collect(),
        names: built.named_texts(),
        max_length: length_limit(&arguments, chosen.class)?,
        frame,
        truncation_side,
        padding,
        chat_template: chat_template(folder, &config),
        notes: lacks_end
            .then(|| note_of_missing_end(folder))
            .into_iter()
            .collect(),
        tokenizer: built.tokenizer,
    })
}

/// The tokenizer as `tokenizer.json` has it.
fn stored(file: &Path) -> Result<Tokenizer> {
    if !file.exists() {
        return Err(Error::model(
            file.display(),
            "is missing; embedctl reads no other kind of tokenizer",
        )
        .with_remedy(
            "make it once with Python: \
             transformers.AutoTokenizer.from_pretrained('MODEL').save_pretrained('FOLDER')",
        ));
    }
    metadata::tokenizer(file).map_err(|cause| Error::model(file.display(), cause))
}

/// What `tokenizer.json` says about cutting and padding.
struct Baked {
    side: Option<Side>,
    padding: Option<u32>,
}

impl Baked {
    fn of(tokenizer: &Tokenizer) -> Self {
        let side = tokenizer.get_truncation().map(|it| match it.direction {
            TruncationDirection::Left => Side::Left,
            TruncationDirection::Right => Side::Right,
        });
        Self {
            side,
            padding: tokenizer.get_padding().map(|it| it.pad_id),
        }
    }
}

/// Refuses `fix_mistral_regex` where the reference obeys it.
fn refuse_mistrals_repair(arguments: &Arguments, tokenizer: &Tokenizer) -> Result<()> {
    let is_large = || tokenizer.get_vocab_size(true) > 100_000;
    if arguments.flag("fix_mistral_regex") == Some(true) && is_large() {
        return Err(arguments
            .refuse("asks for fix_mistral_regex, which embedctl does not do")
            .with_remedy("save the tokenizer with it once in Python"));
    }
    Ok(())
}

/// The side at which texts are cut.
fn truncation_side(arguments: &Arguments, baked: Option<Side>) -> Result<Side> {
    match arguments.string("truncation_side") {
        Some("left") => Ok(Side::Left),
        Some("right") => Ok(Side::Right),
        Some(other) => Err(arguments.refuse(format!(
            "names the truncation_side '{other}'; it must be left or right"
        ))),
        None => Ok(baked.unwrap_or(Side::Right)),
    }
}

/// The length limit of the class's arguments.
fn length_limit(arguments: &Arguments, class: TokenizerClass) -> Result<Option<usize>> {
    let limit = if arguments.has("model_max_length") {
        arguments.limit("model_max_length")?
    } else if class == TokenizerClass::Tipsv2 {
        Some(64.0) // an argument of its own, which goes before the older name
    } else {
        arguments.limit("max_len")?
    };
    Ok(limit.and_then(real_limit))
}

/// The tokens around a text, and around a pair of texts where pairs are asked for, found within a time limit.
fn checked_frame(
    tokenizer: &Tokenizer,
    asked: &TokenizerRequests,
    gives_types: bool,
) -> Result<Frame, Cause> {
    let post = tokenizer.get_post_processor().cloned();
    let (special, pairs) = (!asked.no_special_tokens, asked.pairs);
    threads::within(TOKENIZER_TIME, &never(), move || {
        check_template(post.as_ref())?;
        let alone = frame(post.as_ref(), special, gives_types)?;
        let pair = pairs.then(|| pair_frame(post.as_ref(), special, gives_types));
        Ok(Frame {
            pair: pair.transpose()?,
            ..alone
        })
    })
}

fn note_of_missing_end(folder: &Path) -> String {
    format!(
        "{}: asks for the end token behind each text (add_eos_token), which the reference's tokenizer does not add; \
         neither does embedctl, although the model's authors meant texts to end with it",
        folder.join("tokenizer_config.json").display()
    )
}

/// The name of the class that reads the tokenizer in `folder`, and the file and key that decide it.
pub(super) fn class(folder: &Path, transformer: &TransformerConfig) -> Result<(String, String)> {
    let config = metadata::read_object(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let chosen = choose(&folder.join("tokenizer.json"), transformer, &config)?;
    Ok((chosen.name, chosen.because.to_string()))
}

fn choose(
    file: &Path,
    transformer: &TransformerConfig,
    config: &Map<String, Value>,
) -> Result<ChosenClass> {
    let named = config.get("tokenizer_class").and_then(Value::as_str);
    let class = named.or(transformer.tokenizer_class.as_deref());
    // Only one class needs it, and the file can be large.
    let byte_level = class.is_some_and(|class| class.starts_with("LlamaTokenizer"))
        && small_file::read(file, metadata::LARGEST_TOKENIZER)
            .map_err(|error| Error::io("read", file, error))
            .map(|bytes| memchr::memmem::find(&bytes, b"\"ByteLevel\"").is_some())?;
    let own_code = match config.get("auto_map") {
        None | Some(Value::Null) => false,
        Some(Value::Object(map)) => map.get("AutoTokenizer").is_some_and(|one| !one.is_null()),
        Some(_) => true,
    };
    let hints = TokenizerClassHints {
        tokenizer_config: named,
        config: transformer.tokenizer_class.as_deref(),
        model_type: transformer.model_type.as_deref(),
        model_name: transformer.model_name.as_deref(),
        own_code,
        byte_level,
    };
    if let Some(files) = config.get("fast_tokenizer_files").and_then(Value::as_array)
        && files.iter().any(|one| {
            one.as_str()
                .is_some_and(|name| name.starts_with("tokenizer.") && name != "tokenizer.json")
        })
    {
        return Err(Error::model(
            file.with_file_name("tokenizer_config.json").display(),
            "lists tokenizers for versions of the reference (fast_tokenizer_files), which embedctl does not choose from",
        )
        .with_remedy("keep one as tokenizer.json and remove the list"));
    }
    registry::choose(&hints).map_err(|cause| Error::model(file.display(), cause))
}

/// Whether the class hands token types to the model, which otherwise takes them as 0.
fn gives_types(arguments: &Arguments, class: TokenizerClass) -> bool {
    match arguments.get("model_input_names").and_then(Value::as_array) {
        Some(names) => names.iter().any(|name| name == "token_type_ids"),
        None => {
            matches!(
                class,
                TokenizerClass::Bert
                    | TokenizerClass::ConvBert
                    | TokenizerClass::Dpr
                    | TokenizerClass::Deberta
                    | TokenizerClass::DebertaV2
                    | TokenizerClass::Fnet
            ) || (class == TokenizerClass::CodeGen
                && arguments.flag("return_token_type_ids") == Some(true))
        }
    }
}

/// Tokens, at most, that a post-processor may make of one.
const MOST_FRAME_TOKENS: usize = 1 << 16;

/// Tokens that the post-processor makes of a text, or of a pair of texts, of so many, at most.
fn framed(post: &Value, key: &str, tokens: usize) -> usize {
    if let Some(processors) = post["processors"].as_array() {
        let each = processors.iter();
        return each.fold(tokens, |tokens, post| framed(post, key, tokens));
    }
    let Some(pieces) = post[key].as_array() else {
        // Processors without templates have up to four tokens of their own.
        return tokens.saturating_add(4);
    };
    let of_piece = |piece: &Value| match piece["SpecialToken"]["id"].as_str() {
        Some(name) => post["special_tokens"][name]["ids"]
            .as_array()
            .map_or(0, Vec::len),
        None => tokens,
    };
    pieces.iter().map(of_piece).fold(0, usize::saturating_add)
}

/// Checks that the templates of a post-processor know their special tokens, as the crate panics over others, and that they do
/// not grow without a limit.
fn check_template(post: Option<&PostProcessorWrapper>) -> Result<(), Cause> {
    fn unknown(post: &Value) -> Option<&str> {
        let listed = |key: &str| post[key].as_array().into_iter().flatten();
        let mut pieces = listed("single").chain(listed("pair"));
        let named = pieces.find_map(|piece| {
            let name = piece["SpecialToken"]["id"].as_str()?;
            post["special_tokens"].get(name).is_none().then_some(name)
        });
        named.or_else(|| listed("processors").find_map(unknown))
    }
    // The crate shows templates only in their serialized form.
    let written = serde_json::to_value(post).map_err(|error| error.to_string())?;
    let longest = ["single", "pair"]
        .map(|key| framed(&written, key, 2))
        .into_iter()
        .max();
    match unknown(&written) {
        None if longest > Some(MOST_FRAME_TOKENS) => Err(Cause::of(format!(
            "has a template that makes more than {MOST_FRAME_TOKENS} tokens of a text of one"
        ))
        .with("fetch the file again")),
        None => Ok(()),
        Some(name) => Err(Cause::of(format!(
            "has a template with the special token '{name}', which its list special_tokens does not have"
        ))
        .with("add it there, or fetch the file again")),
    }
}

/// The tokens that the post-processor puts around a text.
fn frame(post: Option<&PostProcessorWrapper>, special: bool, types: bool) -> Result<Frame, Cause> {
    // A stand-in for a text: one token that no template can bring.
    const TEXT: u32 = u32::MAX;
    let text = || Encoding::from_tokens(vec![Token::new(TEXT, "a".into(), (0, 1))], 0);
    let whole = match post {
        Some(post) => post
            .process(text(), None, special)
            .map_err(|error| format!("its post-processor fails: {error}"))?,
        None => text(),
    };
    let ids = whole.get_ids();
    let mut places = ids.iter().enumerate().filter(|(_, id)| **id == TEXT);
    let (Some((place, _)), None) = (places.next(), places.next()) else {
        return Err(
            "has a post-processor that does more than adding tokens at the ends of a text, which embedctl does not do"
                .into(),
        );
    };
    let type_ids = whole.get_type_ids();
    Ok(Frame {
        before: ids[..place].to_vec(),
        after: ids[place + 1..].to_vec(),
        types: (types && type_ids.iter().any(|&one| one != 0)).then(|| {
            (
                type_ids[..place].to_vec(),
                type_ids[place],
                type_ids[place + 1..].to_vec(),
            )
        }),
        gives_types: types,
        pair: None,
        expansion: None,
    })
}

/// The tokens that the post-processor puts around a pair of texts.
fn pair_frame(
    post: Option<&PostProcessorWrapper>,
    special: bool,
    types: bool,
) -> Result<PairFrame, Cause> {
    // Stand-ins for the texts: tokens that no template can bring.
    const TEXTS: [u32; 2] = [u32::MAX, u32::MAX - 1];
    let text =
        |id: u32, kind| Encoding::from_tokens(vec![Token::new(id, "a".into(), (0, 1))], kind);
    let (first, second) = (text(TEXTS[0], 0), text(TEXTS[1], 1));
    let whole = match post {
        Some(post) => post.process(first, Some(second), special),
        None => Ok(Encoding::merge([first, second], false)),
    };
    let whole = whole.map_err(|error| format!("its post-processor fails: {error}"))?;
    let kinds = whole.get_type_ids().iter();
    let kinds = kinds.map(|kind| if types { *kind } else { 0 });
    let row: Vec<(u32, u32)> = whole.get_ids().iter().copied().zip(kinds).collect();
    let places = TEXTS.map(|text| {
        let mut places = (0..row.len()).filter(|&place| row[place].0 == text);
        places.next().filter(|_| places.next().is_none())
    });
    let (Some(first), Some(second)) = (places[0], places[1].filter(|&at| Some(at) > places[0]))
    else {
        return Err(
            "has a post-processor that does more with a pair than adding tokens around two texts, which embedctl does \
             not do"
                .into(),
        );
    };
    Ok(PairFrame {
        before: row[..first].to_vec(),
        between: row[first + 1..second].to_vec(),
        after: row[second + 1..].to_vec(),
        types: (row[first].1, row[second].1),
        typed: false,
    })
}

fn chat_template(folder: &Path, config: &Map<String, Value>) -> Option<String> {
    if config
        .get("chat_template")
        .is_some_and(|one| !one.is_null())
    {
        return Some(folder.join("tokenizer_config.json").display().to_string());
    }
    let alone = folder.join("chat_template.jinja");
    if alone.exists() {
        return Some(alone.display().to_string());
    }
    let more = folder.join("additional_chat_templates");
    let mut files = std::fs::read_dir(&more).ok()?.flatten();
    files
        .any(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "jinja")
        })
        .then(|| more.display().to_string())
}

/// A length as files write it: `1e30` and its like mean that there is no limit.
pub(super) fn real_limit(written: f64) -> Option<usize> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0.0..1e9).contains(&written).then_some(written as usize)
}

/// `do_lower_case` of `sentence_bert_config.json`: a lower-casing normalizer before all others, unless one
/// is there.
fn lower_case(tokenizer: &mut Tokenizer) -> Result<(), Cause> {
    let lowercase = NormalizerWrapper::from(Lowercase);
    let parts = match tokenizer.get_normalizer() {
        Some(NormalizerWrapper::Lowercase(_)) => return Ok(()),
        Some(NormalizerWrapper::Sequence(all))
            if all
                .as_ref()
                .iter()
                .any(|one| matches!(one, NormalizerWrapper::Lowercase(_))) =>
        {
            return Ok(());
        }
        Some(NormalizerWrapper::Sequence(all)) => {
            let mut parts = vec![lowercase];
            parts.extend_from_slice(all.as_ref());
            parts
        }
        Some(other) => vec![lowercase, other.clone()],
        None => vec![lowercase],
    };
    tokenizer
        .with_normalizer(Some(Sequence::new(parts)))
        .map(|_| ())
        .map_err(|error| error.to_string().into())
}
