//! The parser's answer to a command line, before there is a printer.

use std::ffi::OsStr;
use std::io::{self, Write};

use embedctl::safe_text::{printable, printable_json};
use embedctl::secrets::Secrets;
use serde_json::json;

use crate::exit::ExitCode;
use crate::standard;

/// Prints the parser's answer to a command line that it did not accept, or that asks for help or the
/// version. There is no [`Printer`] yet: its options could not be read, so they are looked for here.
pub fn print_parser_answer(answer: &clap::Error, secrets: &Secrets) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let plain = has_option(&arguments, "--color", "never");
    if !answer.use_stderr() {
        let printed = if plain {
            write!(io::stdout().lock(), "{}", answer.render())
        } else {
            answer.print()
        };
        let flushed = printed.and_then(|()| io::stdout().flush());
        return match flushed.and_then(|()| standard::check_output()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::Failed,
            _ => ExitCode::Done,
        };
    }
    // As in `Printer::line`: a failure here cannot be reported.
    let said = answer.render().to_string();
    let text = secrets.redact(&said).into_owned();
    // The parser's own, coloured text is shown where nothing has to be taken out of it.
    let plain = plain || text != said || printable(&text) != text;
    let _ = if has_option(&arguments, "--log-format", "json") {
        let text = text.trim().trim_start_matches("error: ");
        let object = json!({
            "level": "error", "time": super::now(), "message": text, "causes": [], "hint": null,
        });
        writeln!(
            io::stderr().lock(),
            "{}",
            printable_json(&object.to_string())
        )
    } else if plain {
        write!(io::stderr().lock(), "{}", printable(&text))
    } else {
        answer.print()
    };
    ExitCode::Usage
}

/// Whether a raw command line holds `name value` or `name=value`.
fn has_option<S: AsRef<OsStr>>(arguments: &[S], name: &str, value: &str) -> bool {
    let joined = format!("{name}={value}");
    arguments.iter().any(|one| one.as_ref() == joined.as_str())
        || arguments
            .windows(2)
            .any(|pair| pair[0].as_ref() == name && pair[1].as_ref() == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_both_spellings() {
        let apart = ["embedctl", "--log-format", "json", "embed"];
        let joined = ["embedctl", "--log-format=json"];
        let other = ["embedctl", "--log-format", "text", "json"];
        assert!(has_option(&apart, "--log-format", "json"));
        assert!(has_option(&joined, "--log-format", "json"));
        assert!(!has_option(&other, "--log-format", "json"));
    }
}
