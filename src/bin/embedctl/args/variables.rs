//! Environment variables with this program's prefix.

use std::collections::BTreeSet;

use clap::{Arg, Command};

const PREFIX: &str = "EMBEDCTL_";

/// Variables that are read elsewhere than in options: by the program, its build and its Python package.
const OTHERS: [&str; 4] = [
    "EMBEDCTL_BIN",
    "EMBEDCTL_CPU",
    "EMBEDCTL_KERNELS",
    "EMBEDCTL_LAST_SECONDS",
];

/// Beginnings of variables that only tests read.
const OF_TESTS: [&str; 3] = ["EMBEDCTL_TEST_", "EMBEDCTL_EMULAT", "EMBEDCTL_UPDATE_"];

/// What is wrong with each of the variables `set` that has the prefix and is no setting, in their order.
pub fn unknown(set: impl Iterator<Item = String>) -> Vec<String> {
    let may_be_unknown = |name: &String| {
        name.starts_with(PREFIX)
            && !OTHERS.contains(&name.as_str())
            && !OF_TESTS.iter().any(|start| name.starts_with(start))
    };
    let mut unknown: BTreeSet<String> = set.filter(may_be_unknown).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let command = super::command();
    let known: BTreeSet<String> = of_options(&command)
        .chain(OTHERS.map(str::to_owned))
        .collect();
    unknown.retain(|name| !known.contains(name));
    let told = unknown.iter().map(|name| {
        let near = known.iter().filter(|one| is_misspelling(name, one));
        let near = near.min_by_key(|one| strsim::osa_distance(name, one));
        let meant = match (near, option(&command, name)) {
            (Some(near), _) => format!("; did you mean {near}?"),
            (None, Some(option)) => format!("; the option is {option}"),
            (None, None) => String::new(),
        };
        format!("the environment variable {name} is not a setting{meant}")
    });
    told.collect()
}

/// Whether one variable's name may be meant for another: but for case and underscores it is the same, or a letter in four
/// is wrong, two at most.
fn is_misspelling(given: &str, known: &str) -> bool {
    let letters = |name: &str| {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        name.replace('_', "").to_ascii_uppercase()
    };
    let (given, known) = (letters(given), letters(known));
    let wrong = strsim::osa_distance(&given, &known);
    wrong <= 2 && 4 * wrong <= given.len()
}

/// The option that a variable would set by its name: `--threads` for `EMBEDCTL_THREADS`.
fn option(command: &Command, name: &str) -> Option<String> {
    let long = name.strip_prefix(PREFIX)?;
    let long = long.to_ascii_lowercase().replace('_', "-");
    let mut args = all_args(command);
    let is_known = args.any(|arg| arg.get_long() == Some(&long));
    is_known.then(|| format!("--{long}"))
}

/// The variables that set options of any command.
fn of_options(command: &Command) -> impl Iterator<Item = String> {
    all_args(command)
        .filter_map(Arg::get_env)
        .map(|name| name.to_string_lossy().into_owned())
}

/// The options of all commands.
fn all_args(command: &Command) -> impl Iterator<Item = &Arg> {
    let commands = std::iter::once(command).chain(command.get_subcommands());
    commands.flat_map(Command::get_arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_variables_with_the_prefix_are_told() {
        let set = [
            "PATH",
            "EMBEDCTL_MODEL",
            "EMBEDCTL_CONFIG",
            "EMBEDCTL_CPU",
            "EMBEDCTL_TEST_CASE",
            "EMBEDCTL_MODLE",
            "EMBEDCTL_BATCH_SIZE",
            "EMBEDCTL_OFFLINE",
            "EMBEDCTL_OUTPUT",
            "EMBEDCTL_THREADS",
            "EMBEDCTL_NOCONFIG",
            "EMBEDCTL_GPU",
            "EMBEDCTL_Model",
        ];
        let told = unknown(set.into_iter().map(str::to_owned));
        let expected = [
            ("BATCH_SIZE", "; the option is --batch-size"),
            ("GPU", ""),
            ("MODLE", "; did you mean EMBEDCTL_MODEL?"),
            ("Model", "; did you mean EMBEDCTL_MODEL?"),
            ("NOCONFIG", "; did you mean EMBEDCTL_NO_CONFIG?"),
            ("OFFLINE", "; the option is --offline"),
            ("OUTPUT", "; the option is --output"),
            ("THREADS", "; the option is --threads"),
        ];
        let expected = expected.map(|(name, meant)| {
            format!("the environment variable EMBEDCTL_{name} is not a setting{meant}")
        });
        assert_eq!(told, expected);
    }
}
