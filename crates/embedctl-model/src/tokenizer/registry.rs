//! The reference's tokenizer class that reads a repository: the tables and the rules of transformers 5.23,
//! `models/auto/tokenization_auto.py`.
//!
//! A class is named by `tokenizer_config.json` or by `config.json`; if neither names one, and for some architectures in
//! any case, the architecture's own class (`model_type`) reads the files.

use embedctl_common::error::Cause;
use embedctl_common::named::named;
use embedctl_common::word_list::lists;

/// The behaviours of classes, each with the names of the classes that have it.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident: $($name:literal)|+,)*) => {
        /// The behaviour of a tokenizer class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum TokenizerClass {
            $($(#[$doc])* $class,)*
        }

        /// The behaviour of the class of that name; `None` if the reference has no such class for a `tokenizer.json`.
        fn class(name: &str) -> Option<TokenizerClass> {
            Some(match name {
                $($($name)|+ => TokenizerClass::$class,)*
                _ => return None,
            })
        }
    };
}

classes! {
    /// The file as it is.
    Backend: "BloomTokenizer" | "PreTrainedTokenizer" | "PythonBackend" | "TokenizersBackend",
    /// Classes of their own that keep the file, too.
    Fnet: "FNetTokenizer",
    Parakeet: "ParakeetTokenizer",
    /// Keeps the file, but for the template; DPR's "fast" classes do so, too.
    ConvBert: "ConvBertTokenizer",
    Albert: "AlbertTokenizer",
    Barthez: "BarthezTokenizer",
    Bert: "BertTokenizer" | "ElectraTokenizer" | "LayoutLMTokenizer" | "LxmertTokenizer" | "MobileBertTokenizer"
        | "SqueezeBertTokenizer",
    BigBird: "BigBirdTokenizer",
    Blenderbot: "BlenderbotTokenizer",
    Camembert: "CamembertTokenizer",
    Clip: "CLIPTokenizer",
    CodeGen: "CodeGenTokenizer",
    CodeLlama: "CodeLlamaTokenizer",
    Cohere: "CohereTokenizer",
    Deberta: "DebertaTokenizer",
    DebertaV2: "DebertaV2Tokenizer",
    DistilBert: "DistilBertTokenizer",
    Dpr: "DPRContextEncoderTokenizer" | "DPRQuestionEncoderTokenizer",
    DprReader: "DPRReaderTokenizer",
    Funnel: "FunnelTokenizer",
    Gemma: "GemmaTokenizer",
    Gpt2: "GPT2Tokenizer",
    GptNeoX: "GPTNeoXTokenizer",
    Herbert: "HerbertTokenizer",
    Lasr: "LasrTokenizer",
    Llama: "LlamaTokenizer",
    MBart: "MBartTokenizer",
    MBart50: "MBart50Tokenizer",
    Mpnet: "MPNetTokenizer",
    Nllb: "NllbTokenizer",
    OpenAiGpt: "OpenAIGPTTokenizer",
    Pegasus: "PegasusTokenizer",
    Qwen2: "Qwen2Tokenizer",
    Qwen3_5: "Qwen3_5Tokenizer",
    Reformer: "ReformerTokenizer",
    RemBert: "RemBertTokenizer",
    Roberta: "BartTokenizer" | "LEDTokenizer" | "LongformerTokenizer" | "MvpTokenizer" | "RobertaTokenizer",
    Siglip2: "Siglip2Tokenizer",
    Splinter: "SplinterTokenizer",
    T5: "T5Tokenizer",
    Tipsv2: "Tipsv2Tokenizer",
    VideoPrism: "VideoPrismTokenizer",
    Xglm: "XGLMTokenizer",
    XlmRoberta: "XLMRobertaTokenizer",
    XlNet: "XLNetTokenizer",
}

/// A class, under the name by which it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenClass {
    pub class: TokenizerClass,
    pub name: String,
    /// The file and key that decided.
    pub because: Reason,
}

