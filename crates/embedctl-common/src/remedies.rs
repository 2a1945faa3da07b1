//! What helps, in the words that several stages have in common.

/// Where an output's name is taken.
pub const TAKEN: &str = "pass --force to replace it, or write elsewhere";

/// Where the machine's memory is too small for a batch.
pub const MORE_MEMORY: &str =
    "raise the limit on memory (ulimit -v, a container's), or lower --threads";
