//! One copy of the weights for many sessions.
//!
//! Every worker needs a session of its own, and by default each session holds its own weights. Sharing
//! needs the initializers as the optimized graph has them: weights may be stored packed and unfolded at
//! load, and fusions rename and merge them. So the model is loaded once just to be optimized and written
//! to a temporary folder, weights in a file of their own. That file is mapped into memory and given to
//! every session as initializers, together with one container for the matrices that ONNX Runtime packs
//! for its kernels. The folder is gone when the sessions exist; the mapping stays valid.
//!
//! Measured with `MiniLM` (54 MB of weights once optimized): a second session of its own costs 55 MB beside
//! its activations, a shared one 1 to 3 MB; neither is slower than the other. One session run by several
//! threads would save as much, but `ort` forbids it, and it was up to 8 % slower.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use memmap2::Mmap;
use ort::AsPointer as _;
use ort::memory::{Allocator, MemoryInfo};
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, PrepackedWeights, SessionBuilder};
use ort::sys::ONNXTensorElementDataType as Element;
use ort::value::DynValue;
use prost::Message;

use super::source::{GraphSource, load};
use embedctl_common::atomic::ScratchFolder;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::with_causes;
use embedctl_common::threads::spawn_scoped;
use embedctl_onnx::EXTERNAL;
use embedctl_onnx::skeleton::{self, TensorSkeleton};

/// Smaller tensors stay in the graph: sharing them would gain nothing.
const MINIMUM_BYTES: &str = "1024";

const GRAPH: &str = "graph.onnx";
const WEIGHTS: &str = "weights.bin";

/// Sessions over one copy of the weights.
pub(super) struct SharedSessions {
    /// The requested number of sessions.
    pub sessions: Vec<Session>,
    /// The shared weights; must outlive the sessions.
    pub weights: Arc<SharedWeights>,
}

/// The weights of an optimized graph.
pub(super) struct SharedWeights {
    /// Tensors over `copies` and `mapped`, by initializer. Declared before both: dropped before both.
    initializers: Vec<(String, Arc<DynValue>)>,
    /// Matrices in the layout of ONNX Runtime's kernels.
    packed: PrepackedWeights,
    /// Weights that lie unaligned in the file, copied; `u64` for its alignment.
    copies: Vec<Box<[u64]>>,
    /// The file of weights; `None` if there are none of size.
    mapped: Option<Mmap>,
}

impl SharedSessions {
    /// Optimizes the graph of `source` and opens `count` sessions on the result, all with the options that
    /// `builder` makes.
    ///
    /// # Errors
    /// If the model cannot be loaded or written, or has weights of a kind that cannot be shared.
    pub(super) fn open(
        builder: &(dyn Fn() -> Result<SessionBuilder, ort::Error> + Sync),
        source: &GraphSource,
        count: usize,
        cancel: &CancelToken,
    ) -> Result<Self, String> {
        let folder = ScratchFolder::new(super::FOLDER_PREFIX)
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        builder()
            .and_then(|builder| write_optimized(builder, source, folder.path(), cancel))
            .map_err(|error| with_causes(&error))?;
        // The optimizing session is gone, but the C allocator keeps its memory.
        release_free_memory();
        let weights = Arc::new(SharedWeights::read(folder.path())?);
        let graph = folder.path().join(GRAPH);
        let open = || {
            builder()
                .and_then(|builder| weights.session(builder, &graph, cancel))
                .map_err(|error| with_causes(&error))
        };
        // The first packs the matrices; the others find them packed, so they may come all at once.
        let mut sessions = vec![open()?];
        let others: Result<Vec<Session>, String> = thread::scope(|scope| {
            let threads: Vec<_> = (1..count)
                .map(|_| spawn_scoped(scope, "session", open))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .map_err(|error| with_causes(&error))?
                        .join()
                        .unwrap_or_else(|_| Err("opening a session panicked".into()))
                })
                .collect()
        });
        sessions.extend(others?);
        weights.release_mapped_pages();
        release_free_memory();
        Ok(Self { sessions, weights })
    }
}

impl SharedWeights {
    /// Maps the weights of the optimized model in `folder`.
    fn read(folder: &Path) -> Result<Self, String> {
        let graph = fs::read(folder.join(GRAPH))
            .map_err(|error| format!("cannot read the optimized graph: {error}"))?;
        let header = skeleton::ModelSkeleton::decode(graph.as_slice())
            .map_err(|error| format!("cannot read the optimized graph: {error}"))?;
        let mut weights = Self {
            initializers: Vec::new(),
            packed: PrepackedWeights::new(),
            copies: Vec::new(),
            mapped: None,
        };
        if let Ok(file) = File::open(folder.join(WEIGHTS)) {
            // SAFETY: no other process writes to the file: it lies in a folder for this user alone, and it loses its
            // name as soon as the sessions are open.
            let mapped = unsafe { Mmap::map(&file) }
                .map_err(|error| format!("cannot map the weights: {error}"))?;
            weights.mapped = Some(mapped);
        }
        for tensor in header.graph.unwrap_or_default().initializer {
            if tensor.data_location == EXTERNAL {
                weights.add(&tensor)?;
            }
        }
        Ok(weights)
    }

