//! The form of a row's numbers: what they are, how wide, and in which columns they stand. The numbers themselves are
//! [`RowVectors`], a part for each form.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

use embedctl_common::error::Cause;
use embedctl_common::named;
use embedctl_common::threads::locked;

use super::{Numbers, RowVectors};

/// Name of the column of vectors, where none is given.
pub const EMBEDDING: &str = "embedding";

/// Bytes of a usual sparse vector: some hundred entries.
const SPARSE_BYTES: usize = 2048;

/// Vectors of a usual row, where each token has one.
const USUAL_TOKENS: usize = 100;

/// The terms of sparse vectors.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// How many there are.
    pub count: usize,
    /// The terms by their indices, where vectors stand as maps from terms to weights.
    names: Option<Arc<[String]>>,
    /// The indices of terms by their names, once one is looked up; `None` where two terms have one name.
    indices: Arc<OnceLock<HashMap<String, Option<u32>>>>,
    /// The indices of the terms that were met, where none are known before.
    met: Option<Arc<Mutex<HashMap<String, u32>>>>,
}

impl PartialEq for Terms {
    fn eq(&self, other: &Self) -> bool {
        (self.count, &self.names) == (other.count, &other.names)
    }
}

impl Eq for Terms {}

impl Terms {
    /// So many terms.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }

    /// The terms of these names, by their indices.
    #[must_use]
    pub fn named(names: Arc<[String]>) -> Self {
        Self {
            names: Some(Arc::clone(&names)),
            ..Self::new(names.len())
        }
    }

    /// Any terms, which get their indices in the order in which they are met: enough to compare vectors with each other.
    #[must_use]
    pub fn as_met() -> Self {
        Self {
            names: Some(Arc::default()),
            met: Some(Arc::default()),
            ..Self::new(u32::MAX as usize)
        }
    }

    /// The terms by their indices, where vectors stand as maps from terms to weights.
    #[must_use]
    pub fn names(&self) -> Option<&Arc<[String]>> {
        self.names.as_ref()
    }

    /// The index of the term of that name, of those that have a name alone.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<u32> {
        if let Some(met) = &self.met {
            let mut met = locked(met);
            let next = u32::try_from(met.len()).ok()?;
            return Some(match met.get(name) {
                Some(index) => *index,
                None => *met.entry(name.to_owned()).or_insert(next),
            });
        }
        let names = self.names.as_deref().unwrap_or_default();
        let indices = self.indices.get_or_init(|| {
            let mut indices: HashMap<String, Option<u32>> = HashMap::with_capacity(names.len());
            for (index, name) in (0..).zip(names) {
                let own = indices.entry(name.clone());
                // One name of two terms is none.
                own.and_modify(|index| *index = None).or_insert(Some(index));
            }
            indices
        });
        indices.get(name).copied().flatten()
    }
}

/// The form of a row's numbers. A size of 0 is not known yet, as that of a form that is read from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowForm {
    /// A vector with all of its components, or several, by their widths.
    Dense(Vec<usize>),
    /// The entries of a vector that are not zero, by their indices.
    Sparse(Terms),
    /// A vector of this width for each token of a text.
    Tokens(usize),
    /// So many scores.
    Scores(usize),
}

/// The forms of a row's numbers: one, or several beside each other, and the columns in which the numbers of each stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forms {
    all: Vec<RowForm>,
    /// The names of each form's columns, one for each width; that of a matrix is empty.
    names: Vec<Vec<String>>,
}

impl RowForm {
    /// The forms of vectors, without sizes, in the order of columns.
    #[must_use]
    pub fn of_vectors() -> [Self; 3] {
        [
            Self::Dense(vec![0]),
            Self::Sparse(Terms::default()),
            Self::Tokens(0),
        ]
    }

