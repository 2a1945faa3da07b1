//! Running batches in a session.

use std::sync::{Arc, Mutex};

use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use ort::session::{HasSelectedOutputs, OutputSelector, RunOptions, Session};
use ort::value::DynValue;

use super::binding::{Binding, missing};
use super::inputs::{Inputs, SessionReading};
use super::weights::SharedWeights;
use crate::padded::PaddedBatch;
use crate::runtime::{NAME, engine_error};
use embedctl_common::error::{Error, ErrorKind, Result, with_causes};
use embedctl_common::remedies;
use embedctl_common::setting::PROVIDER;
use embedctl_common::threads::locked;
use embedctl_engine::{Output, Worker};
use embedctl_model::ElementType;
use embedctl_rows::batch::Batch;

/// One thread's way to run batches in a session: its own, or one that the workers of a device share.
///
/// `ort` lets one thread at a time into a session, and several providers could not bear more. Two workers
/// of one device still gain: while the device computes for one, the other tokens are laid out and the
/// other's rows pooled.
pub(super) struct OrtWorker {
    // Fields are dropped in this order: the last output and the session go before the weights.
    output: Option<DynValue>,
    binding: Option<Binding>,
    session: Arc<Mutex<Session>>,
    _weights: Option<Arc<SharedWeights>>,
    reading: SessionReading,
    options: RunOptions<HasSelectedOutputs>,
    padded: PaddedBatch,
    inputs: Inputs,
    converted: Vec<f32>,
    /// The remedy for exhausted memory.
    remedy: fn() -> String,
}

impl OrtWorker {
    pub(super) fn new(
        session: Arc<Mutex<Session>>,
        weights: Option<Arc<SharedWeights>>,
        reading: SessionReading,
    ) -> Result<Self, ort::Error> {
        let outputs = OutputSelector::no_default().with(reading.output());
        Ok(Self {
            output: None,
            binding: None,
            session,
            _weights: weights,
            options: RunOptions::new()?.with_outputs(outputs),
            padded: PaddedBatch::default(),
            inputs: Inputs::new(&reading),
            reading,
            converted: Vec::new(),
            remedy: remedies::more_memory,
        })
    }

    /// One of a device beside the processor.
    pub(super) fn of_device(mut self) -> Self {
        self.remedy = || format!("take {PROVIDER} cpu, which uses the machine's own memory");
        self
    }

    /// Hands inputs over to the device as they are bound, and takes the output from `memory`.
    pub(super) fn bind(&mut self, memory: super::binding::OutputMemory) -> Result<(), ort::Error> {
        let session = locked(&self.session);
        self.binding = Some(Binding::new(&session, memory)?);
        Ok(())
    }

    /// Undoes [`OrtWorker::bind`].
    pub(super) fn unbind(&mut self) {
        let _session = locked(&self.session);
        self.output = None;
        self.binding = None;
    }

    /// Runs the padded batch.
    fn infer(&mut self) -> Result<DynValue, ort::Error> {
        let batch = &self.padded;
        // The last output goes first, so that its memory can be used again.
        self.output = None;
        let name = self.reading.output();
        let inputs = self.inputs.values(batch, self.binding.is_some())?;
        let mut session = locked(&self.session);
        if let Some(binding) = &mut self.binding {
            return binding.run(&mut session, &inputs, name, [batch.rows, batch.length]);
        }
        let inputs: Vec<_> = inputs
            .into_iter()
            .map(|input| (input.name, input.value))
            .collect();
        let mut outputs = session.run_with_options(inputs, &self.options)?;
        outputs.remove(name).ok_or_else(|| missing(name))
    }
}

