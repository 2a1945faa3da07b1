//! Options of `embedctl devices`.

use clap::Args;
use embedctl::engine::Provider;

use super::engine::LibraryArgs;
use super::values::NamedValueParser;

/// Show hardware, runtimes and working providers, and why the others do not work
///
/// Every provider of every ONNX Runtime library that is found runs a small graph in a separate process, and works if
/// the result is correct. The table or JSON goes to standard output.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct DevicesArgs {
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,

    /// Exit with 1 and the reason unless these providers work; separated by commas
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
  Show everything:
    embedctl devices

  In a script, stop early if the GPU cannot be used:
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
  1    failed, or a required provider does not work
  2    wrong options
  130  interrupted";
