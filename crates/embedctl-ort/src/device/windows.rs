//! GPUs as Windows lists them (DXGI), and its memory.

use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIAdapter1, IDXGIFactory1,
};

use super::{Gpu, Vendor};

/// An adapter and its place in DXGI's order, which is DirectML's device number.
struct DxgiAdapter {
    index: u32,
    gpu: Gpu,
}

/// The GPUs, that with the most memory of its own first: their places are their numbers.
pub(super) fn gpus() -> Vec<Gpu> {
    adapters().into_iter().map(|adapter| adapter.gpu).collect()
}

/// DXGI's index of the adapter that is device `number` here: DirectML takes the former, users give the latter.
#[must_use]
pub fn adapter_index(number: u32) -> Option<u32> {
    let adapters = adapters();
    Some(adapters.get(usize::try_from(number).ok()?)?.index)
}

fn adapters() -> Vec<DxgiAdapter> {
    // SAFETY: creates an object that is counted and released by its owner; there are no preconditions.
    let Ok(factory) = (unsafe { CreateDXGIFactory1::<IDXGIFactory1>() }) else {
        return Vec::new();
    };
    let mut adapters: Vec<DxgiAdapter> = (0..)
        // SAFETY: the factory is alive; an index beyond the last is an error, which ends the list.
        .map_while(|index| Some((index, unsafe { factory.EnumAdapters1(index) }.ok()?)))
        .filter_map(|(index, adapter)| {
            let gpu = gpu(&adapter)?;
            Some(DxgiAdapter { index, gpu })
        })
        .collect();
    // Stable, so that equals keep DXGI's order: the one with the screen first.
    adapters.sort_by_key(|adapter| std::cmp::Reverse(adapter.gpu.memory));
    for (number, adapter) in (0..).zip(&mut adapters) {
        adapter.gpu.directml_number = Some(number);
    }
    adapters
}

fn gpu(adapter: &IDXGIAdapter1) -> Option<Gpu> {
    // SAFETY: the adapter is alive.
    let description = unsafe { adapter.GetDesc1() }.ok()?;
    let software = DXGI_ADAPTER_FLAG_SOFTWARE.0.cast_unsigned();
    if description.Flags & software != 0 {
        return None; // Windows' own renderer, on the processor
    }
    let name = String::from_utf16_lossy(&description.Description);
    let name = name.trim_end_matches('\0').to_owned();
    let mut gpu = Gpu::new(Vendor::of_pci(description.VendorId), name);
    gpu.memory = u64::try_from(description.DedicatedVideoMemory).ok();
    Some(gpu)
}
