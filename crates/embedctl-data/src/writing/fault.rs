//! Errors of the system while writing, with remedies.

use std::error::Error as StdError;
use std::io;
use std::path::Path;

use embedctl_common::error::{Error, io_errors};
use embedctl_common::remedies::with_remedy;

/// The error for a failed write to `path`; a closed pipe stays a closed pipe.
#[must_use]
pub fn write_error(path: &Path, error: io::Error) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(own) => return own, // a store's refusal, in words already
        Err(error) => error,
    };
    Error::io("write to", path, with_remedy(error))
}

/// The error for a failure of an encoder of `format`: an error of the system, or a bug.
pub(crate) fn encoding_error(path: &Path, format: &str, error: &(dyn StdError + 'static)) -> Error {
    if let Some(own) = Error::behind(error) {
        return own;
    }
    match io_cause(error) {
        Some(cause) => write_error(path, cause),
        None => Error::internal(format!("encoding {format}: {error}")),
    }
}

/// The system's refusal among the causes of `error`, if there is one.
pub fn io_cause(error: &(dyn StdError + 'static)) -> Option<io::Error> {
    io_errors(error)
        .next()
        .map(|cause| match cause.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(cause.kind(), cause.to_string()),
        })
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use ::parquet::errors::ParquetError;
    use arrow::error::ArrowError;

    #[test]
    fn a_full_disk_comes_with_a_remedy() {
        let error = write_error(Path::new("x"), ErrorKind::StorageFull.into());
        assert_eq!(error.to_string(), "cannot write to x");
        let cause = error.source().expect("a cause").to_string();
        assert!(cause.starts_with("No space left on device;"), "{cause}");
    }

    #[test]
    fn a_closed_pipe_is_found_however_wrapped() {
        let pipe = || io::Error::from(ErrorKind::BrokenPipe);
        let arrow = ArrowError::IoError("pipe".into(), pipe());
        let wrapped: [Box<dyn StdError>; 4] = [
            Box::new(pipe()),
            Box::new(ParquetError::from(pipe())),
            Box::new(ParquetError::from(arrow)),
            Box::new(ArrowError::from_external_error(Box::new(
                ParquetError::from(pipe()),
            ))),
        ];
        for error in wrapped {
            let cause = io_cause(error.as_ref()).expect("a cause");
            let error = write_error(Path::new("x"), cause);
            assert_eq!(error.kind(), embedctl_common::ErrorKind::ClosedPipe);
        }
        assert!(io_cause(&ParquetError::General("odd".into())).is_none());
    }
}
