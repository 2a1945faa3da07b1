//! Repositories whose texts the reference prepares together with images or sound.

use std::path::Path;

use crate::metadata::{self, TransformerConfig};
use embedctl_common::error::{Error, Result};
use embedctl_common::word_list::lists;

/// Architectures whose texts the reference hands to a processor of several kinds of input.
const PROCESSED: &str = "aimv2 align altclip aria audioflamingo3 aya_vision bark blip blip-2 bridgetower bros canary chameleon
    chinese_clip clap clip clipseg clvp cohere2_vision cohere_asr cohere_compass cosmos3_edge csm deepseek_ocr2
    deepseek_vl deepseek_vl_hybrid dia diffusion_gemma dots3_note edgetam embedding_gemma2 emu3 ernie4_5_vl_moe
    evolla exaone4_5 flava florence2 fun_asr_nano fuyu gemma3 gemma3n gemma4 gemma4_unified git glm46v glm4v
    glm4v_moe glm5_next glm_image glmasr got_ocr2 gradium_phonon_tts granite4_vision granite_docling granite_speech
    granite_speech5_ctc granite_speech_plus grounding-dino groupvit higgs_audio_v2 hubert hunyuan_vl
    hyperclovax_vision_v2 idefics idefics2 idefics3 inkling2 inkling_mm_model instructblip instructblipvideo
    internvl janus kimi_k25 kyutai_speech_to_text lasr_ctc lasr_encoder layoutlmv2 layoutlmv3 lfm2_vl lfm3_vl
    lighton_ocr llama4 llava llava_next llava_next_video llava_onevision markuplm metaclip_2 mgp-str minicpm_ocr
    minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 mistral_large4 mllama mm-grounding-dino modernvbert molmo2
    moonshine moonshine_streaming moss_transcribe_diarize muse_glimmer muse_spark musicflamingo musicgen
    musicgen_melody nemo_speechlm nemotron3_5_asr nemotron3_diarization nemotron_asr_streaming neomme omdet-turbo
    oneformer ovis2 owlv2 owlvit paddleocr_vl paligemma parakeet_ctc parakeet_rnnt pe_audio pe_audio_video pe_video
    perception_lm phi4_multimodal pi0 pixtral pocket_tts qianfan_ocr qwen2_5_vl qwen2_audio qwen2_vl qwen3_5
    qwen3_5_moe qwen3_asr qwen3_vl qwen3_vl_moe qwen4_exp sam sam2 sam2_video sam3 sam3_lite_text sam3_tracker
    sam3_tracker_video sam3_video sam_hq seamless_m4t sew sew-d siglip siglip2 smolvlm speech_to_text speecht5
    step3p7 t5gemma2 t5gemma2_encoder tipsv2 tvp udop ultravbert unispeech unispeech-sat unlimited_ocr vibevoice
    vibevoice_asr video_llama_3 video_llava videoprism vilt vipllava vision-text-dual-encoder voxtral
    voxtral_realtime wav2vec2 wav2vec2-bert wav2vec2-conformer wavlm whisper parakeet_tdt";

/// Those of them whose text part is a network by itself that the native engine runs.
const TEXT_PARTS: [&str; 5] = ["gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"];

/// Refuses repositories whose texts the reference hands to a processor of several kinds of input.
pub(super) fn no_processor(folder: &Path, transformer: &TransformerConfig) -> Result<()> {
    let kind = transformer.model_type.as_deref().unwrap_or_default();
    if lists(PROCESSED, kind) {
        return Err(Error::model(
            folder.join("config.json").display(),
            format!(
                "is of the model_type {kind}, whose texts the reference prepares together with images or sound, which \
                 embedctl does not do"
            ),
        )
        .with_remedy(match TEXT_PARTS.contains(&kind) {
            true => "use a model for text alone, or make one of its text part: save the reference's language_model with \
                     save_pretrained, and put tokenizer, modules.json and the modules' folders beside it",
            false => "use a model for text alone",
        }));
    }
    let files = "processor_config.json preprocessor_config.json video_preprocessor_config.json
        tokenizer_config.json config.json";
    for name in files.split_ascii_whitespace() {
        let file = folder.join(name);
        let config = metadata::read_object(&file)?;
        if let Some(class) = config
            .as_ref()
            .and_then(|config| config.get("processor_class")?.as_str())
        {
            return Err(Error::model(
                file.display(),
                format!(
                    "names the processor_class {class}: the reference prepares texts with it together with images or \
                     sound, which embedctl does not"
                ),
            )
            .with_remedy("remove it if the model embeds texts alone"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_text_part_where_it_is_a_network_by_itself() {
        let refusal = |kind: &str| {
            let config = serde_json::json!({ "model_type": kind });
            let config = serde_json::from_value(config).unwrap();
            let refused = no_processor(Path::new("nowhere"), &config);
            refused.unwrap_err().remedy().unwrap_or_default().to_owned()
        };
        for kind in TEXT_PARTS {
            assert!(refusal(kind).contains("language_model"), "{kind}");
            let text = serde_json::json!({ "model_type": format!("{kind}_text") });
            assert_eq!(embedctl_checkpoint::knows(&text), Ok(()), "{kind}");
        }
        assert!(!refusal("whisper").contains("language_model"));
    }
}
