//! Vectors of several kinds in one pass: each layer works on the same states of tokens.

use crate::Model;
use crate::options::ModelOptions;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::VECTORS;
use embedctl_rows::{ModelConfig, OutputChoice};
use embedctl_vectors::RowForm;

impl ModelOptions {
    /// The options for vectors of each form alone, in the order of columns, where several are asked for.
    pub(crate) fn of_each_form(&self) -> Vec<Self> {
        let asked = |form: &RowForm| self.vectors.contains(form);
        let forms = RowForm::of_vectors().into_iter().filter(asked);
        let forms: Vec<RowForm> = forms.collect();
        if forms.len() < 2 {
            return Vec::new();
        }
        let of_form = |form: RowForm| {
            let mut options = self.clone();
            if !form.is_dense() {
                options.pooling = None;
                options.normalize = None;
                options.dimensions = Vec::new();
            }
            options.max_active_dims = (self.max_active_dims).filter(|_| form.is_sparse());
            options.pool_factor = self.pool_factor.filter(|_| !form.is_one_per_row());
            options.vectors = vec![form];
            options
        };
        forms.into_iter().map(of_form).collect()
    }
}

impl Model {
    /// The model for several kinds of vectors, of the same model opened for each of them: the first with the
    /// configurations of all others.
    ///
    /// # Errors
    /// If one of them does not work on the same states of tokens.
    pub(crate) fn joined(models: Vec<Self>, options: &ModelOptions) -> Result<Self> {
        let mut models = models.into_iter();
        let first = models.next();
        let mut first = first.ok_or_else(|| Error::internal("several kinds, but none"))?;
        check_shares_states(&first.config, &first, options)?;
        for other in models {
            check_shares_states(&other.config, &first, options)?;
            let notes = other.notes.into_iter();
            let new: Vec<String> = notes.filter(|it| !first.notes.contains(it)).collect();
            first.notes.extend(new);
            first.onnx = first.onnx.and_then(|onnx| other.onnx.map(|_| onnx));
            first.config.beside.push(other.config);
        }
        first.options = options.clone();
        Ok(first)
    }
}

/// Checks that vectors are made of the same states of tokens as those of `first`.
fn check_shares_states(config: &ModelConfig, first: &Model, options: &ModelOptions) -> Result<()> {
    let shared = &first.config;
    let makes_logits =
        (config.sparse.as_ref()).is_some_and(|kind| kind.terms.is_some() || kind.by_token);
    let why = if makes_logits {
        "its sparse vectors are made of logits, not of states of tokens"
    } else if !matches!(config.output, OutputChoice::Tokens(_)) || config.output != shared.output {
        "its network gives finished vectors, but no states of tokens that each kind is made of"
    } else if config.max_length != shared.max_length
        || config.prompt != shared.prompt
        || config.frame != shared.frame
        || config.truncation_side != shared.truncation_side
    {
        "its kinds of vectors are made of other tokens of a text each"
    } else {
        return Ok(());
    };
    let kinds: Vec<&str> = options.vectors.iter().map(RowForm::name).collect();
    Err(Error::model(
        &first.id,
        format!(
            "cannot give {VECTORS} {} in one pass: {why}",
            kinds.join(",")
        ),
    )
    .with_remedy("embed each kind in a run of its own"))
}
