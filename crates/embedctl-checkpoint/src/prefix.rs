//! The prefix of the network's tensor names in a checkpoint, and the choice among several networks in one checkpoint.
//!
//! transformers loads the tensors whose names its class has, and those whose names have the class's
//! `base_model_prefix` before them; weights that it finds under neither are left random.

use std::collections::BTreeSet;
use std::path::Path;

use super::architecture::Architecture;
use embedctl_common::error::{Error, Result};

/// The prefix of a network's tensor names.
#[derive(Debug, PartialEq, Eq)]
pub struct Prefix {
    /// With its dot; may be empty.
    pub prefix: String,
    /// A note about the choice.
    pub note: Option<String>,
}

/// Finds the network in a checkpoint by its token embeddings; `names` are those of all tensors, `file` is named in
/// messages.
///
/// # Errors
/// If it holds none, or several without a sign which one is meant.
pub fn find<'a>(
    architecture: &Architecture,
    file: &Path,
    names: impl Iterator<Item = &'a str>,
) -> Result<Prefix> {
    let names: BTreeSet<&str> = names.collect();
    let endings = architecture.names.word.iter();
    let endings: Vec<String> = endings.map(|word| format!("{word}.weight")).collect();
    let found: BTreeSet<&str> = names
        .iter()
        .filter_map(|name| {
            let mut prefixes = endings
                .iter()
                .filter_map(|ending| name.strip_suffix(ending.as_str()));
            prefixes.find(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        })
        .collect();
    let own: Vec<&str> = found
        .iter()
        .copied()
        .filter(|prefix| {
            let base = prefix.strip_suffix('.');
            base.is_none_or(|base| architecture.base_names.contains(&base))
        })
        .collect();
    let several = |prefixes: &[&str]| {
        let shown: Vec<String> = prefixes.iter().map(|prefix| shown(prefix)).collect();
        let reason = format!(
            "holds several networks of this kind ({}), but no name decides which one is meant",
            shown.join(", ")
        );
        let base = architecture.base_names.first().copied().unwrap_or_default();
        Error::model(file.display(), reason).with_remedy(format!(
            "keep one of them in the file, under names that begin with '{base}.' or with no prefix"
        ))
    };
    let of = |prefix: &str, note: Option<String>| Prefix {
        prefix: prefix.to_owned(),
        note,
    };
    let all: Vec<&str> = found.into_iter().collect();
    match (&own[..], &all[..]) {
        ([one], _) => Ok(of(one, None)),
        ([], []) => Err(Error::model(
            file.display(),
            format!("has no tensor '{}'", endings[0]),
        )),
        ([], [one]) => Ok(of(
            one,
            Some(format!(
                "{}: the network is taken from the tensors that begin with '{one}', a prefix that transformers' class for \
                 {} does not know: transformers would leave its weights random",
                file.display(),
                architecture.model_type
            )),
        )),
        ([], several_unknown) => Err(several(several_unknown)),
        (own, _) => first_in_order(&names, own)
            .map(|prefix| {
                let others: Vec<String> = (own.iter().filter(|other| **other != prefix))
                    .map(|other| shown(other))
                    .collect();
                let note = format!(
                    "{}: holds several networks of this kind; the one with {} is taken, as transformers does, and not {}",
                    file.display(),
                    shown(prefix),
                    others.join(", ")
                );
                of(prefix, Some(note))
            })
            .ok_or_else(|| several(own)),
    }
}

/// The prefix that transformers takes among several that mean the same to it: for each tensor, the first name in
/// alphabetical order. `None` where that would mix two networks.
fn first_in_order<'a>(names: &BTreeSet<&str>, prefixes: &[&'a str]) -> Option<&'a str> {
    let tensors: BTreeSet<&str> = prefixes
        .iter()
        .flat_map(|prefix| names.iter().filter_map(|name| name.strip_prefix(*prefix)))
        .collect();
    let mut chosen = BTreeSet::new();
    for tensor in tensors {
        let full = prefixes
            .iter()
            .map(|prefix| (format!("{prefix}{tensor}"), *prefix));
        let there = full.filter(|(name, _)| names.contains(name.as_str()));
        let mut there: Vec<(String, &str)> = there.collect();
        there.sort();
        if let [(_, first), _, ..] = &there[..] {
            chosen.insert(*first);
        }
    }
    match chosen.len() {
        1 => chosen.pop_first(),
        _ => None,
    }
}

fn shown(prefix: &str) -> String {
    if prefix.is_empty() {
        "no prefix".to_owned()
    } else {
        format!("the prefix '{prefix}'")
    }
}
