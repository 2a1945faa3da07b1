//! Texts in lines of some width, broken between words. Commands in backticks are not broken, so that they can be copied.

use embedctl::safe_text::wrapped;

/// Stands for a space inside a command while lines are broken: no message has it.
const KEPT_SPACE: char = '\u{0}';

/// How far lines after the first of a paragraph are set in, beyond the paragraph.
const INDENT: usize = 2;

/// A text in lines: the first of `first` characters at most, others of `rest`, if its words allow it.
pub(super) fn lines(text: &str, first: usize, rest: usize) -> Vec<String> {
    let lines = wrapped(&with_whole_commands(text), first, rest).into_iter();
    lines.map(|line| line.replace(KEPT_SPACE, " ")).collect()
}

/// A message whose lines have `width` characters at most, if its words allow it; its first line stands behind `before`
/// characters. Lines that fit stay as they are.
pub(super) fn message(text: &str, before: usize, width: usize) -> String {
    let mut lines = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let before = if index == 0 { before } else { 0 };
        if before + line.chars().count() <= width {
            lines.push(line.to_owned());
            continue;
        }
        let words = line.trim_start_matches(' ');
        let own = line.len() - words.len();
        let first = width.saturating_sub(before + own);
        let rest = width.saturating_sub(own + INDENT);
        for (number, part) in self::lines(words, first, rest).into_iter().enumerate() {
            let indent = if number == 0 { own } else { own + INDENT };
            lines.push(format!("{:indent$}{part}", ""));
        }
    }
    lines.join("\n")
}

/// The text with another character in place of each space between backticks.
fn with_whole_commands(text: &str) -> String {
    let parts = text.split('`').collect::<Vec<_>>();
    let mut whole = String::with_capacity(text.len());
    for (index, part) in parts.iter().enumerate() {
        let is_command = index % 2 == 1 && index + 1 < parts.len() && !part.contains('\n');
        match is_command {
            true => whole.push_str(&part.replace(' ', &KEPT_SPACE.to_string())),
            false => whole.push_str(part),
        }
        if index + 1 < parts.len() {
            whole.push('`');
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_not_inside_commands() {
        let text = "one two three `pip install onnxruntime` four\n  a second line that is long";
        assert_eq!(
            message(text, 6, 20),
            "one two three\n  `pip install onnxruntime`\n  four\n  a second line that\n    is long"
        );
        let short = "two  spaces stay";
        assert_eq!(message(short, 0, 80), short);
        let path = "wrote /a/very/long/path/of/one/word.parquet";
        assert_eq!(
            message(path, 0, 20),
            "wrote\n  /a/very/long/path/of/one/word.parquet"
        );
        assert_eq!(
            message("an odd ` backtick stays as it is", 0, 12),
            "an odd `\n  backtick\n  stays as\n  it is"
        );
    }
}