named! {
    /// Why a class was taken.
    pub(super) enum Reason {
        TokenizerConfig = "tokenizer_class of tokenizer_config.json",
        Config = "tokenizer_class of config.json",
        ModelType = "model_type of config.json",
        /// Another class may be named: it is passed over.
        ModelTypeAlone = "model_type of config.json, whatever tokenizer_config.json says",
    }
}

impl Reason {
    /// The remedy, if the class that was taken for this reason does not suit the file.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::TokenizerConfig | Self::Config | Self::ModelType => {
                "if the model was trained with this tokenizer.json, write \"tokenizer_class\": \"TokenizersBackend\" \
                 in tokenizer_config.json"
            }
            Self::ModelTypeAlone => {
                "sentence-transformers takes this class for the model, too, and no setting of the tokenizer changes \
                 that: get a tokenizer.json of the kind that the class reads, or a model with another model_type"
            }
        }
    }
}

/// The meaning of a class's name.
enum NameMatch {
    Is(TokenizerClass),
    /// Cannot be run here, and why.
    Refused(&'static str),
    /// The reference has no such class and takes `TokenizersBackend`.
    Unknown,
}

/// Classes that are Python alone: they have no use for a `tokenizer.json`.
const PYTHON: &str = "BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertweetTokenizer
    BioGptTokenizer BlenderbotSmallTokenizer ByT5Tokenizer CTRLTokenizer CanineTokenizer ClvpTokenizer
    CpmAntTokenizer CpmTokenizer DiaTokenizer EsmTokenizer FSMTTokenizer FastSpeech2ConformerTokenizer
    FlaubertTokenizer GPTNeoXJapaneseTokenizer GPTSw3Tokenizer M2M100Tokenizer MarianTokenizer
    MgpstrTokenizer MyT5Tokenizer PLBartTokenizer PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer
    ProphetNetTokenizer RoCBertTokenizer SentencePieceBackend SiglipTokenizer Speech2TextTokenizer
    SpeechT5Tokenizer TapasTokenizer VitsTokenizer Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer
    XLMTokenizer";

/// Classes whose own code does more than a `tokenizer.json` can express, and why.
const BEYOND: &str = "\
EsmcTokenizer brings a vocabulary of its own, for proteins
LayoutLMv2Tokenizer takes words with their boxes, not texts
LayoutLMv3Tokenizer takes words with their boxes, not texts
LayoutXLMTokenizer takes words with their boxes, not texts
LukeTokenizer takes entities beside the text
MLukeTokenizer takes entities beside the text
MarkupLMTokenizer takes the nodes of a web page, not texts
NougatTokenizer pads every text to 4096 tokens
RoFormerTokenizer splits Chinese with jieba, a program of its own
SeamlessM4TTokenizer puts languages around the text that only a caller knows
UdopTokenizer takes words with their boxes, not texts
WhisperTokenizer puts transcription commands around the text";

fn known(name: &str) -> NameMatch {
    let base = name.strip_suffix("Fast").unwrap_or(name);
    let beyond = |line: &'static str| line.strip_prefix(base)?.strip_prefix(' ');
    if let Some(why) = BEYOND.lines().find_map(beyond) {
        return NameMatch::Refused(why);
    }
    if lists(PYTHON, base) {
        return NameMatch::Refused("is Python code that does not read tokenizer.json");
    }
    match class(base) {
        // Of DPR's two generations, the newer one has no `__init__` of its own.
        Some(TokenizerClass::Dpr | TokenizerClass::DprReader) if base != name => {
            NameMatch::Is(TokenizerClass::ConvBert)
        }
        Some(class) => NameMatch::Is(class),
        None => NameMatch::Unknown,
    }
}

/// The class that the reference registers, and for which architectures, on one line or several.
const REGISTERED: &str = "\
AlbertTokenizer albert yoso
BarthezTokenizer barthez
BartphoTokenizer bartpho
BartTokenizer florence2
BertGenerationTokenizer bert-generation
BertJapaneseTokenizer bert-japanese
BertTokenizer align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git grounding-dino
BertTokenizer layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm retribert squeezebert tvp vilt
BertTokenizer visual_bert
BertweetTokenizer bertweet
BigBirdTokenizer big_bird
BioGptTokenizer biogpt
BlenderbotSmallTokenizer blenderbot-small
BlenderbotTokenizer blenderbot
ByT5Tokenizer byt5
CamembertTokenizer camembert
CanineTokenizer canine
CLIPTokenizer aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip
ClvpTokenizer clvp
CodeLlamaTokenizer code_llama
CohereTokenizer aya_vision cohere cohere2
CpmAntTokenizer cpmant
CpmTokenizer cpm
CTRLTokenizer ctrl
DebertaTokenizer deberta
DebertaV2Tokenizer deberta-v2
DiaTokenizer dia
DPRQuestionEncoderTokenizer dpr
EsmcTokenizer esmc esmfold2
EsmTokenizer esm
FlaubertTokenizer flaubert
FNetTokenizer fnet
FSMTTokenizer fsmt
FunnelTokenizer funnel
GemmaTokenizer diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2
GemmaTokenizer t5gemma zaya
GPT2Tokenizer blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2
GPT2Tokenizer opt phi starcoder2
GPTNeoXJapaneseTokenizer gpt_neox_japanese
GPTNeoXTokenizer falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm
GPTSw3Tokenizer gpt-sw3
HerbertTokenizer herbert
LasrTokenizer lasr_ctc lasr_encoder
LayoutLMv2Tokenizer layoutlmv2
LayoutLMv3Tokenizer layoutlmv3
LayoutXLMTokenizer layoutxlm
LEDTokenizer led
LlamaTokenizer idefics idefics2
LukeTokenizer luke
LxmertTokenizer lxmert
M2M100Tokenizer m2m_100
MarianTokenizer marian
MarkupLMTokenizer markuplm
MBart50Tokenizer mbart50
MBartTokenizer mbart
MgpstrTokenizer mgp-str
MLukeTokenizer mluke
MobileBertTokenizer mobilebert
MPNetTokenizer mpnet
MvpTokenizer mvp
MyT5Tokenizer myt5
NllbTokenizer nllb nllb-moe
NougatTokenizer nougat pp_formulanet
OpenAIGPTTokenizer openai-gpt
ParakeetTokenizer granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming parakeet_ctc parakeet_rnnt parakeet_tdt
PegasusTokenizer pegasus
PerceiverTokenizer perceiver
PhobertTokenizer phobert
PLBartTokenizer plbart
ProphetNetTokenizer prophetnet
Qwen2Tokenizer audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr
Qwen2Tokenizer moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe
Qwen2Tokenizer qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice
Qwen3_5Tokenizer qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp
ReformerTokenizer reformer
RemBertTokenizer rembert
RobertaTokenizer bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta roberta-prelayernorm
RoCBertTokenizer roc_bert
RoFormerTokenizer roformer
SeamlessM4TTokenizer seamless_m4t seamless_m4t_v2
Siglip2Tokenizer siglip2
SiglipTokenizer siglip
Speech2TextTokenizer speech_to_text
SpeechT5Tokenizer speecht5
SplinterTokenizer splinter
T5Tokenizer mt5 musicgen musicgen_melody switch_transformers t5
TapasTokenizer tapas
Tipsv2Tokenizer tipsv2
TokenizersBackend EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5
TokenizersBackend ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr
TokenizersBackend got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared
TokenizersBackend h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear
TokenizersBackend kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7
TokenizersBackend minimax_m2 ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert
TokenizersBackend modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid
TokenizersBackend opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts
TokenizersBackend smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime xlm-roberta-xl
UdopTokenizer udop
VitsTokenizer vits
WhisperTokenizer whisper
XGLMTokenizer xglm
XLMRobertaTokenizer gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod
XLMTokenizer xlm
XLNetTokenizer xlnet";

/// Architectures whose repositories are known to name a wrong class: the registered one reads them.
const MISNAMED: &str = "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax
    hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava llava_next minicpm3 minicpmv
    minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe
    qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava";

fn registered(model_type: &str) -> Option<&'static str> {
    let mut all = REGISTERED.lines().filter_map(|line| line.split_once(' '));
    all.find_map(|(class, types)| lists(types, model_type).then_some(class))
}

