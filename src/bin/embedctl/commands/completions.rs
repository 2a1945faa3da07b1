//! `embedctl completions`: scripts that complete its command lines in a shell.

use std::fs;
use std::string::FromUtf8Error;

use anyhow::Context;
use clap::ValueEnum;
use clap_complete::{Generator, Shell};
use embedctl_common::atomic::NamedFile;

use crate::args::{self, CompletionsArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::Printer;

/// Prints one shell's script, or writes all of them.
pub fn run(args: &CompletionsArgs, printer: &Printer) -> Result<ExitCode, CommandFailure> {
    if let Some(folder) = &args.dir {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        for &shell in Shell::value_variants() {
            let path = folder.join(shell.file_name("embedctl"));
            let written = NamedFile::find(&path).and_then(|file| file.replace(&script(shell)));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    if let Some(shell) = args.shell {
        printer.data(&script(shell))?;
    }
    Ok(ExitCode::Done)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "embedctl", &mut script);
    match (shell, String::from_utf8(script)) {
        (Shell::Bash, Ok(script)) => with_files(&script).into_bytes(),
        // `help` counts as the command that it is asked about, so that it would offer none.
        (Shell::Fish, Ok(script)) => script.replace(" help\" -f -a", "\" -f -a").into_bytes(),
        (_, script) => script.map_or_else(FromUtf8Error::into_bytes, String::into_bytes),
    }
}

/// clap's script for bash offers the names of arguments (`[INPUT]...`) instead of files: those names are left
/// out, and where `embed` and `score` expect a file, bash's own completion, of files, is left to its work.
fn with_files(script: &str) -> String {
    const OPTIONS: &str = r#"COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )"#;
    const OF_FILES: [&str; 2] = ["embedctl__subcmd__embed)", "embedctl__subcmd__score)"];
    let mut command = "";
    let mut files = String::new();
    let mut after_options = false;
    for line in script.lines() {
        let (space, text) = line.split_at(line.len() - line.trim_start().len());
        if text.starts_with("embedctl__subcmd") && text.ends_with(')') {
            (command, after_options) = (text, false);
        }
        let takes_files = OF_FILES.contains(&command);
        after_options |= text == "esac";
        let text = if let Some(options) = text.strip_prefix("opts=\"") {
            let names = options
                .split(' ')
                .filter(|name| !name.starts_with(['[', '<']));
            let names = names.collect::<Vec<_>>().join(" ");
            format!("opts=\"{}\"", names.trim_end_matches('"'))
        } else if takes_files && text.starts_with("if [[ ${cur} == -* ||") {
            "if [[ ${cur} == -* ]] ; then".to_owned()
        } else if takes_files && after_options && text == OPTIONS {
            "COMPREPLY=()".to_owned()
        } else {
            text.to_owned()
        };
        files = files + space + &text + "\n";
    }
    files
}
