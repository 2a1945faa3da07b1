//! Measuring: how fast a configuration is here, what limits it, and which settings are best.
mod configuration;
pub mod corpus;
mod flops;
mod machine;
mod peak;
mod phrases;
mod stats;
pub use configuration::Configuration;
pub use corpus::Corpus;
pub use flops::Work;
pub use machine::Machine;
pub use peak::{Peak, measure};
pub use stats::Spread;
