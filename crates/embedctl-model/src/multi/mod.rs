//! The files of models that give a vector for each token (ColBERT).

pub(crate) mod layout;
pub(crate) mod modules;

pub(crate) use layout::{ConfigKey, MultiFiles, MultiLayout};
pub(crate) use modules::{MultiModule, ScoringMask, read};
