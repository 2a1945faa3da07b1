//! The rows on which a card is compared with the processor.

use std::path::{Path, PathBuf};

use embedctl_native::{Encoder as NativeEncoder, PlainNetwork, PlainTable};

use super::rows_of;
use crate::batch::Batch;
use crate::engine::Arithmetic;
use crate::error::Result;
use crate::model::Model;
use crate::threads::usable_cores;

/// Models whose files are larger are not loaded a second time for the check.
const MOST_CHECKED: u64 = 2 << 30;

/// Rows on which the card is compared with the processor.
pub(super) struct CheckedRows {
    pub(super) batch: Batch,
}

impl CheckedRows {
    /// Rows of a few lengths; `None` where the model is too large to be loaded a second time.
    pub(super) fn of(model: &Model, network: &PlainNetwork) -> Result<Option<Self>> {
        const LENGTHS: [usize; 3] = [160, 61, 3];
        let files = model.checkpoint.as_ref().map(|it| it.files.as_slice());
        if stored_bytes(files.unwrap_or_default()) > MOST_CHECKED {
            return Ok(None);
        }
        let (rows, ..) = network.table_shape(PlainTable::Tokens)?;
        let rows = rows.max(1) as u32;
        let mut batch = Batch::default();
        let mut id = 7_u32;
        for length in LENGTHS {
            let length = length.min(model.config.max_length).max(1);
            let ids: Vec<u32> = (0..length)
                .map(|_| {
                    id = id.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (id >> 8) % rows
                })
                .collect();
            batch.push(ids, &model.config.frame);
        }
        Ok(Some(Self { batch }))
    }

    /// Its token states by the native engine in fp32.
    pub(super) fn states_here(&self, model: &Model) -> Result<Vec<f32>> {
        let (folder, adapter) = (model.network(), model.adapter());
        let threads = usable_cores();
        let encoder = NativeEncoder::open(folder, adapter, Arithmetic::Fp32, threads, None)?;
        Ok(encoder.worker().run(rows_of(&self.batch))?.to_vec())
    }
}

fn stored_bytes(files: &[PathBuf]) -> u64 {
    let bytes = |file: &PathBuf| Path::new(file).metadata().map_or(0, |it| it.len());
    files.iter().map(bytes).sum()
}
