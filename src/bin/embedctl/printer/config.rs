//! The table of `embedctl config`, for people.

use super::table::TextTable;
use crate::config::{CommandSetting, Config, SettingOrigin};

/// The table.
pub fn table(config: &Config, settings: &[(&str, CommandSetting<'_>)]) -> TextTable {
    let mut table = TextTable::default();
    table.line("Files, nearest first");
    for file in &config.files {
        table.line(&format!("  {}", file.path.display()));
    }
    for path in &config.absent {
        table.line(&format!("  {} (does not exist)", path.display()));
    }
    if config.files.is_empty() && config.absent.is_empty() {
        table.line("  none is read");
    }
    let mut last = "";
    for (command, setting) in settings {
        if *command != last {
            table.line("");
            table.line(command);
            last = command;
        }
        let source = match &setting.source {
            SettingOrigin::File(entry) => entry.place.to_string(),
            SettingOrigin::Variable(name) => name.clone(),
            SettingOrigin::Default => "default".to_owned(),
        };
        let key = setting.key;
        table.line(&format!(
            "  {key:<18} {}  ({source})",
            setting.values.join(", ")
        ));
    }
    if settings.is_empty() {
        table.line("");
        table.line("No file or variable sets an option; --all shows the defaults.");
    }
    table
}