    /// Its name in options and provenances, whatever its sizes are.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dense(_) => "dense",
            Self::Sparse(_) => "sparse",
            Self::Tokens(_) => "multi",
            Self::Scores(_) => "scores",
        }
    }

    /// The same form of this width.
    #[must_use]
    pub fn of_width(&self, width: usize) -> Self {
        match self {
            Self::Dense(_) => Self::Dense(vec![width]),
            Self::Sparse(_) => Self::Sparse(Terms::new(width)),
            Self::Tokens(_) => Self::Tokens(width),
            Self::Scores(_) => Self::Scores(width),
        }
    }

    /// Whether a row has one vector in full, or its scores, which are written in the same way.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        matches!(self, Self::Dense(_) | Self::Scores(_))
    }

    /// Whether rows are sparse vectors.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        matches!(self, Self::Sparse(_))
    }

    /// Whether a row has one vector: tokens have any number.
    #[must_use]
    pub fn is_one_per_row(&self) -> bool {
        !matches!(self, Self::Tokens(_))
    }

    /// Whether numbers of `other` are written in the same way, whatever their sizes are.
    #[must_use]
    pub fn is_written_as(&self, other: &Self) -> bool {
        let of = |form: &Self| (form.is_dense(), form.is_sparse());
        of(self) == of(other)
    }

    /// The terms of sparse vectors.
    #[must_use]
    pub fn terms(&self) -> Option<&Terms> {
        match self {
            Self::Sparse(terms) => Some(terms),
            Self::Dense(_) | Self::Tokens(_) | Self::Scores(_) => None,
        }
    }

    /// The same, where the vectors stand as maps from terms to weights.
    #[must_use]
    pub fn maps(&self) -> Option<&Terms> {
        self.terms().filter(|terms| terms.names.is_some())
    }

    /// The widths of a row's vectors, one for each column.
    #[must_use]
    pub fn widths(&self) -> &[usize] {
        match self {
            Self::Dense(widths) => widths,
            Self::Sparse(terms) => std::slice::from_ref(&terms.count),
            Self::Tokens(width) | Self::Scores(width) => std::slice::from_ref(width),
        }
    }

    /// The width of all vectors of a row, side by side; of vectors of tokens that of one.
    #[must_use]
    pub fn width(&self) -> usize {
        self.widths().iter().sum()
    }

    /// Bytes of a usual row, where a vector in full, or that of a token, has `vector` bytes.
    #[must_use]
    pub fn usual_bytes(&self, vector: usize) -> usize {
        match self {
            Self::Dense(_) | Self::Scores(_) => vector,
            Self::Sparse(_) => SPARSE_BYTES,
            Self::Tokens(_) => USUAL_TOKENS * vector,
        }
    }

    /// No rows of this form.
    #[must_use]
    pub fn no_rows(&self) -> Numbers {
        match self {
            Self::Dense(_) | Self::Scores(_) => Numbers::in_full(self.width(), Vec::new()),
            Self::Sparse(_) => Numbers::of_entries(),
            Self::Tokens(width) => Numbers::of_vectors(*width),
        }
    }

    /// Whether `numbers` are `rows` rows of this form.
    #[must_use]
    pub fn fits(&self, numbers: &Numbers, rows: usize) -> bool {
        numbers.are(rows, &self.no_rows())
    }

    /// Whether the direction of a vector tells all: not of scores, nor of sparse vectors, where a cosine hides an entry that is
    /// small beside the others.
    #[must_use]
    pub fn has_direction(&self) -> bool {
        matches!(self, Self::Dense(_) | Self::Tokens(_))
    }

    /// The form in words, for messages.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match self {
            Self::Dense(_) => "dense vectors",
            Self::Sparse(_) if self.maps().is_some() => "sparse vectors as maps",
            Self::Sparse(_) => "sparse vectors with indices",
            Self::Tokens(_) => "vectors of tokens",
            Self::Scores(_) => "scores",
        }
    }

    /// What distinguishes such vectors from those in full, for messages: a phrase with a space behind it.
    #[must_use]
    pub fn qualifier(&self) -> &'static str {
        match self {
            Self::Dense(_) | Self::Scores(_) => "",
            Self::Sparse(_) if self.maps().is_some() => "as maps from terms to weights, ",
            Self::Sparse(_) => "with indices and values, ",
            Self::Tokens(_) => "for each token, ",
        }
    }

    /// The ending of the names of its columns, where a row has numbers of several forms.
    fn ending(&self) -> &'static str {
        match self {
            Self::Dense(_) | Self::Scores(_) => "",
            Self::Sparse(_) => "_sparse",
            Self::Tokens(_) => "_multi",
        }
    }

    /// The name of its column, where none is given and there is one form alone.
    fn default_name(&self) -> &'static str {
        match self {
            Self::Dense(_) | Self::Sparse(_) | Self::Tokens(_) => EMBEDDING,
            Self::Scores(0 | 1) => "score",
            Self::Scores(_) => "scores",
        }
    }

    /// The names of its columns, which begin with `name`.
    fn columns(&self, name: &str) -> Vec<String> {
        match self.widths() {
            [_] => vec![name.to_owned()],
            several => several.iter().map(|it| format!("{name}_{it}")).collect(),
        }
    }
}