    fn add(&mut self, tensor: &TensorSkeleton) -> Result<(), String> {
        let refuse = |why: &str| format!("the weight '{}' {why}", tensor.name);
        let element = element(tensor.data_type)
            .ok_or_else(|| refuse(&format!("has the element type {}", tensor.data_type)))?;
        let entries: BTreeMap<&str, &str> = tensor
            .external_data
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.as_str()))
            .collect();
        let number = |key: &str| entries.get(key).and_then(|text| text.parse::<usize>().ok());
        let start = number("offset").unwrap_or(0);
        let bytes = number("length")
            .and_then(|length| start.checked_add(length))
            .and_then(|end| self.mapped.as_ref()?.get(start..end))
            .ok_or_else(|| refuse("lies outside the file of weights"))?;
        let length = bytes.len();
        let data = if bytes.as_ptr().cast::<u64>().is_aligned() {
            bytes.as_ptr()
        } else {
            let mut copy = vec![0_u64; length.div_ceil(8)].into_boxed_slice();
            // SAFETY: both ranges are `length` bytes long, and `copy` is new, so they don't overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_mut_ptr().cast(), length);
            }
            let data = copy.as_ptr().cast();
            self.copies.push(copy);
            data
        };
        let value = tensor_over(data, length, &tensor.dims, element)
            .map_err(|error| refuse(&format!("cannot be shared: {}", with_causes(&error))))?;
        self.initializers
            .push((tensor.name.clone(), Arc::new(value)));
        Ok(())
    }

    fn session(
        &self,
        builder: SessionBuilder,
        graph: &Path,
        cancel: &CancelToken,
    ) -> Result<Session, ort::Error> {
        // The graph is optimized already; doing it again could only bring forth weights of its own.
        let mut builder = builder
            .with_optimization_level(GraphOptimizationLevel::Disable)?
            .with_prepacked_weights(&self.packed)?;
        for (name, value) in &self.initializers {
            builder = builder.with_initializer(name, Arc::clone(value))?;
        }
        load(builder, graph, cancel)
    }

    /// Lets go of the pages read while packing; the few that inference reads (embeddings) come back.
    fn release_mapped_pages(&self) {
        #[cfg(unix)]
        if let Some(mapped) = &self.mapped {
            // SAFETY: the mapping is a shared one of a file and never written to, so dropped pages are
            // read from the file again with the same content. Failing costs memory only.
            let _ = unsafe { mapped.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

fn write_optimized(
    builder: SessionBuilder,
    source: &GraphSource,
    folder: &Path,
    cancel: &CancelToken,
) -> Result<(), ort::Error> {
    let builder = builder
        .with_optimized_model_path(folder.join(GRAPH))?
        .with_config_entry(
            "session.optimized_model_external_initializers_file_name",
            WEIGHTS,
        )?
        .with_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes",
            MINIMUM_BYTES,
        )?
        // This session never runs.
        .with_prepacking(false)?;
    source.load(builder, cancel).map(drop)
}

/// A tensor over memory that stays where it is for as long as the tensor is used.
fn tensor_over(
    data: *const u8,
    length: usize,
    dims: &[i64],
    element: Element,
) -> Result<DynValue, ort::Error> {
    let memory = MemoryInfo::default();
    let mut value = std::ptr::null_mut();
    // SAFETY: `data` is readable for `length` bytes and aligned for any element; ONNX Runtime checks
    // that the shape needs no more. It takes a mutable pointer for all tensors but only reads
    // initializers. The value does not own `data`, so releasing it leaves that alone.
    unsafe {
        let status = (ort::api().CreateTensorWithDataAsOrtValue)(
            memory.ptr(),
            data.cast_mut().cast(),
            length,
            dims.as_ptr(),
            dims.len(),
            element,
            &raw mut value,
        );
        ort::Error::result_from_status(status)?;
        let value = NonNull::new(value).ok_or_else(|| ort::Error::new("no tensor was created"))?;
        // The allocator is kept alive by the value but not asked to free anything.
        Ok(DynValue::from_ptr(value, Some(&Allocator::default())))
    }
}

/// The element types in which weights come; strings and complex numbers are none.
fn element(number: i32) -> Option<Element> {
    use ort::value::TensorElementType as Type;
    Some(
        match number {
            1 => Type::Float32,
            2 => Type::Uint8,
            3 => Type::Int8,
            4 => Type::Uint16,
            5 => Type::Int16,
            6 => Type::Int32,
            7 => Type::Int64,
            9 => Type::Bool,
            10 => Type::Float16,
            11 => Type::Float64,
            12 => Type::Uint32,
            13 => Type::Uint64,
            16 => Type::Bfloat16,
            21 => Type::Uint4,
            22 => Type::Int4,
            _ => return None,
        }
        .into(),
    )
}

/// Gives freed memory back to the system. Loading a model frees several times the weights' size in
/// pieces, and glibc alone would keep them (100 MB for `MiniLM`).
pub(super) fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: has no preconditions and is safe to call from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
