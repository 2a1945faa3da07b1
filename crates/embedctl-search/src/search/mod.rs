//! The rows of an output that are nearest to a query: exact, by comparing every row.
//!
//! ```text
//!  output ──► rows in batches ──► threads: score, the k best of each query ──► ids and texts of the hits
//!  query ──► the output's own model ──┘
//! ```
//!
//! Dense vectors are compared by their cosine, sparse ones by their dot product, and vectors of tokens by the sum, over the
//! query's tokens, of the greatest dot product with one of the row's (`MaxSim`). Quantized components become numbers again,
//! and a query stays in float32 ([`decoder`]).

mod agreement;
mod comparison;
mod comparison_plot;
mod corpus;
mod decoder;
mod derived;
mod files;
mod hits;
mod matching;
mod nearest;
mod queries;
mod row_fields;
mod wanted_lines;

pub use agreement::{Cosines, DifferingRow, NeighbourAgreement, Overlap, listed_depth};
pub use comparison::{
    ComparedOutput, ComparedWith, ComparisonOptions, ComparisonQueries, OutputComparison,
};
pub use comparison_plot::svg;
pub use corpus::Corpus;
pub use derived::DerivedForm;
pub use embedctl_vectors::Neighbour;
pub use hits::{Hit, table};
pub use matching::TextAgreement;
pub use queries::{EmbeddedQueries, QueryModel};
pub use row_fields::RowFields;
