//! How the vectors of a row's tokens become one.

/// A way to make one vector of a row's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum PoolingMode {
    /// The first token.
    First = 0,
    /// The last token.
    Last = 1,
    /// The mean.
    Mean = 2,
    /// The sum by the root of the count.
    MeanSqrtLen = 3,
    /// The mean by a token's place, from 1 on.
    WeightedMean = 4,
    /// The greatest value of each component.
    Max = 5,
}

/// How rows are pooled: with all of these modes, side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooling {
    /// The modes.
    pub modes: Vec<PoolingMode>,
}
