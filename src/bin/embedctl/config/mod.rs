//! Options that stand in files: `embedctl.toml` of a project, and the user's own `config.toml`.
//!
//! A file's keys are the long names of options, for all commands or in a table of one. They are put among the
//! arguments where neither the command line nor the environment says anything, so that they are checked like typed
//! options. Nearer files override farther ones; a command's table overrides the keys for all commands.
//!
//! A value from a file is never a word of its own for the parser: it is part of its option's word, after the first
//! `=`, or the default of a positional argument. So no value can become another option, whatever its first characters
//! are.
//!
//! A project's settings file must not run code: see [`limits`].

mod file;
mod limits;
mod places;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use embedctl::runtime;

use crate::args::{self, CommandLine, PositionalDefault};
pub use file::ConfigEntry;
use file::ConfigFile;
pub use places::FileKind;

/// The files in force, the nearest first.
#[derive(Debug, Default)]
pub struct Config {
    /// The files found.
    pub files: Vec<ConfigFile>,
    /// Paths of settings files that do not exist.
    pub absent: Vec<PathBuf>,
    /// Project files that other users can change, and why.
    pub passed_over: Vec<(PathBuf, String)>,
}

impl Config {
    /// The files that `arguments` (program name first) and the environment ask for.
    pub fn read(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let Some(typed) = lenient(arguments).filter(|typed| !typed.get_flag("no_config")) else {
            return Ok(Self::default());
        };
        let mut config = Self::default();
        let command = LazyCell::new(built);
        for (path, kind) in places::all(typed.get_one::<PathBuf>("config")) {
            if let Some(doubt) = (kind == FileKind::Project)
                .then(|| runtime::doubt(&path))
                .flatten()
            {
                config.passed_over.push((path, doubt));
                continue;
            }
            match ConfigFile::read(&path, kind, &command).map_err(refusal)? {
                Some(file) => config.files.push(file),
                None if kind == FileKind::Named => {
                    let reason = "--config (or EMBEDCTL_CONFIG): the file does not exist";
                    return Err(refusal(format!("{}: {reason}", path.display())));
                }
                None if kind == FileKind::User => config.absent.push(path),
                None => {}
            }
        }
        Ok(config)
    }

    /// `arguments` completed with the settings of the files, and the settings used.
    pub fn complete(&self, words: Vec<OsString>) -> Result<CompletedLine<'_>, clap::Error> {
        let defaults = Vec::new();
        let mut completed = CompletedLine {
            line: CommandLine { words, defaults },
            taken: Vec::new(),
        };
        if self.files.is_empty() {
            return Ok(completed); // a command line takes milliseconds to build
        }
        let typed = lenient(&completed.line.words);
        let Some((name, of_command)) = typed.as_ref().and_then(ArgMatches::subcommand) else {
            return Ok(completed);
        };
        let command = built();
        let Some(command) = command.find_subcommand(name) else {
            return Ok(completed);
        };
        let taken = self.taken(command, of_command)?;
        let mut words = Vec::new();
        for (arg, entry) in taken {
            match arg.get_long() {
                Some(long) => words.extend(option_words(arg, long, entry)),
                None => completed.line.defaults.push(PositionalDefault {
                    command: name.to_owned(),
                    arg: arg.get_id().to_string(),
                    values: entry.values.clone(),
                }),
            }
            completed.taken.push(entry);
        }
        let arguments = &mut completed.line.words;
        let end = arguments.iter().position(|argument| argument == "--");
        let at = end.unwrap_or(arguments.len());
        arguments.splice(at..at, words.into_iter().map(OsString::from));
        Ok(completed)
    }

    /// The settings in effect for `command` that are not `typed`, nearest first.
    fn taken<'e, 'c>(
        &'e self,
        command: &'c Command,
        typed: &ArgMatches,
    ) -> Result<Vec<(&'c Arg, &'e ConfigEntry)>, clap::Error> {
        let excludes = |one: &Arg, other: &Arg| {
            let conflicts = |a: &Arg, b: &Arg| {
                let others = command.get_arg_conflicts_with(a);
                others
                    .iter()
                    .any(|conflict| conflict.get_id() == b.get_id())
            };
            conflicts(one, other) || conflicts(other, one)
        };
        let mut taken: Vec<(&'c Arg, &'e ConfigEntry)> = Vec::new();
        for (index, entry) in self.in_order(command.get_name()) {
            let Some(arg) = option(command, &entry.key) else {
                continue; // another command's
            };
            let given = |arg: &Arg| {
                let source = typed.try_get_raw(arg.get_id().as_str());
                source.is_ok()
                    && matches!(
                        typed.value_source(arg.get_id().as_str()),
                        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
                    )
            };
            let mut others = command.get_arguments();
            if given(arg) || others.any(|other| given(other) && excludes(arg, other)) {
                continue;
            }
            if taken.iter().any(|(one, _)| one.get_id() == arg.get_id()) {
                continue;
            }
            // A false value counts too: it overrides true in a farther file.
            if let Some((_, other)) = taken
                .iter()
                .find(|(one, other)| excludes(arg, one) && !is_off(one, other))
            {
                let own = self.files[index].entries.iter();
                if !is_off(arg, entry) && own.into_iter().any(|one| std::ptr::eq(one, *other)) {
                    return Err(refusal(format!(
                        "{} and {} exclude each other; keep one of them ({}, {})",
                        other.key, entry.key, other.place, entry.place
                    )));
                }
                continue;
            }
            taken.push((arg, entry));
        }
        Ok(taken)
    }

    /// The settings of the files for a command, nearest first, with the index of each file.
    fn in_order(&self, command: &str) -> Vec<(usize, &ConfigEntry)> {
        let mut found = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            for table in [Some(command), None] {
                let entries = file.entries.iter();
                let of = entries.filter(|entry| entry.table.as_deref() == table);
                found.extend(of.map(|entry| (index, entry)));
            }
        }
        found
    }

    /// The settings of a command, as `embedctl config` shows them.
    pub fn settings<'a>(
        &'a self,
        command: &'a Command,
    ) -> Result<Vec<CommandSetting<'a>>, clap::Error> {
        // Nothing but the environment has been typed.
        let typed = lenient(&["embedctl".into(), command.get_name().into()]);
        let typed = (typed.as_ref()).and_then(|typed| typed.subcommand_matches(command.get_name()));
        let Some(typed) = typed else {
            return Ok(Vec::new());
        };
        let taken = self.taken(command, typed)?;
        let of = |arg: &'a Arg| {
            let key = key(arg)?;
            let variable = arg
                .get_env()
                .map(|name| name.to_string_lossy().into_owned());
            let value = |name: &String| std::env::var(name).ok().filter(|value| !value.is_empty());
            let (values, source) = if let Some((name, value)) =
                variable.and_then(|name| Some((name.clone(), value(&name)?)))
            {
                (vec![value], SettingOrigin::Variable(name))
            } else if let Some((_, entry)) =
                taken.iter().find(|(one, _)| one.get_id() == arg.get_id())
            {
                (entry.values.clone(), SettingOrigin::File(entry))
            } else {
                let values = arg.get_default_values().iter();
                let values = values.map(|value| value.to_string_lossy().into_owned());
                (values.collect(), SettingOrigin::Default)
            };
            Some(CommandSetting {
                key,
                values,
                source,
            })
        };
        Ok(command.get_arguments().filter_map(of).collect())
    }
}

