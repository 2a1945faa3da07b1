//! Reads an ONNX file with its weights as rten takes them.
//!
//! Most files rten reads by itself. It refuses bfloat16, and weights in files of their own unless their
//! names, keys and alignment are as it wants; in the Hub's cache, where every file is a link to a blob, it
//! finds none. Such tensors are handed over in buffers, bfloat16 widened, and the graph is told to look for
//! them there. The rest of the file's bytes stays as it is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use half::bf16;
use prost::Message;
use rten::{Model, ModelOptions};

use embedctl_common::error::{Cause, Error};
use embedctl_common::small_file;
use embedctl_native::PlainNetwork;
use embedctl_onnx::{self as onnx, MessageKind, Node, StringEntry, Tensor};
use embedctl_ort::built::BuiltGraph;

/// Loads the file at `path`.
pub(super) fn load(path: &Path) -> Result<Model, Cause> {
    let whole = small_file::read(path, u64::MAX).map_err(|error| unreadable(path, &error))?;
    let mut tensors = Tensors {
        folder: path.parent().unwrap_or(path),
        options: ModelOptions::with_all_ops(),
        files: HashMap::new(),
        count: 0,
        depth: 0,
    };
    let rewritten = tensors.message(MessageKind::Model, &whole)?;
    drop(whole);
    let mut options = tensors.options;
    options.prepack_weights(true);
    match rewritten {
        Some(bytes) => options.load(bytes),
        None => options.load_file(path),
    }
    .map_err(|error| error.to_string().into())
}

/// Loads a graph that was built, with the weights of its checkpoint.
pub(super) fn load_built(network: &PlainNetwork, graph: &BuiltGraph) -> Result<Model, Error> {
    let mut options = ModelOptions::with_all_ops();
    for weight in graph.weights() {
        let mut bytes = vec![0; weight.bytes()];
        weight.read(network, &mut bytes)?;
        options.external_data(&weight.file(), bytes);
    }
    network.check_unchanged()?;
    options.prepack_weights(true);
    let loaded = options.load(graph.model_in_memory());
    loaded.map_err(|error| Error::engine("rten", error.to_string()))
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Messages inside each other at most: three for a graph inside a node.
const DEEPEST: usize = 100;

/// Tensors that rten does not read by itself.
struct Tensors<'a> {
    /// The graph's folder, which files are relative to.
    folder: &'a Path,
    /// Holds the tensors that were read.
    options: ModelOptions,
    /// Files of weights, open, and their lengths.
    files: HashMap<PathBuf, (File, u64)>,
    count: usize,
    depth: usize,
}

