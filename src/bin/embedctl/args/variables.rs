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
    let command = super::command();
    let known: BTreeSet<String> = of_options(&command)
        .chain(OTHERS.map(str::to_owned))
        .collect();
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX)
            && !known.contains(name)
            && !OF_TESTS.iter().any(|start| name.starts_with(start))
    };
    let unknown: BTreeSet<String> = set.filter(is_unknown).collect();
    let told = unknown.iter().map(|name| {
        let near = known
            .iter()
            .min_by_key(|one| strsim::osa_distance(name, one));
        let near = near.filter(|one| super::refused::is_near(name, one));
        let meant = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("the environment variable {name} is not a setting{meant}")
    });
    told.collect()
}

/// The variables that set options of any command.
fn of_options(command: &Command) -> impl Iterator<Item = String> {
    let commands = std::iter::once(command).chain(command.get_subcommands());
    let args = commands.flat_map(Command::get_arguments);
    args.filter_map(Arg::get_env)
        .map(|name| name.to_string_lossy().into_owned())
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
        ];
        let told = unknown(set.into_iter().map(str::to_owned));
        assert_eq!(
            told,
            [
                "the environment variable EMBEDCTL_BATCH_SIZE is not a setting",
                "the environment variable EMBEDCTL_MODLE is not a setting; did you mean EMBEDCTL_MODEL?",
            ]
        );
    }
}
