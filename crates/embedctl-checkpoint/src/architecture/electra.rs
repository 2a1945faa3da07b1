//! ELECTRA: BERT, whose embeddings have a width of their own.

use super::bert_like::bert_with_types;
use super::{Architecture, KnownType};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("electra", &["electra"], electra)];

fn electra(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = bert_with_types(settings, &names::BERT, [256, 12, 4, 1024], None)?;
    all.embeddings.width = settings.count("embedding_size", 128)?;
    all.embeddings.projected = all.embeddings.width != all.hidden;
    Ok(all)
}