impl Tensors<'_> {
    /// The changed message; `None` if nothing had to change.
    fn message(&mut self, kind: MessageKind, bytes: &[u8]) -> Result<Option<Vec<u8>>, Cause> {
        if matches!(kind, MessageKind::Tensor) {
            return self.tensor(bytes);
        }
        if self.depth > DEEPEST {
            return Err("its graphs are nested too deeply".into());
        }
        self.depth += 1;
        let mut new: Option<Vec<u8>> = None;
        let (mut copied, mut position) = (0, 0);
        for field in onnx::fields(bytes) {
            let field = field?;
            let start = position;
            position += field.whole.len();
            let Some(kind) = kind.field(field.number) else {
                continue;
            };
            let Some(content) = self.message(kind, field.content)? else {
                continue;
            };
            let new = new.get_or_insert_default();
            new.extend_from_slice(&bytes[copied..start]);
            onnx::append(field.number, &content, new);
            copied = position;
        }
        if let Some(new) = &mut new {
            new.extend_from_slice(&bytes[copied..]);
        }
        self.depth -= 1;
        if matches!(kind, MessageKind::Node) {
            return Ok(cast(new.as_deref().unwrap_or(bytes))?.or(new));
        }
        Ok(new)
    }

    fn tensor(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Cause> {
        let mut header = Tensor::default();
        for field in onnx::fields(bytes) {
            let field = field?;
            if !MessageKind::Tensor.has_elements_in(field.number) {
                header.merge(field.whole).map_err(damaged)?;
            }
        }
        let external = header.data_location == onnx::EXTERNAL;
        let narrow = header.data_type == onnx::BFLOAT16;
        if !external && !narrow {
            return Ok(None);
        }
        let name = header.name.clone();
        let of_tensor = |cause: Cause| cause.map(|reason| format!("the weight '{name}': {reason}"));
        let elements = if external {
            let stored = self.external(&header).map_err(of_tensor)?;
            if narrow { widened(&stored) } else { stored }
        } else {
            let tensor = Tensor::decode(bytes).map_err(damaged)?;
            if tensor.raw_data.is_empty() {
                // The halves of words.
                let bits = tensor.int32_data.iter();
                bits.flat_map(|&bits| (bits << 16).to_le_bytes()).collect()
            } else {
                widened(&tensor.raw_data)
            }
        };
        if narrow {
            header.data_type = onnx::FLOAT;
        }
        header.data_location = onnx::EXTERNAL;
        let location = format!("{}.data", self.count);
        self.count += 1;
        header.external_data = [
            ("location", location.clone()),
            ("offset", "0".into()),
            ("length", elements.len().to_string()),
        ]
        .map(|(key, value)| StringEntry {
            key: key.into(),
            value,
        })
        .into();
        self.options.external_data(&location, elements);
        Ok(Some(header.encode_to_vec()))
    }

    /// The bytes of a tensor that lies in a file of its own. Links are followed; names that climb out of the
    /// folder are refused.
    fn external(&mut self, tensor: &Tensor) -> Result<Vec<u8>, Cause> {
        let entry = |key: &str| {
            let mut entries = tensor.external_data.iter();
            entries.find(|entry| entry.key == key)
        };
        let number = |key: &str| {
            entry(key)
                .map(|entry| entry.value.parse::<u64>())
                .transpose()
                .map_err(|error| format!("its {key} is not a number: {error}"))
        };
        let location = Path::new(&entry("location").ok_or("it names no file")?.value);
        let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !location.components().all(stays) {
            return Err(format!(
                "it lies in {}, which is outside the graph's folder",
                location.display()
            )
            .into());
        }
        let path = self.folder.join(location);
        let unreadable = |error: io::Error| unreadable(&path, &error);
        let (file, size) = match self.files.entry(location.to_owned()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let file = small_file::open(&path).map_err(unreadable)?;
                let size = file.metadata().map_err(unreadable)?.len();
                entry.insert((file, size))
            }
        };
        let start = number("offset")?.unwrap_or(0);
        let end = match number("length")? {
            Some(length) => start.checked_add(length),
            None => Some(*size),
        };
        let length = end
            .filter(|end| end <= size)
            .and_then(|end| usize::try_from(end.checked_sub(start)?).ok());
        let length = length.ok_or_else(|| {
            Cause::of(format!(
                "{} ends before it ({size} bytes)",
                location.display()
            ))
            .with("fetch the file again")
        })?;
        let mut bytes = vec![0; length];
        (file.seek(SeekFrom::Start(start)))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(unreadable)?;
        Ok(bytes)
    }
}

/// A conversion to bfloat16, made one to float32, which holds the same numbers and more.
fn cast(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut casts = false;
    for field in onnx::fields(bytes) {
        let field = field?;
        casts |= field.number == 4 && field.content == b"Cast";
    }
    if !casts {
        return Ok(None);
    }
    let mut node = Node::decode(bytes).map_err(damaged)?;
    let to = node.attribute.iter_mut().find(|one| one.name == "to");
    Ok(to
        .filter(|to| to.i == Some(onnx::BFLOAT16.into()))
        .map(|to| to.i = Some(onnx::FLOAT.into()))
        .map(|()| node.encode_to_vec()))
}

/// bfloat16 as float32, both little-endian.
fn widened(bytes: &[u8]) -> Vec<u8> {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs
        .iter()
        .flat_map(|&pair| bf16::from_le_bytes(pair).to_f32().to_le_bytes())
        .collect()
}

fn damaged(error: prost::DecodeError) -> String {
    format!("the file is damaged: {error}")
}
