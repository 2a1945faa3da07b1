//! Arrays of numbers in lines of JSON.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Map, Value};

use super::{StoredVector, TakeVector, unreadable};
use crate::error::{Error, Result};
use crate::output::options::Compression;
use crate::output::quantize::Dtype;

/// A line that is longer holds no vector of any model.
const MAX_LINE: u64 = 64 << 20;

pub(super) fn jsonl(
    path: &Path,
    file: File,
    compression: Compression,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let failed = |error| Error::io("read", path, error);
    let bytes: Box<dyn Read> = match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
        Compression::Zstd => Box::new(zstd::Decoder::new(file).map_err(failed)?),
    };
    let mut lines = BufReader::new(bytes);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let length = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line);
        if length.map_err(failed)? == 0 {
            return Ok(());
        }
        let object: Map<String, Value> = serde_json::from_slice(&line)
            .map_err(|error| unreadable(path, format!("line {number}: {error}")))?;
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
