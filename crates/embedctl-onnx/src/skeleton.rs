//! A model without its weights: its operators and the places of its weights. Undeclared fields are skipped, so a file
//! of gigabytes is read in milliseconds.

use std::fs::File;
use std::io::{self, BufReader, Read};

use prost::Message;
use prost::encoding::encode_varint;

use super::{MessageKind, Node, StringEntry, ValueInfo, append};

/// `ModelProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ModelSkeleton {
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphSkeleton>,
}

impl ModelSkeleton {
    /// The graph of an open file, read from its start; `None` if it is not an ONNX model.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn graph_of(file: &File) -> io::Result<Option<GraphSkeleton>> {
        let mut skimmed = SkeletonReader {
            file: BufReader::with_capacity(1 << 16, file),
            depth: 0,
        };
        let mut bytes = Vec::new();
        let length = file.metadata()?.len();
        match skimmed.message(MessageKind::Model, length, &mut bytes) {
            Ok(()) => Ok(Self::decode(&bytes[..]).ok().and_then(|model| model.graph)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The most nested messages, as in prost.
const DEEPEST: usize = 100;

/// A reader of a file that leaves out its large parts: elements of tensors, and everything beside the graph. It is not
/// mapped: another process that cuts a mapped file ends this one by a signal.
struct SkeletonReader<'a> {
    file: BufReader<&'a File>,
    depth: usize,
}

impl SkeletonReader<'_> {
    /// Appends to `out` the kept fields of a message of `left` bytes.
    fn message(&mut self, kind: MessageKind, mut left: u64, out: &mut Vec<u8>) -> io::Result<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(damaged());
        }
        while left > 0 {
            let key = self.varint(&mut left)?;
            let number = u32::try_from(key >> 3).map_err(|_| damaged())?;
            let length = match key & 7 {
                0 => {
                    let value = self.varint(&mut left)?;
                    if kind != MessageKind::Model {
                        encode_varint(key, out);
                        encode_varint(value, out);
                    }
                    continue;
                }
                1 => 8,
                2 => self.varint(&mut left)?,
                5 => 4,
                _ => return Err(damaged()),
            };
            left = left.checked_sub(length).ok_or_else(damaged)?;
            match kind.field(number).filter(|_| key & 7 == 2) {
                Some(inner) => {
                    let mut kept = Vec::new();
                    self.message(inner, length, &mut kept)?;
                    append(number, &kept, out);
                }
                None if kind == MessageKind::Model || kind.has_elements_in(number) => {
                    let skipped = i64::try_from(length).map_err(|_| damaged())?;
                    self.file.seek_relative(skipped)?;
                }
                None => {
                    encode_varint(key, out);
                    if key & 7 == 2 {
                        encode_varint(length, out);
                    }
                    let kept = (&mut self.file).take(length).read_to_end(out)?;
                    if kept as u64 != length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// A number of variable length; its bytes are subtracted from `left`.
    fn varint(&mut self, left: &mut u64) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            *left = left.checked_sub(1).ok_or_else(damaged)?;
            let mut byte = [0];
            self.file.read_exact(&mut byte)?;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct GraphSkeleton {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorSkeleton>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// `TensorProto` without its elements.
#[derive(Clone, PartialEq, Message)]
pub struct TensorSkeleton {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringEntry>,
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every ONNX file of the fixtures, as it is and damaged: skimmed as prost decodes the whole of it.
    #[test]
    fn skimming_a_file_gives_what_decoding_it_gives() {
        fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    files(&path, found);
                } else if path.extension().is_some_and(|ending| ending == "onnx") {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        files(Path::new("../../fixtures"), &mut found);
        found.sort();
        assert!(found.len() > 10, "{}", found.len());
        let skimmed = |path: &Path| ModelSkeleton::graph_of(&File::open(path).unwrap()).unwrap();
        for path in &found {
            let whole = std::fs::read(path).unwrap();
            let decoded = ModelSkeleton::decode(&whole[..])
                .ok()
                .and_then(|model| model.graph);
            assert!(skimmed(path) == decoded, "{}", path.display());
        }
        let small = found
            .iter()
            .min_by_key(|path| path.metadata().unwrap().len());
        let good = std::fs::read(small.unwrap()).unwrap();
        embedctl_testing::mutation::each("model.onnx", &good, 300, |path| {
            let damaged = std::fs::read(path).unwrap();
            let decoded = ModelSkeleton::decode(&damaged[..])
                .ok()
                .and_then(|model| model.graph);
            // Skipped parts are not checked, so damage there alone is not found.
            if decoded.is_some() {
                assert!(skimmed(path) == decoded);
            } else {
                skimmed(path);
            }
        });
    }
}
