//! One list of GPUs from two sources: Windows knows all of them and DirectML's numbers, NVIDIA's driver knows more
//! about its own and CUDA's numbers.

use super::Gpu;

/// The GPUs `listed` in their order, with the details in `known`, then GPUs that are only in `known`.
pub(super) fn merge(listed: Vec<Gpu>, mut known: Vec<Gpu>) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = listed
        .into_iter()
        .map(|gpu| {
            // Equal cards stand in the order of the bus in both lists. Windows writes "NVIDIA" before a
            // name, and older drivers don't.
            let same = |other: &Gpu| {
                other.vendor == gpu.vendor
                    && (gpu.name.ends_with(&other.name) || other.name.ends_with(&gpu.name))
            };
            match known.iter().position(same) {
                Some(index) => Gpu {
                    directml_number: gpu.directml_number,
                    ..known.remove(index)
                },
                None => gpu,
            }
        })
        .collect();
    gpus.append(&mut known);
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Vendor;

    fn gpu(name: &str, number: Option<u32>, directml_number: Option<u32>) -> Gpu {
        let vendor = if name.contains("Intel") {
            Vendor::Intel
        } else {
            Vendor::Nvidia
        };
        Gpu {
            number,
            directml_number,
            ..Gpu::new(vendor, name.to_owned())
        }
    }

    #[test]
    fn a_card_that_both_know_stands_once() {
        let listed = vec![
            gpu("NVIDIA RTX A4000", None, Some(0)),
            gpu("NVIDIA RTX A4000", None, Some(1)),
            gpu("Intel(R) UHD Graphics", None, Some(2)),
        ];
        let known = vec![
            gpu("NVIDIA A100", Some(0), None), // without a driver for graphics, Windows doesn't list it
            gpu("RTX A4000", Some(1), None),
            gpu("RTX A4000", Some(2), None),
        ];
        let numbers: Vec<_> = merge(listed, known)
            .iter()
            .map(|gpu| (gpu.directml_number, gpu.number))
            .collect();
        assert_eq!(
            numbers,
            [
                (Some(0), Some(1)),
                (Some(1), Some(2)),
                (Some(2), None),
                (None, Some(0)),
            ]
        );
    }
}