/// The output's elements as f32 and its shape; `converted` is memory for elements of another type.
fn read<'a>(
    reading: &SessionReading,
    output: Option<&'a DynValue>,
    converted: &'a mut Vec<f32>,
) -> Result<(Vec<usize>, &'a [f32])> {
    let output = output.expect("called after a run");
    let element = match reading.pooling {
        Some(_) => ElementType::F32,
        None => reading.feeds.element,
    };
    let (shape, elements) = match element {
        ElementType::F16 => {
            let (shape, states) = output.try_extract_tensor::<f16>().map_err(unexpected)?;
            converted.resize(states.len(), 0.0);
            states.convert_to_f32_slice(converted);
            (shape, converted.as_slice())
        }
        ElementType::Bf16 => {
            let (shape, states) = output.try_extract_tensor::<bf16>().map_err(unexpected)?;
            converted.resize(states.len(), 0.0);
            states.convert_to_f32_slice(converted);
            (shape, converted.as_slice())
        }
        ElementType::F64 => {
            let (shape, states) = output.try_extract_tensor::<f64>().map_err(unexpected)?;
            converted.clear();
            #[allow(clippy::cast_possible_truncation)] // truncation is intended
            converted.extend(states.iter().map(|&state| state as f32));
            (shape, converted.as_slice())
        }
        _ => output.try_extract_tensor::<f32>().map_err(unexpected)?,
    };
    let shape = shape
        .iter()
        .map(|&size| usize::try_from(size).unwrap_or(0))
        .collect();
    Ok((shape, elements))
}

/// Whether the library's message means that a smaller batch may work. It has no error code for that.
fn says_too_large(words: &str) -> bool {
    let lower = words.to_ascii_lowercase();
    [
        "out of memory",
        "failed to allocate memory",
        "bfc_arena",
        "bfcarena",
        "bad_alloc",
        "cuda_error_out_of_memory",
        "cublas_status_alloc_failed",
        // DirectML: E_OUTOFMEMORY.
        "8007000e",
        "not enough memory",
        // WebGPU: a tensor larger than one bound buffer may be.
        "exceeds the max buffer size",
        "maxbuffersize",
        "maxstoragebufferbindingsize",
        "not present in the bind group layout",
    ]
    .iter()
    .any(|sign| lower.contains(sign))
}

impl Worker for OrtWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.padded.fill(batch, self.reading.feeds.padding_id);
        let (rows, length) = (self.padded.rows, self.padded.length);
        self.inputs.weigh(batch, length);
        let output = self.infer().map_err(|error| {
            let words = with_causes(&error);
            let reason =
                format!("running a batch of {rows} rows of {length} tokens failed: {words}");
            if says_too_large(&words) {
                Error::new(ErrorKind::OutOfMemory, NAME, reason).with_remedy((self.remedy)())
            } else {
                engine_error(reason)
            }
        })?;
        self.output = Some(output);
        let reading = self.reading.clone();
        let (shape, elements) = read(&reading, self.output.as_ref(), &mut self.converted)?;
        if reading.pooling.is_some() {
            return match shape[..] {
                [out, width] if out == rows && width > 0 => Ok(Output::Pooled {
                    rows: elements,
                    width,
                }),
                _ => Err(engine_error(format!(
                    "the pooled rows came out with the shape {shape:?} where [{rows}, width] was expected"
                ))),
            };
        }
        let width = reading
            .feeds
            .width(&shape, &self.padded)
            .map_err(engine_error)?;
        Ok(reading.feeds.wrap(elements, &self.padded, width))
    }
}

impl Drop for OrtWorker {
    fn drop(&mut self) {
        // Bound tensors may lie in the device's memory, which only one thread at a time may touch.
        self.unbind();
    }
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn unexpected(error: ort::Error) -> Error {
    engine_error(format!(
        "the output is not of the declared type: {}",
        with_causes(&error)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_is_told_from_other_failures() {
        for words in [
            "Non-zero status code returned while running MatMul node. Name:'/m/MatMul' Status Message: \
             /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* \
             onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) Failed to \
             allocate memory for requested buffer of size 3221225472",
            "CUDA failure 2: out of memory ; GPU=0 ; hostname=h",
            "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED",
            "std::bad_alloc",
            "Status Message: 8007000E Not enough memory resources are available",
            "WebGPU validation failed. In entries[1], binding index 1 not present in the bind group layout.",
        ] {
            assert!(says_too_large(words), "{words}");
        }
        for words in [
            "CUDA failure 700: an illegal memory access was encountered",
            "indices element out of data bounds, idx=1048576 must be within the inclusive range [-30522,30521]",
        ] {
            assert!(!says_too_large(words), "{words}");
        }
    }
}
