//! Tables for people: 80 columns, whatever the terminal's width, so that they can be pasted anywhere. Only a
//! word that is longer than a line, such as a path, is left whole.

use embedctl::engine::Provider;
use embedctl::safe_text::one_line;

use super::wrap;

const WIDTH: usize = 80;
/// Where the second column starts.
const INDENT: usize = 15;

/// Lines as they come: no text of others steers a terminal, or begins a line of its own.
#[derive(Debug, Default)]
pub struct TextTable {
    text: String,
}

impl TextTable {
    /// The lines of a report of this program.
    pub(super) fn of(text: String) -> Self {
        Self { text }
    }

    /// All lines.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A line.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(&one_line(line.trim_end()));
        self.text.push('\n');
    }

    /// A name and its value.
    pub(super) fn entry(&mut self, name: &str, value: &str) {
        self.wrapped(&format!("  {name:<width$} ", width = INDENT - 3), value);
    }

    /// The remedy for the line above, if it `applies`.
    pub(super) fn remedy(&mut self, applies: bool, remedy: Option<&String>) {
        if let Some(remedy) = remedy.filter(|_| applies) {
            self.wrapped("    → ", remedy);
        }
    }

    /// One line for all of `absent` providers, which `-v` lists with their reasons.
    pub(super) fn absent(&mut self, absent: &[Provider]) {
        if absent.is_empty() {
            return;
        }
        let names: Vec<&str> = absent.iter().map(|one| one.name()).collect();
        let value = format!("{} (-v: why, and what helps)", names.join(", "));
        self.wrapped("  not here: ", &value);
    }

    /// `value` behind `start`, broken at spaces, with the following lines as far in as the first.
    pub(super) fn wrapped(&mut self, start: &str, value: &str) {
        let indent = start.chars().count();
        let width = WIDTH.saturating_sub(indent);
        let mut start = start.to_owned();
        for line in wrap::lines(value, width, width) {
            self.line(&format!("{start}{line}"));
            start = " ".repeat(indent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(write: impl FnOnce(&mut TextTable)) -> Vec<String> {
        let mut table = TextTable::default();
        write(&mut table);
        table.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_broken_at_spaces() {
        let long = "word ".repeat(40);
        let lines = lines(|table| table.entry("name", &long));
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[0].starts_with("  name         word"));
        assert!(lines[1].starts_with("               word"));
    }

    #[test]
    fn a_path_stays_whole() {
        let path = format!("/{}/libonnxruntime.so", "folder".repeat(20));
        let lines = lines(|table| table.wrapped("      ", &path));
        assert_eq!(lines, [format!("      {path}")]);
    }
}
