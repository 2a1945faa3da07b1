//! Tests of the output as its users see it: files under names.

mod formats;
mod publishing;
#[cfg(unix)]
mod streams;
