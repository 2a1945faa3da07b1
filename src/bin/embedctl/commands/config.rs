//! `embedctl config`: which settings are in force, and where each comes from.

use serde_json::{Value, json};

use crate::args::{self, ConfigArgs};
use crate::config::{CommandSetting, Config, SettingOrigin};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::{Printer, config_table};

/// Prints them.
pub fn run(
    args: &ConfigArgs,
    config: &Config,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let mut program = args::command();
    program.build();
    let wanted = |name: &str| match &args.command {
        Some(command) => command == name,
        None => name != "help",
    };
    let mut settings = Vec::new();
    for command in program.get_subcommands() {
        let name = command.get_name();
        if wanted(name) {
            let of_command = config.settings(command).map_err(|error| {
                CommandFailure::usage(error.to_string().trim_start_matches("error: ").trim())
            })?;
            settings.extend(of_command.into_iter().map(|setting| (name, setting)));
        }
    }
    if args.json {
        printer.pretty(&fields(config, &settings))?;
    } else {
        settings.retain(|(_, setting)| {
            let said = !matches!(setting.source, SettingOrigin::Default);
            said || (args.all && !setting.values.is_empty())
        });
        printer.text(&config_table(config, &settings))?;
    }
    Ok(ExitCode::Done)
}

fn fields(config: &Config, settings: &[(&str, CommandSetting<'_>)]) -> Value {
    let files = config
        .files
        .iter()
        .map(|file| json!({"path": file.path, "kind": file.kind.name(), "there": true}));
    let absent =
        (config.absent.iter()).map(|path| json!({"path": path, "kind": "user", "there": false}));
    let settings = settings.iter().map(|(command, setting)| {
        let (source, file, line, variable) = match &setting.source {
            SettingOrigin::File(entry) => (
                "file",
                Some(&entry.place.file),
                Some(entry.place.line),
                None,
            ),
            SettingOrigin::Variable(name) => ("environment", None, None, Some(name)),
            SettingOrigin::Default => ("default", None, None, None),
        };
        json!({
            "command": command,
            "key": setting.key,
            "values": setting.values,
            "source": source,
            "file": file,
            "line": line,
            "variable": variable,
        })
    });
    json!({
        "schema": 1,
        "files": files.chain(absent).collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
    })
}