/// A repository's statements about its tokenizer's class.
#[derive(Debug, Default)]
pub(super) struct TokenizerClassHints<'a> {
    /// `tokenizer_class` of `tokenizer_config.json`.
    pub tokenizer_config: Option<&'a str>,
    /// `tokenizer_class` of `config.json`.
    pub config: Option<&'a str>,
    pub model_type: Option<&'a str>,
    /// `model_name` of `config.json`.
    pub model_name: Option<&'a str>,
    /// Whether `tokenizer_config.json` names a tokenizer of the repository's own code.
    pub own_code: bool,
    /// Whether `tokenizer.json` is byte-level anywhere.
    pub byte_level: bool,
}

/// The class that reads the repository, or why none here does.
pub(super) fn choose(hints: &TokenizerClassHints<'_>) -> Result<ChosenClass, Cause> {
    let without_fast = |name: &str| name.strip_suffix("Fast").unwrap_or(name).to_string();
    let named = match (hints.tokenizer_config, hints.config) {
        (Some(name), _) => Some((name, Reason::TokenizerConfig)),
        (None, Some(name)) => Some((name, Reason::Config)),
        (None, None) => None,
    };
    let model_type = hints.model_type.filter(|kind| !kind.is_empty());
    let own = model_type.and_then(registered);
    let misnamed = [model_type, hints.model_name]
        .into_iter()
        .flatten()
        .any(|kind| lists(MISNAMED, kind));
    let backend = |name: &str, because| ChosenClass {
        class: TokenizerClass::Backend,
        name: name.to_string(),
        because,
    };
    if let (false, Some((name, because))) = (hints.own_code, named) {
        if without_fast(name) == "LlamaTokenizer" && !misnamed && hints.byte_level {
            return Ok(backend(name, because));
        }
        if let Some(own) = own.filter(|own| *own != without_fast(name)) {
            if own == "TokenizersBackend" {
                return Ok(backend(own, Reason::ModelType));
            }
            let (name, because) = if misnamed {
                (own, Reason::ModelTypeAlone)
            } else {
                (name, because)
            };
            return resolve(name, because, true);
        }
    }
    if hints.own_code && own.is_none() && !hints.tokenizer_config.is_some_and(exists) {
        return Err(Cause::of(
            "names a tokenizer of the repository's own code (auto_map), which embedctl does not run",
        )
        .with("write the tokenizer's own class into tokenizer_class"));
    }
    match (hints.tokenizer_config, hints.config, own) {
        (Some(name), ..) => resolve(&without_fast(name), Reason::TokenizerConfig, true),
        (None, Some(name), _) if name.contains("PreTrainedTokenizerFast") => {
            Ok(backend(name, Reason::Config))
        }
        (None, Some(name), _) => resolve(&without_fast(name), Reason::Config, false),
        (None, None, Some(own)) => resolve(own, Reason::ModelType, false),
        (None, None, None) => Ok(backend("TokenizersBackend", Reason::ModelType)),
    }
}

