//! ONNX Runtime's messages: what stands at their end is the reason, and before it are C++ functions and source files.

use std::error::Error as StdError;
use std::fmt;

use embedctl_common::error::Cause;
use embedctl_common::setting::PROVIDER;

/// Characters of a message that is shown as it is.
const LONGEST: usize = 300;

/// Characters that are shown of a longer one, at most.
const SHOWN: usize = 200;

/// The words before the operators that OpenVINO lacks.
const LACKS: &str = "does not support the following ONNX operations:";

/// A message in full, the cause of an error that gives its reason alone: for those who ask for details.
#[derive(Debug)]
pub struct FullMessage(String);

impl fmt::Display for FullMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for FullMessage {}

/// Why a model cannot be loaded, by the message of a provider, which is called `subject`; with the message in full where
/// that is longer.
pub(super) fn reason(subject: &str, model: &str, message: String) -> (Cause, Option<FullMessage>) {
    if let Some((_, operators)) = message.split_once(LACKS) {
        let operators: Vec<&str> = operators.split([',', ' ', '\n']).collect();
        let named = operators.iter().filter(|name| is_name(name));
        let named: Vec<String> = named.map(|name| format!("`{name}`")).collect();
        let noun = if named.len() == 1 {
            "operator"
        } else {
            "operators"
        };
        let reason = format!(
            "{subject} cannot run {model}: it lacks the {noun} {}",
            named.join(", ")
        );
        let remedy = format!("choose another provider, for example `{PROVIDER} cpu`");
        return (Cause::of(reason).with(remedy), Some(FullMessage(message)));
    }
    let length = message.chars().count();
    if length <= LONGEST {
        let reason = format!("{subject} cannot load {model}: {message}");
        return (Cause::of(reason), None);
    }
    let end: String = message.chars().skip(length - SHOWN).collect();
    let end = end.split_once(' ').map_or(end.as_str(), |(_, end)| end);
    let reason = format!("{subject} cannot load {model}: … {end}");
    (Cause::of(reason), Some(FullMessage(message)))
}

/// Whether a word is the name of an operator.
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_alphabetic)
        && letters.all(|letter| letter.is_alphanumeric() || "._:".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_told_by_its_end() {
        let functions = "/onnxruntime/core/basic_backend.cc:136 onnxruntime::BasicBackend(std::unique_ptr<onnx::ModelProto>&) ".repeat(8);
        let told = |message: String| {
            let (cause, full) = reason("openvino", "m.onnx", message);
            (cause.to_string(), full.map(|full| full.to_string()))
        };
        for (operators, named) in [
            ("Attention", "operator `Attention`;"),
            (
                "Attention, com.microsoft.Gelu",
                "operators `Attention`, `com.microsoft.Gelu`;",
            ),
        ] {
            let message = format!("{functions}OpenVINO {LACKS} {operators}");
            let (said, full) = told(message.clone());
            assert!(said.contains(named), "{said}");
            assert!(
                said.chars().count() < LONGEST && !said.contains("::Basic"),
                "{said}"
            );
            assert_eq!(full, Some(message));
        }
        let (said, full) = told(format!("{functions}the weights are missing"));
        assert!(
            said.ends_with("the weights are missing") && said.contains("… "),
            "{said}"
        );
        assert!(said.chars().count() < LONGEST && full.is_some(), "{said}");
        let (said, full) = told("unknown opset 99".to_owned());
        assert_eq!(
            (said.as_str(), full),
            ("openvino cannot load m.onnx: unknown opset 99", None)
        );
    }
}
