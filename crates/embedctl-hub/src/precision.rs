//! Precisions: the native engine's arithmetic, and kinds of weights with the names that ONNX files of each
//! kind bear on the Hub.

use embedctl_common::named::named;

named! {
    /// The arithmetic of the native engine (`fp32`, `bf16`, `int16`, `int8`), or which of a repository's ONNX files is
    /// taken, by the kind of its weights.
    pub enum Precision("precision", "choose one of") {
        Fp32 = "fp32",
        Fp16 = "fp16",
        Bf16 = "bf16",
        Int16 = "int16",
        Int8 = "int8",
        Uint8 = "uint8",
        Q4 = "q4",
        Q4f16 = "q4f16",
        Bnb4 = "bnb4",
    }
}

impl Precision {
    /// File names in use on the Hub for this kind, in order of preference: files for this processor, files for
    /// any, files for another (they run here too, more slowly).
    pub(super) fn file_names(self) -> Vec<&'static str> {
        match self {
            // O1 to O3: the same weights, with operators fused for ONNX Runtime.
            Self::Fp32 => vec![
                "model.onnx",
                "model_O1.onnx",
                "model_O2.onnx",
                "model_O3.onnx",
            ],
            Self::Fp16 => vec!["model_fp16.onnx", "model_O4.onnx"],
            Self::Bf16 => vec!["model_bf16.onnx"],
            // Arithmetic of the native engine; no such files are published.
            Self::Int16 => vec!["model_int16.onnx"],
            Self::Int8 => {
                let any = ["model_int8.onnx", "model_quantized.onnx"];
                let (own, others): (Vec<_>, Vec<_>) = INT8_BY_PROCESSOR
                    .into_iter()
                    .partition(|(_, processor)| processor.is_this());
                let names =
                    |list: Vec<(&'static str, Processor)>| list.into_iter().map(|(name, _)| name);
                names(own).chain(any).chain(names(others)).collect()
            }
            Self::Uint8 => vec!["model_uint8.onnx", "model_quint8_avx2.onnx"],
            Self::Q4 => vec!["model_q4.onnx"],
            Self::Q4f16 => vec!["model_q4f16.onnx"],
            Self::Bnb4 => vec!["model_bnb4.onnx"],
        }
    }
}

/// Quantized files by their target processor, the fastest first.
const INT8_BY_PROCESSOR: [(&str, Processor); 4] = [
    ("model_qint8_avx512_vnni.onnx", Processor::Avx512Vnni),
    ("model_qint8_avx512.onnx", Processor::Avx512),
    ("model_quint8_avx2.onnx", Processor::Avx2),
    ("model_qint8_arm64.onnx", Processor::Arm64),
];

#[derive(Debug, Clone, Copy)]
enum Processor {
    Avx512Vnni,
    Avx512,
    Avx2,
    Arm64,
}

impl Processor {
    fn is_this(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Avx512Vnni => is_x86_feature_detected!("avx512vnni"),
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Arm64 => false,
        };
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Self::Arm64 if cfg!(target_arch = "aarch64"))
    }
}
