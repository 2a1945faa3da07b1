//! Files and objects at addresses, listed, read and written alike.

pub use embedctl_storage::*;

#[cfg(feature = "cloud")]
pub use embedctl_cloud::open;

#[cfg(not(feature = "cloud"))]
pub use absent::open;

#[cfg(not(feature = "cloud"))]
mod absent {
    use super::{Storage, StorageOption};
    use crate::cancel::CancelToken;
    use crate::error::{Error, Result};
    use crate::hub::HubSettings;
    use embedctl_common::setting::FULL;

    /// # Errors
    /// Always: this build has no object stores.
    pub fn open(_: HubSettings, _: Vec<StorageOption>, _: &CancelToken) -> Result<Storage> {
        Err(Error::usage(
            "this embedctl was built without object stores (s3://, gs://, az://, https://, hf://)",
        )
        .with_remedy(format!("{FULL}; or copy the files here")))
    }
}
