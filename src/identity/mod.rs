//! What decides a vector of an output: the identity that [`embedctl_engine::identity`] builds and compares, with the output's
//! part, and the provenance in which it stands.

pub mod provenance;
#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;

pub use embedctl_engine::identity::*;

use crate::error::Result;
use crate::model::Model;
use crate::output::OutputOptions;

/// The identity of the vectors that `model` gives and `output` holds, as far as it is known before an engine is open.
///
/// # Errors
/// If the output's format is not known, or does not hold its type.
pub(crate) fn of_output(model: &Model, output: &OutputOptions) -> Result<VectorIdentity> {
    // An option that is added to an output decides here whether it changes values.
    let OutputOptions {
        dtype: _, // resolved below, with the format
        calibration,
        destination: _,
        format: _,
        force: _,
        vector_type: _,
        embedding_field: _,
        nullable: _,
        streams: _,
        sparse_tokens: _, // the same weights under other names
        names_files: _,   // a field beside the vectors
    } = output;
    let calibration = calibration.as_ref();
    Ok(VectorIdentity {
        dtype: Some(output.resolved_dtype()?.name().to_owned()),
        calibration: calibration.map(|ranges| ranges.hash().hex().into()),
        ..VectorIdentity::new(model)
    })
}
