//! Files of GGUF, the quantized format of llama.cpp: they are known by their ending and not read.

use embedctl_common::error::Cause;
use embedctl_common::setting::MODEL;

/// Whether a file holds weights in the format of llama.cpp, by its ending.
#[must_use]
pub fn is_gguf(path: &str) -> bool {
    let (_, ending) = path.rsplit_once('.').unwrap_or_default();
    ending.eq_ignore_ascii_case("gguf")
}

/// Why such a file is not run.
#[must_use]
pub fn refuses_gguf(file: &str) -> Cause {
    Cause::of(format!(
        "holds weights as GGUF ({file}), the quantized format of llama.cpp, which embedctl does not read"
    ))
    .with(original())
}

/// Why such a file is not run either where it is not there.
#[must_use]
pub fn refuses_missing_gguf() -> Cause {
    Cause::of(
        "is not there; and it would not be run: its ending is that of GGUF, the quantized format of llama.cpp, which \
         embedctl does not read",
    )
    .with(original())
}

/// What to run in place of such a file.
fn original() -> String {
    format!(
        "name the model that its weights were made from, in safetensors or ONNX: {MODEL} org/name (the page of a GGUF \
         repository on the Hub names it as its base model)"
    )
}
