//! What writers of all formats work with: options, vectors in their types, columns of tables, hashes, and files that
//! get their names together.

pub mod background;
pub(crate) mod calibration;
pub(crate) mod encoding;
pub mod fault;
pub(crate) mod format;
pub(crate) mod forms;
mod handle;
pub(crate) mod layout;
pub(crate) mod made;
pub(crate) mod npy;
pub(crate) mod options;
pub(crate) mod overlap;
pub(crate) mod place;
pub mod proof;
pub(crate) mod refused;
pub mod rejects;
mod remote;
pub(crate) mod run_files;
pub(crate) mod sidecar;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod writer;
