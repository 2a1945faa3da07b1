//! What the engines of this crate and the search for libraries say of a provider: how it is got, and whether it works.

pub mod check_graph;
pub mod obtain;
mod report;

pub use report::ProviderReport;
