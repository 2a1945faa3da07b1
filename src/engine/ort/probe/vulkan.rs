//! Which devices Vulkan offers: WebGPU runs on one of them, and says nothing of it.

use super::report::ProviderReport;

/// Fills in what WebGPU runs on.
pub(super) fn describe(report: &mut ProviderReport) {
    let _ = report;
}
