//! What decides a vector of an output: the identity that [`embedctl_engine::identity`] builds and compares, with the output's
//! part, and the provenance in which it stands.

pub mod provenance;

pub use embedctl_engine::identity::*;

use crate::error::Result;
use crate::model::Model;
use crate::output::OutputOptions;

/// The identity of the vectors that `model` gives and `output` holds, as far as it is known before an engine is open.
///
/// # Errors
/// If the output's format is not known, or does not hold its type.
pub fn of_output(model: &Model, output: &OutputOptions) -> Result<VectorIdentity> {
    // `pipeline::fingerprint` asks of each option that is added to an output whether it changes values; such a one belongs here.
    let calibration = output.calibration.as_ref();
    Ok(VectorIdentity {
        dtype: Some(output.resolved_dtype()?.name().to_owned()),
        calibration: calibration.map(|ranges| ranges.hash().hex().into()),
        ..VectorIdentity::new(model)
    })
}
