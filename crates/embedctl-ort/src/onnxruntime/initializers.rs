//! The weights of a graph that was built, given to its session from memory.

use std::sync::Arc;

use ort::session::builder::SessionBuilder;
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor};

use crate::built::{DeclaredWeight, FloatType};
use embedctl_common::atomic::ScratchFolder;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::with_causes;
use embedctl_native::PlainNetwork;

/// Weights of a graph that was built, as tensors of their own memory, by name.
pub(super) type WeightTensors = Vec<(String, Arc<DynValue>)>;

/// Reads the weights of a graph that was built, one after another.
pub(super) fn read_weights(
    network: &PlainNetwork,
    weights: &[DeclaredWeight],
    cancel: &CancelToken,
) -> Result<WeightTensors, ort::Error> {
    let mut tensors = Vec::with_capacity(weights.len());
    for weight in weights {
        if cancel.is_cancelled() {
            return Err(ort::Error::new("interrupted"));
        }
        let value = match weight.element {
            FloatType::F32 => tensor_of::<f32>(network, weight),
            FloatType::F16 => tensor_of::<half::f16>(network, weight),
            FloatType::Bf16 => tensor_of::<half::bf16>(network, weight),
        }?;
        tensors.push((weight.name.clone(), Arc::new(value)));
    }
    network.check_unchanged().map_err(|error| failed(&error))?;
    Ok(tensors)
}

/// Gives a builder weights; its session copies them.
pub(super) fn give_weights(
    mut builder: SessionBuilder,
    tensors: &[(String, Arc<DynValue>)],
) -> Result<SessionBuilder, ort::Error> {
    for (name, value) in tensors {
        builder = builder.with_external_initializer(name, Arc::clone(value))?;
    }
    Ok(builder)
}

/// The file that stands for weights which are [lent](lend_weights).
pub(super) const LENT: &str = "weights.bin";

/// Gives a builder weights that its session uses where they are, however many sessions have them. The library takes only
/// initializers of a file by reference, and checks that there is one: the returned folder has it until the session is
/// loaded. It holds one byte, so a weight that the library reads from it after all is an error.
pub(super) fn lend_weights(
    builder: SessionBuilder,
    tensors: &[(String, Arc<DynValue>)],
) -> Result<(SessionBuilder, ScratchFolder), ort::Error> {
    let io = |error: std::io::Error| {
        ort::Error::new(format!("cannot create a temporary folder: {error}"))
    };
    let folder = ScratchFolder::new(super::FOLDER_PREFIX).map_err(io)?;
    std::fs::write(folder.path().join(LENT), [0]).map_err(io)?;
    let mut builder = builder.with_config_entry(
        "session.model_external_initializers_file_folder_path",
        folder.path().to_string_lossy(),
    )?;
    for (name, value) in tensors {
        builder = builder.with_initializer(name, Arc::clone(value))?;
    }
    Ok((builder, folder))
}

fn failed(error: &embedctl_common::Error) -> ort::Error {
    ort::Error::new(with_causes(error))
}

/// A weight as a tensor of its own memory. `T` is its number type, and any bits are one of its numbers.
fn tensor_of<T>(network: &PlainNetwork, weight: &DeclaredWeight) -> Result<DynValue, ort::Error>
where
    T: PrimitiveTensorElementType + Copy + Default + std::fmt::Debug + 'static,
{
    let mut values = vec![T::default(); weight.dims.iter().product()];
    let length = size_of_val(values.as_slice());
    assert_eq!(length, weight.bytes(), "the weight's own number type");
    // SAFETY: the numbers are plain, as many bytes as said, and borrowed by nobody else meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), length) };
    weight
        .read(network, bytes)
        .map_err(|error| failed(&error))?;
    Ok(Tensor::from_array((weight.dims.clone(), values))?.into_dyn())
}
