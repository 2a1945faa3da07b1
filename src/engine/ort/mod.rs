//! ONNX Runtime, loaded at run time.

use super::{Engine, EngineOptions, PassedOver, Provider};
use crate::error::Result;
use crate::model::Model;

pub(super) fn open(
    model: &Model,
    options: &EngineOptions,
    provider: Provider,
    passed_over: &[PassedOver],
) -> Result<Box<dyn Engine>> {
    let _ = (model, options, provider, passed_over);
    unimplemented!()
}
