//! Kinds of weights, and the names that ONNX files of each kind bear on the Hub.

/// Which of a repository's ONNX files, by the kind of its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Precision {
    Fp32,
    Fp16,
    Bf16,
    Int8,
    Uint8,
    Q4,
    Q4f16,
    Bnb4,
}

impl Precision {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Fp32,
        Self::Fp16,
        Self::Bf16,
        Self::Int8,
        Self::Uint8,
        Self::Q4,
        Self::Q4f16,
        Self::Bnb4,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Q4 => "q4",
            Self::Q4f16 => "q4f16",
            Self::Bnb4 => "bnb4",
        }
    }

    /// File names in use on the Hub for this kind, in order of preference. The ones for another
    /// processor run here too, more slowly, and come last.
    pub(super) fn file_names(self) -> &'static [&'static str] {
        match self {
            Self::Fp32 => &["model.onnx"],
            Self::Fp16 => &["model_fp16.onnx"],
            Self::Bf16 => &["model_bf16.onnx"],
            Self::Int8 if cfg!(target_arch = "aarch64") => &[
                "model_qint8_arm64.onnx",
                "model_int8.onnx",
                "model_quantized.onnx",
            ],
            Self::Int8 => &[
                "model_int8.onnx",
                "model_quantized.onnx",
                "model_qint8_avx512_vnni.onnx",
                "model_qint8_avx512.onnx",
                "model_qint8_arm64.onnx",
            ],
            Self::Uint8 => &["model_uint8.onnx", "model_quint8_avx2.onnx"],
            Self::Q4 => &["model_q4.onnx"],
            Self::Q4f16 => &["model_q4f16.onnx"],
            Self::Bnb4 => &["model_bnb4.onnx"],
        }
    }
}

impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let wanted = name.trim().to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == wanted)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|precision| precision.name()).collect();
                format!(
                    "unknown precision '{name}'; choose one of {}",
                    names.join(", ")
                )
            })
    }
}
