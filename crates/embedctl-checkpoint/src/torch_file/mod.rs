//! Small files of `torch.save`: a ZIP archive of a pickle and of the tensors' numbers. Nothing in them is executed: a
//! pickle that asks for more than a dictionary of tensors is refused.

mod archive;
mod pickle;
#[cfg(test)]
#[path = "torch_file_tests.rs"]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use archive::Archive;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;
use embedctl_vectors::elements::widen;

/// A file that is larger holds more than the head of a model.
const MOST_BYTES: u64 = 1 << 28;

/// A tensor of such a file.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedTensor {
    /// Its sides.
    pub shape: Vec<usize>,
    /// Its numbers, row-major.
    pub values: Vec<f32>,
}

/// Reads the dictionary of tensors that `torch.save` has written, such as the `state_dict` of a layer: `names` are all that
/// it may hold.
///
/// # Errors
/// If the file cannot be read, is of another form, holds a tensor of another name, or something else than tensors of
/// float32, float16 or bfloat16 whose numbers follow one another.
pub fn read(path: &Path, names: &[&str]) -> Result<BTreeMap<String, SavedTensor>> {
    let bytes =
        small_file::read(path, MOST_BYTES).map_err(|error| Error::io("read", path, error))?;
    if let Some(pointer) = small_file::lfs_pointer(&bytes) {
        return Err(Error::model(path.display(), pointer));
    }
    tensors(&bytes, names).map_err(|reason| {
        Error::model(path.display(), reason).with_remedy(
            "fetch it again; if it is as it should be, save it anew with Python: \
             torch.save(torch.load(path, weights_only=True, map_location='cpu'), path)",
        )
    })
}

/// The tensors of an archive, or the reason why it is refused.
fn tensors(bytes: &[u8], names: &[&str]) -> Result<BTreeMap<String, SavedTensor>, String> {
    let archive = Archive::read(bytes)?;
    if archive.get("byteorder").is_ok_and(|it| it != b"little") {
        return Err("holds numbers whose first byte is the highest".into());
    }
    let places = pickle::tensors(archive.get("data.pkl")?)?;
    if let Some(other) = places.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(format!(
            "has a tensor '{other}', but only {} are expected",
            names.join(" and ")
        ));
    }
    let mut found = BTreeMap::new();
    // Several tensors may lie in the same bytes, but no file needs that of all its bytes.
    let mut left = bytes.len();
    for (name, tensor) in places {
        let elements = tensor
            .shape
            .iter()
            .try_fold(1_usize, |all, &side| all.checked_mul(side));
        let size = tensor.element.size();
        let own = elements.and_then(|elements| {
            let start = tensor.offset.checked_mul(size)?;
            Some(start..start.checked_add(elements.checked_mul(size)?)?)
        });
        let storage = archive.get(&format!("data/{}", tensor.storage))?;
        let numbers = own.and_then(|own| storage.get(own));
        let numbers =
            numbers.ok_or_else(|| format!("has fewer numbers than its tensor '{name}'"))?;
        left = left
            .checked_sub(numbers.len())
            .ok_or("has tensors that together are larger than the file")?;
        let mut values = vec![0.0; numbers.len() / size];
        widen(tensor.element, numbers, &mut values);
        let shape = tensor.shape;
        found.insert(name, SavedTensor { shape, values });
    }
    Ok(found)
}
