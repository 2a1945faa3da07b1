//! stub
use crate::Result;
use crate::record::*;
pub struct RejectsWriter;
impl RejectsWriter {
    pub fn create(_: &std::path::Path, _: bool) -> Result<Self> {
        unimplemented!()
    }
    pub fn write(&mut self, _: &Reject, _: &SourceNames) -> Result<()> {
        unimplemented!()
    }
    pub fn finish(self) -> Result<()> {
        unimplemented!()
    }
}
