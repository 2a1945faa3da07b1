//! The forms of a row's numbers in an output: which options are about which form, whether a format holds it, and how a
//! provenance describes it.

use serde_json::{Map, Value};

use super::format::{OutputFacts, OutputFormat};
use super::options::{OutputOptions, VectorType};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{
    CALIBRATION, DTYPE, OUTPUT_FORMAT, SPARSE_TOKENS, VECTOR_TYPE, VECTORS,
};
use embedctl_records::quantize::Dtype;
use embedctl_vectors::{Forms, RowForm, Terms};

/// Key of a provenance that says how sparse vectors stand in an output.
const SPARSE_FORM: &str = "sparse_form";

/// Its value where they stand as indices and values.
const BY_INDEX: &str = "indices";

/// Its value where they are maps from tokens to weights.
const BY_TOKEN: &str = "tokens";

/// Key of a provenance that says how many vectors a row has.
const VECTOR_FORM: &str = "vector_form";

/// Its value where each token of a row has a vector.
const OF_TOKENS: &str = "tokens";

/// Adds to a provenance how numbers of this form were written.
pub(crate) fn describe(form: &RowForm, provenance: &mut Map<String, Value>) {
    let (key, value) = match form {
        RowForm::Dense(_) | RowForm::Scores(_) => return,
        RowForm::Sparse(_) if form.maps().is_some() => (SPARSE_FORM, BY_TOKEN),
        RowForm::Sparse(_) => (SPARSE_FORM, BY_INDEX),
        RowForm::Tokens(_) => (VECTOR_FORM, OF_TOKENS),
    };
    provenance.insert(key.to_owned(), value.into());
}

/// The form of the vectors that a provenance describes, without sizes; `None` where they are not read back: maps from tokens
/// to weights, and sparse vectors of an unknown width.
pub(crate) fn recorded_form(provenance: &Value) -> Option<RowForm> {
    match provenance[SPARSE_FORM].as_str() {
        Some(BY_INDEX) => provenance["dimensions"]
            .is_u64()
            .then(|| RowForm::Sparse(Terms::default())),
        Some(_) => None,
        None if provenance[VECTOR_FORM] == OF_TOKENS => Some(RowForm::Tokens(0)),
        None => Some(RowForm::Dense(vec![0])),
    }
}

/// The formats that fit, as a remedy.
fn choose(fits: impl Fn(&OutputFacts) -> bool) -> String {
    let formats = OutputFormat::all().filter(|format| fits(&format.facts()));
    let names: Vec<String> = formats.map(|it| format!("{OUTPUT_FORMAT} {it}")).collect();
    format!("choose {}", names.join(", "))
}

impl OutputOptions {
    /// The options as they are meant for one of several forms. An option is about the forms that know it, and is refused
    /// where there is none.
    pub(crate) fn of_form(&self, form: &RowForm, forms: &Forms) -> Self {
        let mut options = self.clone();
        if !forms.are_several() {
            return options;
        }
        if form.is_sparse() {
            options.dtype = None;
            options.calibration = None;
        } else if forms.has(RowForm::is_sparse) {
            options.sparse_tokens = false;
        }
        if !form.is_dense() && forms.has(RowForm::is_dense) {
            options.vector_type = None;
        }
        options
    }

    /// Checks that the format holds numbers of these forms, as they are asked for.
    ///
    /// # Errors
    /// If it does not; the remedy names what does.
    pub fn check_forms(&self, forms: &Forms) -> Result<()> {
        if forms.are_several() {
            self.check_several()?;
        }
        let mut all = forms.all().iter();
        all.try_for_each(|form| self.of_form(form, forms).check_form(form))
    }

    /// Checks that the format holds several kinds of vectors.
    ///
    /// # Errors
    /// If it does not; the remedy names what does.
    pub fn check_several(&self) -> Result<()> {
        let format = self.resolved_format()?;
        if format.facts().holds_several_kinds() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{VECTORS}: {format} output holds one kind of vectors, but several are asked for"
        ))
        .with_remedy(format!(
            "{}, or one kind",
            choose(OutputFacts::holds_several_kinds)
        )))
    }

    fn check_form(&self, form: &RowForm) -> Result<()> {
        let format = self.resolved_format()?;
        if form.is_sparse() {
            return self.check_sparse(form, format);
        }
        let facts = format.facts();
        if facts.holds_sparse_alone() {
            return Err(Error::usage(format!(
                "{format} output holds sparse vectors, but this model's are given in full"
            ))
            .with_remedy(format!("choose {OUTPUT_FORMAT} npy or another format")));
        }
        if self.sparse_tokens {
            return Err(Error::usage(format!(
                "{SPARSE_TOKENS} is about sparse vectors, but this model's are given in full"
            ))
            .with_remedy("leave it out"));
        }
        if !facts.holds(form) {
            return Err(Error::usage(format!(
                "{format} output holds one vector for a row, but this model gives one for each token"
            ))
            .with_remedy(choose(|it| it.holds(form))));
        }
        if !form.is_one_per_row() && self.vector_type == Some(VectorType::List) {
            return Err(Error::usage(format!(
                "{VECTOR_TYPE} list: the vectors of a row's tokens are lists of fixed size in a list"
            ))
            .with_remedy("leave it out"));
        }
        Ok(())
    }

    fn check_sparse(&self, form: &RowForm, format: OutputFormat) -> Result<()> {
        let facts = format.facts();
        if !facts.holds(form) {
            return Err(Error::usage(format!(
                "{format} output holds vectors in full, but this model's are sparse"
            ))
            .with_remedy(choose(|it| it.holds(form))));
        }
        if self.sparse_tokens && !facts.holds_terms {
            return Err(Error::usage(format!(
                "{SPARSE_TOKENS}: {format} output holds indices, not terms"
            ))
            .with_remedy(choose(|it| it.holds_terms)));
        }
        let dense = [
            (DTYPE, self.dtype.is_some_and(|dtype| dtype != Dtype::F32)),
            (VECTOR_TYPE, self.vector_type.is_some()),
            (CALIBRATION, self.calibration.is_some()),
        ];
        match dense.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Error::usage(format!(
                "{option} is about vectors in full, but this model's are sparse: their values are float32"
            ))
            .with_remedy("leave it out")),
            None => Ok(()),
        }
    }
}
