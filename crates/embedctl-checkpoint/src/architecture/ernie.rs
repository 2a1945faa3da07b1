//! ERNIE: BERT, some of whose checkpoints have embeddings of tasks.

use super::bert_like::{BASE_SIZES, bert_with_types};
use super::{Architecture, KnownType};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("ernie", &["ernie"], ernie)];

fn ernie(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = bert_with_types(settings, &names::BERT, BASE_SIZES, None)?;
    if settings.flag("use_task_id", false)? {
        all.embeddings.tasks = settings.count("task_type_vocab_size", 3)?;
    }
    Ok(all)
}