fn exists(name: &str) -> bool {
    !matches!(known(name), NameMatch::Unknown)
}

/// `falls_back`: whether an unknown class means `TokenizersBackend`, and a Python base class too.
fn resolve(name: &str, because: Reason, falls_back: bool) -> Result<ChosenClass, Cause> {
    let taken = |class| ChosenClass {
        class,
        name: name.to_string(),
        because,
    };
    let python_base = matches!(name, "PreTrainedTokenizer" | "PythonBackend") && !falls_back;
    let why = match known(name) {
        NameMatch::Is(class) if !python_base => return Ok(taken(class)),
        NameMatch::Unknown if falls_back => return Ok(taken(TokenizerClass::Backend)),
        NameMatch::Is(_) => "is Python code that does not read tokenizer.json".to_owned(),
        NameMatch::Refused(why) => format!("{why}, so embedctl cannot compute its tokens"),
        NameMatch::Unknown => "the reference does not have".to_owned(),
    };
    let reason = format!("is read by the class {name} ({because}), which {why}");
    Err(Cause::of(reason).with(because.remedy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(hints: &TokenizerClassHints<'_>) -> TokenizerClass {
        choose(hints).unwrap().class
    }

    #[test]
    fn architectures_decide_where_nothing_else_does_and_where_repositories_are_known_to_be_wrong() {
        let of = |model_type, tokenizer_config| {
            class(&TokenizerClassHints {
                model_type: Some(model_type),
                tokenizer_config,
                ..TokenizerClassHints::default()
            })
        };
        assert_eq!(of("bert", None), TokenizerClass::Bert);
        assert_eq!(of("llama", None), TokenizerClass::Backend);
        assert_eq!(
            of("llama", Some("LlamaTokenizerFast")),
            TokenizerClass::Llama
        );
        assert_eq!(
            of("nystromformer", Some("AlbertTokenizer")),
            TokenizerClass::Backend
        );
        assert_eq!(of("qwen2", Some("GPT2Tokenizer")), TokenizerClass::Qwen2);
        assert_eq!(
            of("qwen2", Some("PreTrainedTokenizerFast")),
            TokenizerClass::Qwen2
        );
        assert_eq!(
            of("qwen3", Some("PreTrainedTokenizerFast")),
            TokenizerClass::Backend
        );
        assert_eq!(
            of("bert", Some("XLMRobertaTokenizerFast")),
            TokenizerClass::XlmRoberta
        );
        assert_eq!(
            of("bert", Some("NobodysTokenizer")),
            TokenizerClass::Backend
        );
        assert_eq!(
            of("convbert", Some("ConvBertTokenizer")),
            TokenizerClass::ConvBert
        );
        assert_eq!(
            of("dpr", Some("DPRQuestionEncoderTokenizerFast")),
            TokenizerClass::Dpr
        );
        assert_eq!(
            of("dpr", Some("DPRContextEncoderTokenizerFast")),
            TokenizerClass::ConvBert
        );
    }

    #[test]
    fn a_llama_that_is_byte_level_keeps_its_file() {
        let hints = |model_type, byte_level| TokenizerClassHints {
            tokenizer_config: Some("LlamaTokenizer"),
            model_type: Some(model_type),
            byte_level,
            ..TokenizerClassHints::default()
        };
        assert_eq!(class(&hints("llama", true)), TokenizerClass::Backend);
        assert_eq!(class(&hints("llama", false)), TokenizerClass::Llama);
    }

    #[test]
    fn classes_that_are_python_are_refused_with_the_file_that_named_them() {
        for (hints, parts) in [
            (
                TokenizerClassHints {
                    tokenizer_config: Some("BertJapaneseTokenizer"),
                    model_type: Some("bert"),
                    ..TokenizerClassHints::default()
                },
                ["BertJapaneseTokenizer", "tokenizer_config.json"],
            ),
            (
                TokenizerClassHints {
                    model_type: Some("roformer"),
                    ..TokenizerClassHints::default()
                },
                ["RoFormerTokenizer", "model_type"],
            ),
        ] {
            let reason = choose(&hints).unwrap_err().reason;
            assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
        }
    }
}