/// A form of vectors, without sizes, from its name; case and spaces around it do not matter.
impl FromStr for RowForm {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_ascii_lowercase();
        let all = Self::of_vectors();
        let names = all.each_ref().map(Self::name);
        let found = all.into_iter().find(|form| form.name() == name);
        found.ok_or_else(|| named::unknown("kind of vectors", text, "choose one of", &names))
    }
}

impl From<RowForm> for Forms {
    fn from(form: RowForm) -> Self {
        let names = vec![form.columns(form.default_name())];
        let all = vec![form];
        Self { all, names }
    }
}

impl Forms {
    /// These forms beside each other, in columns of the usual names; `None` if there is none.
    #[must_use]
    pub fn new(forms: Vec<RowForm>) -> Option<Self> {
        let unnamed = forms.into_iter().map(|form| (form, Vec::new()));
        Some(Self::in_columns(unnamed)?.named(None))
    }

    /// These forms, each in the columns of these names, as many as it has widths; `None` if there is none.
    #[must_use]
    pub fn in_columns(columns: impl IntoIterator<Item = (RowForm, Vec<String>)>) -> Option<Self> {
        let (all, names): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        (!all.is_empty()).then_some(Self { all, names })
    }

    /// Numbers of one form and one width, in the column of that name.
    #[must_use]
    pub fn of_column(name: &str, form: RowForm) -> Self {
        Self {
            all: vec![form],
            names: vec![vec![name.to_owned()]],
        }
    }

    /// The same in columns whose names begin with `name`; where none is given, with [`EMBEDDING`], or `score` and `scores`.
    #[must_use]
    pub fn named(mut self, name: Option<&str>) -> Self {
        self.names = match &self.all[..] {
            [one] => vec![one.columns(name.unwrap_or(one.default_name()))],
            several => {
                let name = name.unwrap_or(EMBEDDING);
                let columns = |form: &RowForm| form.columns(&format!("{name}{}", form.ending()));
                several.iter().map(columns).collect()
            }
        };
        self
    }

    /// Vectors in full of these widths; without one, of a width that is not known yet.
    #[must_use]
    pub fn dense(widths: &[usize]) -> Self {
        let widths = if widths.is_empty() { &[0] } else { widths };
        RowForm::Dense(widths.to_vec()).into()
    }

    /// The same, with sparse vectors as maps of these terms.
    #[must_use]
    pub fn with_terms(mut self, terms: &Terms) -> Self {
        for form in &mut self.all {
            if let RowForm::Sparse(own) = form {
                *own = Terms {
                    count: own.count,
                    ..terms.clone()
                };
            }
        }
        self
    }

    /// All of them, in the order of columns.
    #[must_use]
    pub fn all(&self) -> &[RowForm] {
        &self.all
    }

    /// The first of them.
    #[must_use]
    pub fn first(&self) -> &RowForm {
        &self.all[0]
    }

    /// Whether a row has numbers of more than one form.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether a row has numbers of such a form, alone or beside others.
    #[must_use]
    pub fn has(&self, is_such: impl FnMut(&RowForm) -> bool) -> bool {
        self.all.iter().any(is_such)
    }

    /// Whether a row has vectors in full, or scores, and nothing else.
    #[must_use]
    pub fn are_dense(&self) -> bool {
        matches!(&self.all[..], [one] if one.is_dense())
    }

    /// The column and the width of its vectors, where there is one column alone.
    #[must_use]
    pub fn alone(&self) -> Option<(&str, usize)> {
        let mut columns = self.columns().map(|(_, name, width)| (name, width));
        columns.next().filter(|_| columns.next().is_none())
    }

    /// Each form, with the names of its columns and the widths of their vectors.
    pub fn each(&self) -> impl Iterator<Item = (&RowForm, impl Iterator<Item = (&str, usize)>)> {
        self.all.iter().zip(&self.names).map(|(form, names)| {
            let widths = form.widths().iter().copied();
            (form, names.iter().map(String::as_str).zip(widths))
        })
    }

