//! Parts of gzip that its decoder leaves to the caller: members after the first, and bytes after the last.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// All members of a gzip file, and the zeros that may pad the last one (as tapes and some archives do).
pub(super) struct Members<R>(Option<GzDecoder<R>>);

impl<R> Members<R> {
    pub(super) fn new(first: GzDecoder<R>) -> Self {
        Self(Some(first))
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(mut member) = self.0.take() {
            let bytes = member.read(into)?;
            if bytes > 0 || into.is_empty() {
                self.0 = Some(member);
                return Ok(bytes);
            }
            let mut rest = member.into_inner();
            let mut padded = false;
            let followed = loop {
                let buffer = rest.fill_buf()?;
                let zeros = buffer.iter().take_while(|&&byte| byte == 0).count();
                let all = zeros == buffer.len();
                if buffer.is_empty() || !all {
                    padded |= zeros > 0;
                    break !all;
                }
                padded = true;
                rest.consume(zeros);
            };
            if followed && padded {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "bytes that are not a gzip header follow zeros",
                ));
            }
            if followed {
                self.0 = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}