/// A command line completed with the settings of files.
#[derive(Debug)]
pub struct CompletedLine<'a> {
    /// The command line.
    pub line: CommandLine,
    /// The settings taken from files.
    pub taken: Vec<&'a ConfigEntry>,
}

/// A setting of a command.
#[derive(Debug)]
pub struct CommandSetting<'a> {
    /// The option's long name.
    pub key: &'a str,
    /// Its values; none if nothing sets it and there is no fixed default.
    pub values: Vec<String>,
    /// Where that comes from.
    pub source: SettingOrigin<'a>,
}

/// Where a setting comes from.
#[derive(Debug)]
pub enum SettingOrigin<'a> {
    /// A file.
    File(&'a ConfigEntry),
    /// An environment variable.
    Variable(String),
    /// The program.
    Default,
}

/// The command line with what clap adds to it.
fn built() -> Command {
    let mut command = args::command();
    command.build();
    command
}

/// The result of parsing a command line before it is checked.
///
/// `None` if help or the version is requested: a settings file must not prevent these.
fn lenient(arguments: &[OsString]) -> Option<ArgMatches> {
    let command = args::without_empty_variables(args::command());
    command
        .ignore_errors(true)
        .try_get_matches_from(arguments)
        .ok()
}

/// The key of an option in settings files; `None` for options that files cannot set.
fn key(arg: &Arg) -> Option<&str> {
    let name = match arg.get_long() {
        Some(long) => long,
        // A model can be the first argument, and is meant by the same variable.
        None if arg.get_env().is_some() => arg.get_id().as_str(),
        None => return None,
    };
    (!["help", "version", "config", "no-config"].contains(&name)).then_some(name)
}

/// The option of a command that a file's key means.
fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let aliases = |arg: &Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        aliases.contains(&name)
    };
    let mut options = command.get_arguments();
    options.find(|arg| key(arg).is_some_and(|key| key == name || aliases(arg)))
}

/// Whether an option takes no value: it is there or not.
fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

fn is_off(arg: &Arg, entry: &ConfigEntry) -> bool {
    is_switch(arg) && entry.values == ["false"]
}

/// The words of an entry for an option with a long name: one for each value, which begins with that name and `=`.
fn option_words(arg: &Arg, long: &str, entry: &ConfigEntry) -> Vec<String> {
    match arg.get_action() {
        ArgAction::SetTrue if entry.values == ["true"] => vec![format!("--{long}")],
        ArgAction::SetTrue => Vec::new(),
        ArgAction::Count => {
            let times = entry.values.first().and_then(|times| times.parse().ok());
            vec![format!("--{long}"); times.unwrap_or(0)]
        }
        _ => {
            let values = entry.values.iter();
            values.map(|value| format!("--{long}={value}")).collect()
        }
    }
}

