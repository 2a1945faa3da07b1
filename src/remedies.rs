//! What helps, in the words that several stages have in common.

/// Where an output's name is taken.
pub(crate) const TAKEN: &str = "pass --force to replace it, or write elsewhere";
