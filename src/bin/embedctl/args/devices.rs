//! Options of `embedctl devices`.

use clap::Args;
use embedctl::engine::Provider;

use super::engine::LibraryArgs;
use super::values::NamedValueParser;

/// Show what hardware and runtimes are here, which providers work, and what the others lack
///
/// Every provider of every ONNX Runtime library that is found computes a small graph, in a process of its
/// own; it works if the result is right. The table, or the JSON, goes to standard output.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct DevicesArgs {
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,

    /// Exit with 1, and say why, unless these providers work; with commas between
    #[arg(
        long,
        value_name = "PROVIDERS",
        value_delimiter = ',',
        value_parser = NamedValueParser::new(Provider::ALL.map(Provider::name), str::parse::<Provider>),
        hide_possible_values = true
    )]
    pub require: Vec<Provider>,

    #[command(flatten, next_help_heading = "Engine")]
    pub library: LibraryArgs,
}

const EXAMPLES: &str = "\
Examples:
  What is here:
    embedctl devices

  In a script, stop early where the GPU can't be used:
    embedctl devices --require cuda > devices.txt || exit 1

  The memory of each GPU, and why a provider does not work:
    embedctl devices --json | jq '.hardware.gpus[].memory, .providers.cuda.reason'

JSON:
  schema              1
  version, os, arch   of this program
  hardware            cpu, memory, gpus, npus, nvidia, vulkan; sizes in bytes
  libraries           the ONNX Runtime libraries, each with version and providers
  providers           by name: status (works, unusable, absent), reason, remedy, library, …

Exit codes:
  0    done
  1    failed, or a provider that is required does not work
  2 wrong options
  130  interrupted";