/// An error of clap's type, for its format and exit code.
fn refusal(reason: String) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{reason}\n"))
}

/// clap's message about an option, with the file and line of the setting.
pub fn located(mut error: clap::Error, taken: &[&ConfigEntry]) -> clap::Error {
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg).cloned() else {
        return error;
    };
    let option = named.split([' ', '=']).next().unwrap_or_default();
    let option = option.trim_start_matches('-');
    if let Some(entry) = taken.iter().find(|entry| entry.key == option) {
        let place = format!("{} ({named})", entry.place);
        error.insert(ContextKind::InvalidArg, ContextValue::String(place));
    }
    error
}

/// Whether a path leads elsewhere in every folder.
fn is_relative(path: &str) -> bool {
    Path::new(path).is_relative() && path != "-"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use embedctl_testing::stride;

    use super::*;

    /// The arguments that each command requires.
    const TYPED: [&str; 11] = [
        "embed -o out.npy",
        "download org/name",
        "info",
        "export org/name out.onnx",
        "inspect a.npy",
        "verify-model m --against a.npy",
        "devices",
        "bench",
        "config",
        "completions bash",
        "man",
    ];

    /// Values that would be something else, were they words.
    const VALUES: [&str; 11] = [
        "--ort-lib=../evil.so",
        "-p",
        "--",
        "@file",
        "--help",
        "-",
        "--force --ort-lib=x",
        "a,--ort-lib=x",
        "=--ort-lib=x",
        "--config=evil.toml",
        "",
    ];

    /// The raw values of all arguments but `key`'s, and those of `key`.
    fn raw(
        matches: &ArgMatches,
        command: &Command,
        key: &str,
    ) -> (BTreeMap<String, Vec<OsString>>, Vec<OsString>) {
        let (mut others, mut own) = (BTreeMap::new(), Vec::new());
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let Ok(values) = matches.try_get_raw(id) else {
                continue;
            };
            let values = values.into_iter().flatten().map(OsString::from).collect();
            match super::key(arg) == Some(key) {
                true => own = values,
                false => drop(others.insert(id.to_owned(), values)),
            }
        }
        (others, own)
    }

    #[test]
    fn no_value_of_a_file_sets_another_option() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("embedctl.toml");
        let program = LazyCell::new(built);
        let (mut taken, mut refused) = (0, 0);
        for line in TYPED {
            let typed = || -> Vec<OsString> {
                std::iter::once("embedctl")
                    .chain(line.split(' '))
                    .map(OsString::from)
                    .collect()
            };
            let name = line.split(' ').next().unwrap();
            let command = program.find_subcommand(name).unwrap();
            let without = Config::default();
            let without = args::matches(&without.complete(typed()).unwrap().line).unwrap();
            let without = without.subcommand_matches(name).unwrap();
            let keys: Vec<&str> = command.get_arguments().filter_map(key).collect();
            let cases = keys
                .iter()
                .flat_map(|key| VALUES.map(|value| (*key, value)));
            for (key, value) in cases.step_by(stride(3)) {
                let text = serde_json::Value::from(value).to_string();
                let (own, list) = (format!("[{name}]\n"), format!("[{text}]"));
                // Of all values; the first ones stand for the rest in other places and as lists.
                let elsewhere = VALUES[..2].contains(&value);
                let cases = [
                    (FileKind::User, own.as_str(), &text),
                    (FileKind::Project, &own, &text),
                    (FileKind::Project, "", &text),
                    (FileKind::User, &own, &list),
                ];
                for (kind, table, text) in &cases[..if elsewhere { 4 } else { 1 }] {
                    fs::write(&path, format!("{table}{key} = {text}\n")).unwrap();
                    let case = format!("{name}: {key} = {text}");
                    let Ok(file) = ConfigFile::read(&path, *kind, &program) else {
                        continue;
                    };
                    let config = Config {
                        files: Vec::from_iter(file),
                        ..Config::default()
                    };
                    let completed = config.complete(typed()).unwrap();
                    let Some(entry) = completed.taken.first() else {
                        continue; // typed already
                    };
                    let (others, _) = raw(without, command, &entry.key);
                    match args::matches(&completed.line) {
                        Ok(matches) => {
                            let matches = matches.subcommand_matches(name).unwrap();
                            let (now, own) = raw(matches, command, &entry.key);
                            assert_eq!(now, others, "{case}");
                            let own: Vec<_> = own.iter().map(|one| one.to_string_lossy()).collect();
                            assert_eq!(own.join(","), entry.values.join(","), "{case}");
                            taken += 1;
                        }
                        Err(error) => {
                            use ErrorKind::{
                                InvalidValue, MissingRequiredArgument, ValueValidation,
                            };
                            let kinds = [InvalidValue, MissingRequiredArgument, ValueValidation];
                            assert!(kinds.contains(&error.kind()), "{case}: {error}");
                            refused += 1;
                        }
                    }
                }
            }
        }
        let most = 100 / stride(3);
        assert!(taken > most && refused > most, "{taken} {refused}");
    }
}
