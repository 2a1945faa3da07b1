//! Arrow's types, of the version in this library's interface: what is used here of the crates that `arrow` is made of,
//! by its names. Its other crates (arithmetic, sorting, patterns, …) take a minute to build.

pub use arrow_buffer::buffer;
pub use arrow_ipc as ipc;

pub(crate) mod retype;
mod shown;

pub use shown::shown;

/// Arrays of values, and how they are made.
pub mod array {
    pub use arrow_array::{builder::*, cast::*, *};
    pub use arrow_data::{ArrayData, layout};
}

/// What works on whole columns.
pub mod compute {
    pub use arrow_select::{
        concat::concat_batches,
        filter::filter_record_batch,
        take::{take, take_record_batch},
    };
}

/// Types of columns and of their values.
pub mod datatypes {
    pub use arrow_array::types::*;
    pub use arrow_schema::{
        DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
    };
}

/// What goes wrong.
pub mod error {
    pub use arrow_schema::ArrowError;
}
