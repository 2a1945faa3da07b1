//! Arrays of numbers in lines of JSON.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Map, Value};

use super::{CUT, StoredVector, TakeVector, decompressed, failed, in_order};
use crate::error::{Error, Place, Result};
use crate::output::options::Compression;
use crate::output::quantize::Dtype;
use crate::storage::Readable;

/// A line that is longer holds no vector of any model.
const MAX_LINE: u64 = 64 << 20;

pub(super) fn jsonl(
    file: &Readable,
    compression: Compression,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let failed = |error| failed(file, error);
    let bytes = decompressed(in_order(file)?, compression).map_err(failed)?;
    let mut lines = BufReader::new(bytes);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let length = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line);
        if length.map_err(failed)? == 0 {
            return Ok(());
        }
        let object: Map<String, Value> = serde_json::from_slice(&line).map_err(|error| {
            let place = Place::file(&file.name).line(number);
            Error::record(place, format!("it is no JSON object: {error}")).with_remedy(CUT)
        })?;
        for (column, value) in &object {
            let Some(list) = value.as_array() else {
                continue;
            };
            #[allow(clippy::cast_possible_truncation)] // they were float32 when they were written
            let values = list.iter().map(|value| value.as_f64().map(|it| it as f32));
            let Some(values) = values.collect::<Option<Vec<f32>>>() else {
                continue;
            };
            take(StoredVector {
                column,
                dtype: Dtype::F32,
                values: &values,
            })?;
        }
    }
    Ok(())
}
