//! CUDA's numbers of the GPUs that NVIDIA's library lists: `CUDA_VISIBLE_DEVICES` hides and renumbers them.

/// CUDA's number for each of the devices `uuids`, which stand in the order of the PCI bus; `None` for one
/// that `mask`, the value of `CUDA_VISIBLE_DEVICES`, hides.
///
/// The mask is a list of numbers and of beginnings of UUIDs. CUDA reads it up to the first invalid entry.
pub(super) fn cuda_numbers(mask: Option<&str>, uuids: &[&str]) -> Vec<Option<u32>> {
    let Some(mask) = mask else {
        return (0..).map(Some).take(uuids.len()).collect();
    };
    let mut numbers = vec![None; uuids.len()];
    for (number, entry) in (0..).zip(mask.split(',').map(str::trim)) {
        let index = match entry.parse::<usize>() {
            Ok(index) => index,
            // A slice of a device: it takes a number, but its device is unknown.
            Err(_) if entry.starts_with("MIG-") => continue,
            Err(_) if entry.starts_with("GPU-") => {
                let mut matches = (0..uuids.len()).filter(|&index| uuids[index].starts_with(entry));
                match (matches.next(), matches.next()) {
                    (Some(index), None) => index,
                    _ => break,
                }
            }
            Err(_) => break,
        };
        match numbers.get_mut(index) {
            Some(slot @ None) => *slot = Some(number),
            _ => break,
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUIDS: [&str; 4] = ["GPU-aa01", "GPU-aa02", "GPU-bb03", "GPU-cc04"];

    fn numbers(mask: &str) -> Vec<Option<u32>> {
        cuda_numbers(Some(mask), &UUIDS)
    }

    #[test]
    fn without_a_mask_all_are_seen_in_their_order() {
        assert_eq!(
            cuda_numbers(None, &UUIDS),
            [Some(0), Some(1), Some(2), Some(3)]
        );
        assert_eq!(cuda_numbers(None, &[]), []);
    }

    #[test]
    fn a_mask_hides_and_renumbers() {
        assert_eq!(numbers("3,1"), [None, Some(1), None, Some(0)]);
        assert_eq!(numbers("GPU-cc, GPU-aa02"), [None, Some(1), None, Some(0)]);
        assert_eq!(numbers("MIG-77,0"), [Some(1), None, None, None]);
    }

    #[test]
    fn a_mask_ends_at_the_first_entry_that_means_nothing() {
        for nothing in ["", "-1", "none", "9,0", "GPU-aa,0", "GPU-zz", "NoDevFiles"] {
            assert_eq!(numbers(nothing), [None; 4], "{nothing}");
        }
        assert_eq!(numbers("2,-1,0"), [None, None, Some(0), None]);
        assert_eq!(numbers("1,1,2"), [None, Some(0), None, None]);
    }
}
