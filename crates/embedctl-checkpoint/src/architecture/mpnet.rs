//! MPNet: BERT without token types, whose scores have a bias by distance.

use super::bert_like::{BASE_SIZES, bert_like};
use super::{Architecture, KnownType, PositionBias};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("mpnet", &["mpnet"], mpnet).always_masked()];

fn mpnet(settings: &ConfigSettings) -> Supported<Architecture> {
    // Positions are counted behind 1 for any pad_token_id.
    let mut all = bert_like(settings, &names::MPNET, BASE_SIZES, Some(1))?;
    // Buckets are counted up to 32 for every size of the table.
    let buckets = settings.count("relative_attention_num_buckets", 32)?;
    if buckets < 32 {
        return Err(settings.unknown("relative_attention_num_buckets"));
    }
    all.attention.position_bias = Some(PositionBias::Buckets {
        rows: buckets,
        count: 32,
        reach: 128,
        of_each_layer: false,
    });
    Ok(all)
}
