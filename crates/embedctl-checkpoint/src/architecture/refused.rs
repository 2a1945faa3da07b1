//! Types of networks that are known and not run here, with the reason and what helps.

/// `model_type` and what keeps the engine from running it.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    ("canine", "it reads characters by hashes, not tokens"),
    (
        "jina_embeddings_v5",
        "its repository's own code puts the weights of a task's adapter into those of its base",
    ),
    ("fnet", "it mixes tokens by Fourier transforms"),
    ("longt5", "its attention is local with summaries of blocks"),
    ("mamba", "its layers are state spaces, not attention"),
    (
        "mobilebert",
        "its layers have bottlenecks and several feed-forwards",
    ),
    (
        "nystromformer",
        "its attention is an approximation by landmarks",
    ),
    (
        "reformer",
        "its attention hashes tokens into random buckets",
    ),
    (
        "t5gemma2",
        "an encoder and a decoder read two parts of a text",
    ),
    (
        "xlnet",
        "its relative positions and two streams are its own",
    ),
    ("xmod", "its layers have an adapter for each language"),
];

/// The reason why this type is refused, if it is known.
pub(super) fn reason(model_type: &str) -> Option<String> {
    let (_, reason) = REFUSED.iter().find(|(name, _)| *name == model_type)?;
    Some(format!(
        "the native engine does not run the model_type \"{model_type}\": {reason}; use an ONNX export of the model"
    ))
}
