//! The choice of an ONNX file in a repository or a folder: by its path, or by the kind of its weights.

use super::gguf::{is_gguf, refuses_gguf};
use super::precision::Precision;
use embedctl_common::error::Cause;
use embedctl_common::setting::{MODEL, MODEL_FILE, PRECISION};

/// The user's choice of the file; at most one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnnxChoice {
    /// `--model-file`: path inside the repository.
    pub file: Option<String>,
    /// `--precision`; neither: fp32.
    pub precision: Option<Precision>,
}

/// The ONNX files among `paths`, sorted.
pub(super) fn among<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    let mut files: Vec<&str> = paths
        .iter()
        .copied()
        .filter(|path| path.ends_with(".onnx"))
        .collect();
    files.sort_unstable();
    files
}

/// Chooses among the files of a model, whose Transformer lies in the folder `transformer` (empty: the root).
///
/// # Errors
/// If there is no such file; the error names the existing files and a remedy.
pub fn choose(paths: &[&str], transformer: &str, choice: &OnnxChoice) -> Result<String, Cause> {
    let files = among(paths);
    let is_config = |path: &&str| path.rsplit('/').next() == Some("config.json");
    let is_weights = |path: &&str| path.ends_with(".safetensors");
    if files.is_empty()
        && !paths.iter().any(is_weights)
        && let Some(file) = paths.iter().find(|path| is_gguf(path))
    {
        return Err(refuses_gguf(file));
    }
    if files.is_empty() && !paths.iter().any(is_config) {
        return Err(Cause::of("is not a model: it holds no config.json").with(
            "name the folder that holds config.json, the tokenizer and the weights, or a repository of the Hub",
        ));
    }
    if let Some(named) = &choice.file {
        let named = named.trim_start_matches("./");
        return if files.contains(&named) {
            Ok(named.to_owned())
        } else {
            Err(lacking(
                &format!("file {named}, which {MODEL_FILE} asks for"),
                &files,
            ))
        };
    }
    let folders = [
        "onnx/".to_owned(),
        String::new(),
        format!("{transformer}/onnx/"),
        format!("{transformer}/"),
    ];
    let precision = choice.precision.unwrap_or(Precision::Fp32);
    let names = precision.file_names();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| format!("{folder}{name}")))
        .find(|path| files.contains(&path.as_str()))
        .ok_or_else(|| {
            let kind = precision.name();
            lacking(
                &format!("ONNX file for {kind} ({})", names.join(", ")),
                &files,
            )
        })
}

/// The file that `--precision` finds for each kind, among those of a model whose Transformer lies in its root.
#[must_use]
pub fn kinds(paths: &[&str]) -> Vec<(&'static str, String)> {
    let of = |precision: Precision| {
        let choice = OnnxChoice {
            file: None,
            precision: Some(precision),
        };
        let path = choose(paths, "", &choice).ok()?;
        Some((precision.name(), path))
    };
    Precision::ALL.into_iter().filter_map(of).collect()
}

/// That there is no such file, and which there are instead.
fn lacking(what: &str, files: &[&str]) -> Cause {
    if files.is_empty() {
        return Cause::of(format!("has no {what}; it holds no ONNX file at all")).with(format!(
            "export an ONNX file with Python (optimum-cli export onnx --model NAME FOLDER, where NAME is not quantized) \
             and name the folder with {MODEL}, or take a repository that has one (many are under onnx-community and \
             Xenova)"
        ));
    }
    Cause::of(format!("has no {what}; it has {}", files.join(", ")))
        .with(format!("choose with {MODEL_FILE} or {PRECISION}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_kind(paths: &[&str], precision: Precision) -> Result<String, Cause> {
        let choice = OnnxChoice {
            file: None,
            precision: Some(precision),
        };
        choose(paths, "", &choice)
    }

    #[test]
    fn fp32_is_the_default_and_the_onnx_folder_goes_first() {
        let paths = ["model.onnx", "onnx/model.onnx", "onnx/model_fp16.onnx"];
        let chosen = choose(&paths, "", &OnnxChoice::default());
        assert_eq!(chosen.as_deref(), Ok("onnx/model.onnx"));
        assert_eq!(
            choose(
                &["0_Transformer/model.onnx"],
                "0_Transformer",
                &OnnxChoice::default()
            )
            .as_deref(),
            Ok("0_Transformer/model.onnx")
        );
    }

    #[test]
    fn kinds_are_found_by_the_names_in_use() {
        for (path, precision) in [
            ("onnx/model_fp16.onnx", Precision::Fp16),
            ("onnx/model_O4.onnx", Precision::Fp16),
            ("onnx/model_quantized.onnx", Precision::Int8),
            ("onnx/model_qint8_avx512_vnni.onnx", Precision::Int8),
            ("onnx/model_quint8_avx2.onnx", Precision::Int8),
            ("onnx/model_quint8_avx2.onnx", Precision::Uint8),
            ("onnx/model_O2.onnx", Precision::Fp32),
            ("onnx/model_q4.onnx", Precision::Q4),
        ] {
            assert_eq!(
                choose_kind(&[path], precision).as_deref(),
                Ok(path),
                "{path}"
            );
        }
        assert!(choose_kind(&["onnx/model.onnx"], Precision::Fp16).is_err());
    }

    #[test]
    fn the_file_for_this_processor_goes_before_the_others() {
        let paths = [
            "onnx/model_qint8_arm64.onnx",
            "onnx/model_qint8_avx512.onnx",
            "onnx/model_qint8_avx512_vnni.onnx",
            "onnx/model_quint8_avx2.onnx",
        ];
        let chosen = choose_kind(&paths, Precision::Int8).unwrap();
        let arm = chosen.contains("arm64");
        assert_eq!(arm, cfg!(target_arch = "aarch64"), "{chosen}");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            chosen.contains("vnni"),
            is_x86_feature_detected!("avx512vnni"),
            "{chosen}"
        );
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let choice = OnnxChoice {
            file: Some("onnx/gone.onnx".into()),
            precision: None,
        };
        let reason = choose(&["onnx/model.onnx"], "", &choice)
            .unwrap_err()
            .reason;
        assert!(reason.contains("onnx/gone.onnx") && reason.contains("onnx/model.onnx"));
        let files = ["config.json", "model.safetensors"];
        let cause = choose(&files, "", &OnnxChoice::default()).unwrap_err();
        assert!(cause.reason.contains("no ONNX file at all"));
        assert!(cause.remedy.as_ref().unwrap().contains("optimum-cli"));
        assert!(
            cause
                .remedy
                .is_some_and(|remedy| remedy.starts_with("export an ONNX file"))
        );
        let cause = choose(&["notes.txt"], "", &OnnxChoice::default()).unwrap_err();
        assert!(
            cause
                .reason
                .contains("is not a model: it holds no config.json")
        );
    }
}
