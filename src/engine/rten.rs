//! rten, where this build has it.

#[cfg(feature = "rten")]
pub use embedctl_rten::{VERSION, check, open};

#[cfg(not(feature = "rten"))]
pub use absent::{VERSION, check, open};

#[cfg(not(feature = "rten"))]
mod absent {
    use crate::cancel::CancelToken;
    use crate::engine::{Engine, Provider, ResolvedEngine, SkippedCandidate};
    use crate::error::{Error, ErrorKind, Result};
    use crate::model::Model;
    use embedctl_common::setting::{FULL, PROVIDER};
    use embedctl_ort::provider::ProviderReport;

    const ABSENT: &str = "this build of embedctl was made without it";

    fn remedy() -> String {
        format!("{FULL}; or install ONNX Runtime (pip install onnxruntime) and take {PROVIDER} cpu")
    }

    /// No version.
    pub const VERSION: &str = "";

    /// That it is absent.
    #[must_use]
    pub fn check() -> ProviderReport {
        ProviderReport {
            built_in: false,
            remedy: Some(remedy()),
            ..ProviderReport::refused(Provider::Rten, ABSENT)
        }
    }

    /// # Errors
    /// Always: it is absent.
    pub fn open(
        _: &Model,
        _: &ResolvedEngine,
        _: &[SkippedCandidate],
        _: &CancelToken,
    ) -> Result<Box<dyn Engine>> {
        Err(Error::new(ErrorKind::Provider, "rten", ABSENT).with_remedy(remedy()))
    }
}
