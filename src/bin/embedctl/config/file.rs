//! One settings file: read, and checked against the options of the commands.

use std::cell::LazyCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::limits::{forbids, is_path};
use super::places::FileKind;
use super::{is_relative, is_switch, key, option};

/// The largest settings file.
const MOST_BYTES: u64 = 1 << 20;

/// A file that was read.
#[derive(Debug)]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// Whose it is.
    pub kind: FileKind,
    /// Its settings, in file order.
    pub entries: Vec<ConfigEntry>,
}

/// A setting.
#[derive(Debug)]
pub struct ConfigEntry {
    /// The command of its table; `None`: all commands.
    pub table: Option<String>,
    /// The option's long name.
    pub key: String,
    /// Its values, as they would be typed.
    pub values: Vec<String>,
    /// Its file and line.
    pub place: ConfigLine,
}

/// A line of a file: `embedctl.toml:3`.
#[derive(Debug, Clone)]
pub struct ConfigLine {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for ConfigLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl ConfigFile {
    /// Reads a file; `None` if there is none. `program` is the built command with all subcommands, of which a file alone has need.
    pub(super) fn read(
        path: &Path,
        kind: FileKind,
        program: &LazyCell<Command, impl FnOnce() -> Command>,
    ) -> Result<Option<Self>, String> {
        let refuse = |reason: &dyn fmt::Display| format!("{}: {reason}", path.display());
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|error| refuse(&error))?,
        };
        if !found.is_file() || found.len() > MOST_BYTES {
            return Err(refuse(
                &"this is not a settings file: it must be a regular file of at most 1 MiB",
            ));
        }
        let text = fs::read_to_string(path).map_err(|error| refuse(&error))?;
        let line = |offset: usize| ConfigLine {
            file: path.to_path_buf(),
            line: 1 + text
                .bytes()
                .take(offset)
                .filter(|&byte| byte == b'\n')
                .count(),
        };
        let document = DeTable::parse(&text).map_err(|error| {
            let at = line(error.span().map_or(0, |span| span.start));
            format!("{at}: this is not TOML: {}", error.message())
        })?;
        let mut file = Self {
            path: path.to_path_buf(),
            kind,
            entries: Vec::new(),
        };
        for (name, value) in document.get_ref() {
            let of_command = program.find_subcommand(name.get_ref().as_ref());
            match (of_command, value.get_ref()) {
                (Some(command), DeValue::Table(table)) => {
                    for (name, value) in table {
                        file.add(Some(command), program, name, value, &line)?;
                    }
                }
                _ => file.add(None, program, name, value, &line)?,
            }
        }
        Ok(Some(file))
    }

    fn add(
        &mut self,
        command: Option<&Command>,
        program: &Command,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        line: &dyn Fn(usize) -> ConfigLine,
    ) -> Result<(), String> {
        let place = line(name.span().start);
        let written = name.get_ref();
        let wanted = written.replace('_', "-");
        // A key for all commands is one that any of them knows.
        let knowing = match command {
            Some(command) => vec![command],
            None => program.get_subcommands().collect(),
        };
        let Some(arg) = knowing.iter().find_map(|command| option(command, &wanted)) else {
            return Err(format!(
                "{place}: {}",
                unknown(written, &wanted, command, program)
            ));
        };
        let own_key = key(arg).unwrap_or(&wanted);
        // One key may mean a path to one command and a word to another.
        let args = knowing
            .iter()
            .filter_map(|command| option(command, own_key));
        let args: Vec<&Arg> = args.collect();
        let mut values = match value.get_ref() {
            DeValue::Array(list) => {
                let several = matches!(arg.get_action(), ArgAction::Append)
                    || arg.get_value_delimiter().is_some()
                    || ["provider", "device"].contains(&wanted.as_str());
                if !several {
                    return Err(format!("{place}: {written} takes one value, not a list"));
                }
                let words: Option<Vec<String>> =
                    list.iter().map(|value| word(value.get_ref())).collect();
                words.map(|words| match arg.get_action() {
                    ArgAction::Append => words,
                    _ => vec![words.join(",")],
                })
            }
            DeValue::Boolean(_) | DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => {
                word(value.get_ref()).map(|word| vec![word])
            }
            DeValue::Datetime(_) | DeValue::Table(_) => None,
        }
        .ok_or_else(|| {
            format!(
                "{place}: {written} takes a string, a number, true or false, or a list of these"
            )
        })?;
        let is_bool = matches!(value.get_ref(), DeValue::Boolean(_));
        if is_switch(arg) && !is_bool {
            return Err(format!("{place}: {written} takes true or false"));
        }
        if matches!(arg.get_action(), ArgAction::Count)
            && !values
                .iter()
                .all(|times| times.parse().is_ok_and(|times: u8| times < 4))
        {
            return Err(format!("{place}: {written} takes a number from 0 to 3"));
        }
        if args.iter().any(|arg| is_path(arg)) {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            for value in &mut values {
                // A model of the Hub looks like a path.
                let meant =
                    wanted != "model" || value.starts_with("./") || value.starts_with("../");
                if meant && is_relative(value) {
                    let value_inside = value.trim_start_matches("./");
                    *value = folder.join(value_inside).to_string_lossy().into_owned();
                }
            }
        }
        let entry = ConfigEntry {
            table: command.map(|command| command.get_name().to_owned()),
            key: own_key.to_owned(),
            values,
            place,
        };
        let mut reasons =
            (args.iter()).filter_map(|arg| forbids(self.kind, &self.path, arg, &entry.key));
        if let Some(reason) = reasons.next() {
            return Err(format!("{}: {reason}", entry.place));
        }
        let same = |one: &&ConfigEntry| one.table == entry.table && one.key == entry.key;
        if let Some(first) = self.entries.iter().find(same) {
            return Err(format!(
                "{}: {} is already set on line {}",
                entry.place, entry.key, first.place.line
            ));
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// A plain value as it would be typed.
fn word(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::Boolean(value) => value.to_string(),
        DeValue::String(value) => value.to_string(),
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
            .ok()?
            .to_string(),
        DeValue::Float(value) => value.as_str().to_owned(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

/// The message about an unknown key, with a similar key if there is one.
fn unknown(written: &str, wanted: &str, command: Option<&Command>, program: &Command) -> String {
    let (what, commands) = match command {
        Some(command) => (
            format!("{} has no option", command.get_name()),
            vec![command],
        ),
        None => (
            "no command has an option".to_owned(),
            program.get_subcommands().collect(),
        ),
    };
    let options = commands
        .iter()
        .flat_map(|command| command.get_arguments().filter_map(key));
    let tables = command
        .is_none()
        .then(|| program.get_subcommands().map(Command::get_name));
    let nearest = options
        .chain(tables.into_iter().flatten())
        .map(|name| (strsim::osa_distance(wanted, name), name))
        .min();
    let tip = match nearest {
        Some((far, name)) if 3 * far <= wanted.chars().count() => format!("; did you mean {name}?"),
        _ => "; keys are the long names of options (`embedctl embed --help`)".to_owned(),
    };
    format!("{what} {written}{tip}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::built;
    use crate::mutation;

    /// A damaged file is refused with a line number, or holds only known options.
    #[test]
    fn damaged_settings_are_read_or_refused() {
        const GOOD: &[u8] = br#"# settings
offline = true
threads = 4
model = "./models/tiny"

[embed]
provider = ["native", "cpu"]
keep = ['title', "year:int"]
text-field = """
body"""
"batch-tokens" = 0x200
on_error = "skip"
[bench]
max-regression = 2.5
"#;
        let program = LazyCell::new(built);
        let mut read = 0;
        mutation::each("embedctl.toml", GOOD, 300, |path| {
            match ConfigFile::read(path, FileKind::User, &program) {
                Err(reason) => assert!(reason.starts_with(&path.display().to_string()), "{reason}"),
                Ok(None) => panic!("the file is there"),
                Ok(Some(file)) => {
                    let lines = fs::read_to_string(path).unwrap().lines().count();
                    for entry in file.entries {
                        assert!((1..=lines).contains(&entry.place.line));
                        let knows = |command: &Command| option(command, &entry.key).is_some();
                        assert!(program.get_subcommands().any(knows), "{}", entry.key);
                        read += 1;
                    }
                }
            }
        });
        assert!(read > 0);
    }
}
