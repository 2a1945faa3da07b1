//! Types of networks that are known and not run here, with the reason and what helps.

/// `model_type` and what keeps the engine from running it.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    (
        "big_bird",
        "its block-sparse attention picks random blocks, which only its own code repeats",
    ),
    ("canine", "it reads characters by hashes, not tokens"),
    ("fnet", "it mixes tokens by Fourier transforms"),
    ("lfm2", "some of its layers are convolutions"),
    ("mamba", "its layers are state spaces, not attention"),
    ("mamba2", "its layers are state spaces, not attention"),
    (
        "nvembed",
        "its vectors come from a latent attention layer behind the network",
    ),
    (
        "nystromformer",
        "its attention is an approximation by landmarks",
    ),
    (
        "qwen2_vl",
        "its configuration nests the text network beside a vision network",
    ),
    (
        "qwen2_5_vl",
        "its configuration nests the text network beside a vision network",
    ),
    (
        "qwen3_vl",
        "its configuration nests the text network beside a vision network",
    ),
    (
        "reformer",
        "its attention hashes tokens into random buckets",
    ),
    (
        "xlnet",
        "its attention runs over two streams with relative positions of its own",
    ),
];

/// The reason why this type is refused, if it is known.
pub(super) fn reason(model_type: &str) -> Option<String> {
    let (_, reason) = REFUSED.iter().find(|(name, _)| *name == model_type)?;
    Some(format!(
        "the native engine does not run the model_type \"{model_type}\": {reason}; use an ONNX export of the model"
    ))
}
