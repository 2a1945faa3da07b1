//! Inputs and outputs bound to a device's memory, for providers that have their own.
//!
//! Inputs that do not change from batch to batch (`token_type_ids`, empty caches) are sent to the device once for each
//! shape. The output is asked for in memory that the processor can read and the device can write to at full speed,
//! where the provider has such memory.

use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, Session};
use ort::value::DynValue;

use super::inputs::InputValue;
use embedctl_engine::Provider;

/// Where a bound output is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputMemory {
    /// The processor's memory.
    Plain,
    /// The processor's memory, pinned for a CUDA device.
    CudaPinned(i32),
}

impl OutputMemory {
    /// The places to try for `provider`, the best first.
    pub(super) fn candidates(provider: Provider, device: u32) -> Vec<Self> {
        match (provider, i32::try_from(device)) {
            (Provider::Cuda | Provider::TensorRt, Ok(device)) => {
                vec![Self::CudaPinned(device), Self::Plain]
            }
            _ => vec![Self::Plain],
        }
    }

    fn info(self) -> Result<MemoryInfo<'static>, ort::Error> {
        match self {
            Self::Plain => MemoryInfo::new(
                AllocationDevice::CPU,
                0,
                AllocatorType::Device,
                MemoryType::CPUOutput,
            ),
            Self::CudaPinned(device) => MemoryInfo::new(
                AllocationDevice::CUDA_PINNED,
                device,
                AllocatorType::Arena,
                MemoryType::CPUOutput,
            ),
        }
    }
}

/// One worker's binding to a session.
pub(super) struct Binding {
    binding: IoBinding,
    output: MemoryInfo<'static>,
    /// Shape for which unchanging inputs are bound.
    shape: Option<[usize; 2]>,
}

impl Binding {
    pub(super) fn new(session: &Session, memory: OutputMemory) -> Result<Self, ort::Error> {
        Ok(Self {
            binding: session.create_binding()?,
            output: memory.info()?,
            shape: None,
        })
    }

    /// Runs a batch of `shape` and returns the output named `name`.
    pub(super) fn run(
        &mut self,
        session: &mut Session,
        inputs: &[InputValue<'_>],
        name: &str,
        shape: [usize; 2],
    ) -> Result<DynValue, ort::Error> {
        let known = self.shape.take() == Some(shape);
        for input in inputs.iter().filter(|input| !(known && input.fixed)) {
            self.binding.bind_input(input.name, &input.value)?;
        }
        // Bound anew for every batch: the library would write the next one into the last one's tensor,
        // whose shape is another.
        self.binding.bind_output_to_device(name, &self.output)?;
        let value = session.run_binding(&self.binding)?.remove(name);
        // Only now is everything in place: a failure binds all of it again.
        self.shape = Some(shape);
        value.ok_or_else(|| missing(name))
    }
}

pub(super) fn missing(output: &str) -> ort::Error {
    ort::Error::new(format!("the output '{output}' is missing"))
}
