//! The exit codes.

use std::io::Write;

/// How a run ended. The numbers are part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Done; also when the reader of our output had seen enough and closed it.
    Done,
    /// Failed.
    Failed,
    /// The options were wrong; nothing was done.
    Usage,
    /// Done, but some records were rejected.
    Rejected,
    /// Stopped by a signal.
    Interrupted,
}

impl ExitCode {
    /// The number.
    pub fn number(self) -> i32 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Rejected => 3,
            // A shell reports this code for a program killed by SIGINT: 128 + 2.
            Self::Interrupted => 130,
        }
    }

    /// Whether an error that leads to this code is shown: a closed pipe is not an error.
    pub fn is_worth_a_message(self) -> bool {
        self != Self::Done
    }

    /// Ends the process, whatever its other threads are doing: one may be blocked for ever in a read of
    /// a silent standard input, so none of them is waited for.
    pub fn leave(self) -> ! {
        if self == Self::Interrupted {
            self.leave_at_once();
        }
        // Data was flushed and checked by its writer; this flushes the rest.
        let _ = std::io::stdout().flush();
        std::process::exit(self.number())
    }

    /// Ends the process without exit handlers: a library that is still loading or computing on a thread
    /// of its own must not be torn down under it.
    pub fn leave_at_once(self) -> ! {
        signal_hook::low_level::exit(self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_documented_ones() {
        let all = [
            (ExitCode::Done, 0),
            (ExitCode::Failed, 1),
            (ExitCode::Usage, 2),
            (ExitCode::Rejected, 3),
            (ExitCode::Interrupted, 130),
        ];
        for (code, number) in all {
            assert_eq!(code.number(), number);
        }
    }
}
