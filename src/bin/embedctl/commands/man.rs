//! `embedctl man`: manual pages made from the same definitions as `--help`.

use std::fs;
use std::io;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use embedctl_common::atomic::NamedFile;

use crate::args::{self, ManArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::Printer;

/// Prints one page, or writes all of them.
pub fn run(args: &ManArgs, printer: &Printer) -> Result<ExitCode, CommandFailure> {
    let mut tool = args::command().disable_help_subcommand(true);
    // Gives every subcommand its full name, `embedctl-embed`, and the global options.
    tool.build();
    let pages = std::iter::once(&tool).chain(tool.get_subcommands());
    if let Some(folder) = &args.dir {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        for command in pages {
            let path = folder.join(Man::new(command.clone()).get_filename());
            let page = render(command).context("cannot render a page")?;
            let written = NamedFile::find(&path).and_then(|file| file.replace(&page));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(ExitCode::Done);
    }
    let wanted = args.command.as_deref().unwrap_or("embedctl");
    for command in pages.filter(|command| command.get_name() == wanted) {
        printer.data(&render(command).context("cannot render the page")?)?;
    }
    Ok(ExitCode::Done)
}

fn render(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone()).source(concat!("embedctl ", env!("CARGO_PKG_VERSION")));
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    closing_sections(command).to_writer(&mut page)?;
    Ok(page)
}

/// The usage line, instead of a list of all options before the list of all options.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    section.text([roman(usage.trim_start_matches("Usage:").trim())]);
    section
}

/// The end of `--help`: a line such as `Examples:` becomes a heading, and the lines below
/// it keep their form.
fn closing_sections(command: &Command) -> Roff {
    let mut sections = Roff::new();
    let Some(help) = command.get_after_long_help() else {
        return sections;
    };
    for line in help.to_string().lines() {
        match line.strip_suffix(':') {
            Some(title) if !line.starts_with(' ') => {
                sections.control("SH", [title.to_uppercase().as_str()]);
                // No filling: until the next heading, which brings it back.
                sections.control("nf", []);
            }
            _ => {
                sections.text([roman(line)]);
            }
        }
    }
    sections.control("fi", []);
    sections
}