    /// All columns: the form of the numbers, the name, and the width of the vectors.
    pub fn columns(&self) -> impl Iterator<Item = (&RowForm, &str, usize)> {
        self.each()
            .flat_map(|(form, columns)| columns.map(move |(name, width)| (form, name, width)))
    }

    /// No rows of these forms.
    #[must_use]
    pub fn no_rows(&self) -> RowVectors {
        self.all.iter().map(RowForm::no_rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn several() -> Forms {
        let sparse = RowForm::Sparse(Terms::new(9));
        Forms::new(vec![RowForm::Dense(vec![2, 4]), sparse, RowForm::Tokens(3)]).unwrap()
    }

    #[test]
    fn each_form_has_columns_of_its_own() {
        let names = |forms: &Forms, name| -> Vec<String> {
            let named = forms.clone().named(name);
            named
                .columns()
                .map(|(_, name, _)| name.to_owned())
                .collect()
        };
        let four = ["2", "4", "sparse", "multi"];
        assert_eq!(
            names(&several(), None),
            four.map(|it| format!("embedding_{it}"))
        );
        assert_eq!(
            names(&several(), Some("v")),
            four.map(|it| format!("v_{it}"))
        );
        assert_eq!(names(&RowForm::Tokens(3).into(), None), ["embedding"]);
        assert_eq!(names(&Forms::dense(&[]), None), ["embedding"]);
        for (scores, name) in [(0, "score"), (1, "score"), (3, "scores")] {
            assert_eq!(names(&RowForm::Scores(scores).into(), None), [name]);
        }
        let several = several();
        let columns: Vec<_> = several.each().next().unwrap().1.collect();
        assert_eq!(columns, [("embedding_2", 2), ("embedding_4", 4)]);
    }

    #[test]
    fn rows_fit_the_form_that_they_are_made_of() {
        let forms = several();
        for form in forms.all() {
            let mut rows = form.no_rows();
            rows.push_nothing();
            rows.push_nothing();
            for other in forms.all() {
                assert_eq!(other.fits(&rows, 2), other == form, "{form:?} {other:?}");
            }
            assert!(!form.fits(&rows, 1), "{form:?}");
        }
        let cut = Numbers::in_full(2, vec![1.0, 2.0, 3.0]);
        assert!(!RowForm::Dense(vec![2]).fits(&cut, 1));
        assert!(!RowForm::Dense(vec![2]).fits(&cut, 2));
        assert_eq!(forms.no_rows().parts().len(), 3);
    }

    #[test]
    fn a_name_of_two_terms_is_the_index_of_neither() {
        let names = ["[UNK]", "[1]", "a", "[1]"].map(String::from);
        let forms = Forms::from(RowForm::Sparse(Terms::new(4)));
        let forms = forms.with_terms(&Terms::named(names.into()));
        let terms = forms.first().maps().unwrap();
        let found = ["[UNK]", "[1]", "a", "b"].map(|term| terms.index_of(term));
        assert_eq!(found, [Some(0), None, Some(2), None]);
    }

    #[test]
    fn terms_that_nobody_knows_are_numbered_as_they_are_met() {
        let terms = Terms::as_met();
        let met = ["b", "a", "b", "c"].map(|term| terms.index_of(term));
        assert_eq!(met, [Some(0), Some(1), Some(0), Some(2)]);
        assert_eq!(terms.clone().index_of("c"), Some(2));
    }

    #[test]
    fn a_form_of_vectors_is_known_by_its_name() {
        for form in RowForm::of_vectors() {
            let sized = form.of_width(5);
            assert_eq!((sized.name(), sized.width()), (form.name(), 5));
            assert_eq!(
                format!(" {} ", form.name()).to_uppercase().parse(),
                Ok(form.clone())
            );
            for other in RowForm::of_vectors() {
                assert_eq!(sized.is_written_as(&other), form == other);
            }
        }
        assert!(RowForm::Scores(2).is_written_as(&RowForm::Dense(vec![0])));
        for other in ["scores", ""] {
            let error = other.parse::<RowForm>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("unknown kind of vectors '{other}'")),
                "{error}"
            );
        }
    }
}
