//! Loads the weights of gated delta rules.

use super::Loader;
use crate::delta_rule::DeltaWeights;
use embedctl_checkpoint::architecture::DeltaRule;
use embedctl_common::error::Result;

impl Loader<'_> {
    /// The gated delta rule of a layer; `layer` as in [`Loader::norm`].
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn delta_rule(&self, layer: [&str; 2], rule: DeltaRule) -> Result<DeltaWeights> {
        let names = &self.architecture.names.delta_rule;
        let of_heads = |name: &str| {
            let tensor = self.tensor(&format!("{}{name}", layer[0]), &[rule.value_heads])?;
            tensor.floats()
        };
        let filters = format!("{}{}", layer[0], names.filters);
        let [mixed, ..] = rule.inputs();
        let filters = self.filters(&filters, mixed, rule.tokens)?;
        let norm = self.norm(layer, names.norm, rule.norm, rule.value_size)?;
        let (decay, step) = (of_heads(names.decay)?, of_heads(names.step)?);
        Ok(DeltaWeights::new(rule, filters, &decay, step, norm))
    }
}
