//! `embedctl completions`: scripts that complete its command lines in a shell.

use std::fs;

use anyhow::Context;
use clap::ValueEnum;
use clap_complete::{Generator, Shell};

use crate::args::{self, CompletionsArgs};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints one shell's script, or writes all of them.
pub fn run(args: &CompletionsArgs, printer: &Printer) -> Result<ExitCode, Failure> {
    if let Some(folder) = &args.dir {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        for &shell in Shell::value_variants() {
            let path = folder.join(shell.file_name("embedctl"));
            fs::write(&path, script(shell))
                .with_context(|| format!("cannot write {}", path.display()))?;
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
    script
}
