//! Runs of the real binary.
