//! Provider options (`NAME=VALUE`): settings of a provider beside its device, and their checks.
//!
//! The list is short on purpose: an option must matter for speed, memory or the vectors. Values are checked before
//! anything is loaded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Provider;
use embedctl_common::error::Cause;
use embedctl_common::size;

/// A provider's option with its value, as in `openvino.precision=bf16`. It stays this type from the command
/// line to the registration of the provider; in files it stands as it is written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderOption {
    /// Whose option it is.
    pub provider: Provider,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: OptionValue,
}

/// The value of a provider's option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionValue {
    /// `true` or `false`.
    Flag(bool),
    /// One of the option's words.
    Word(&'static str),
    /// A count, or a size in bytes.
    Number(usize),
}

impl OptionValue {
    /// Whether it is `true`.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::Flag(true)
    }

    /// The word, where it is one.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Flag(_) | Self::Number(_) => None,
        }
    }

    /// The count or size, where it is one.
    #[must_use]
    pub fn number(self) -> Option<usize> {
        match self {
            Self::Number(number) => Some(number),
            Self::Flag(_) | Self::Word(_) => None,
        }
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Word(word) => f.write_str(word),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// The last value of `provider`'s option `name` among `options`.
#[must_use]
pub fn value_of(options: &[ProviderOption], provider: Provider, name: &str) -> Option<OptionValue> {
    let mut own = options.iter().rev();
    let found = own.find(|one| one.provider == provider && one.name == name)?;
    Some(found.value)
}

/// The option that says where token states become vectors.
pub const POOLING: &str = "pooling";

/// The option that keeps the weights of a built graph in the checkpoint's numbers.
pub const NARROW_WEIGHTS: &str = "narrow-weights";

/// The valid values of an option.
enum OptionValues {
    /// `true` or `false`.
    Flag,
    /// One of these; the first is the default.
    OneOf(&'static [&'static str]),
    /// A size such as `8GiB`.
    Bytes,
    /// A whole number of at least 1.
    Count,
}

struct KnownOption {
    provider: Provider,
    name: &'static str,
    values: OptionValues,
    /// Its description, for the command's help.
    help: &'static str,
}

/// All options, one per line: provider, name, values, description.
macro_rules! known {
    ($($provider:ident.$name:literal = $values:ident $(($words:expr))?, $help:literal;)+) => {
        const KNOWN: [KnownOption; [$($name),+].len()] = [$(KnownOption {
            provider: Provider::$provider,
            name: $name,
            values: OptionValues::$values $(($words))?,
            help: $help,
        }),+];
    };
}

known! {
    Cpu."pooling" = OneOf(&["host", "graph"]), "where token states become vectors";
    Cpu."narrow-weights" = Flag, "weights stay in fp16 or bf16; by memory unless set";
    Cuda."engine" = OneOf(&["own", "onnxruntime"]), "who runs a checkpoint; own unless set";
    Cuda."memory-limit" = Bytes, "device memory for the arena";
    Cuda."arena" = OneOf(&["exact", "doubling"]), "how the arena grows";
    Cuda."tf32" = Flag, "TensorFloat-32 products: faster, less exact";
    Cuda."pooling" = OneOf(&["graph", "host"]), "where token states become vectors";
    Cuda."binding" = Flag, "inputs and outputs bound to device memory; true unless set";
    TensorRt."precision" = OneOf(&["fp32", "fp16", "bf16"]), "arithmetic of an fp32 model";
    TensorRt."tf32" = Flag, "TensorFloat-32 products: faster, less exact";
    TensorRt."memory-limit" = Bytes, "workspace while an engine is built";
    TensorRt."cache" = Flag, "keep built engines in the cache folder";
    OpenVino."device" = OneOf(&["CPU", "GPU", "NPU"]), "which of OpenVINO's devices";
    OpenVino."precision" = OneOf(&["fp32", "bf16", "fp16"]), "arithmetic of an fp32 model";
    OpenVino."threads" = Count, "threads of a worker";
    WebGpu."backend" = OneOf(&["vulkan", "d3d12"]), "graphics interface";
    CoreMl."units" = OneOf(&["all", "gpu", "ane"]), "processors to use beside the CPU";
    CoreMl."cache" = Flag, "keep compiled models in the cache folder";
    MiGraphX."precision" = OneOf(&["fp32", "fp16"]), "arithmetic of an fp32 model";
    MiGraphX."memory-limit" = Bytes, "device memory for the arena";
    Xnnpack."threads" = Count, "threads of a worker";
}

impl KnownOption {
    fn spell(&self) -> String {
        let values = match self.values {
            OptionValues::Flag => "true|false".to_owned(),
            OptionValues::OneOf(values) => values.join("|"),
            OptionValues::Bytes => "SIZE".to_owned(),
            OptionValues::Count => "N".to_owned(),
        };
        format!("{}.{}={values}", self.provider, self.name)
    }

    fn check(&self, value: &str) -> Result<OptionValue, Cause> {
        let taken = match self.values {
            OptionValues::Flag => match value.to_ascii_lowercase().as_str() {
                "true" => Some(OptionValue::Flag(true)),
                "false" => Some(OptionValue::Flag(false)),
                _ => None,
            },
            OptionValues::OneOf(words) => words
                .iter()
                .find(|one| one.eq_ignore_ascii_case(value))
                .map(|word| OptionValue::Word(word)),
            OptionValues::Bytes => size::parse(value).ok().map(OptionValue::Number),
            OptionValues::Count => value
                .parse()
                .ok()
                .filter(|&count| count > 0)
                .map(OptionValue::Number),
        };
        taken.ok_or_else(|| format!("'{value}' is not valid here: {}", self.spell()).into())
    }
}

impl ProviderOption {
    /// All options with values and descriptions, one per line, for the command's help.
    #[must_use]
    pub fn help() -> String {
        let spelled = KNOWN.map(|known| (known.spell(), known.help));
        let width = spelled.iter().map(|(name, _)| name.len()).max();
        let width = width.unwrap_or_default();
        let lines: Vec<String> = spelled
            .iter()
            .map(|(name, help)| format!("  {name:width$}  {help}"))
            .collect();
        lines.join("\n")
    }
}

impl fmt::Display for ProviderOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}={}", self.provider, self.name, self.value)
    }
}

impl Serialize for ProviderOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProviderOption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl FromStr for ProviderOption {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Cause> {
        let parts = text
            .split_once('=')
            .and_then(|(name, value)| Some((name.split_once('.')?, value)));
        let Some(((provider, name), value)) = parts else {
            return Err(Cause::of(format!("'{text}' is not a provider option"))
                .with("write PROVIDER.NAME=VALUE, such as openvino.precision=bf16"));
        };
        let provider: Provider = provider.parse()?;
        let name = name.trim();
        let of_provider = || KNOWN.iter().filter(|known| known.provider == provider);
        let known = of_provider()
            .find(|known| known.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let names: Vec<String> = of_provider().map(KnownOption::spell).collect();
                if names.is_empty() {
                    Cause::of(format!("the provider {provider} has no options"))
                } else {
                    Cause::of(format!("the provider {provider} has no option '{name}'"))
                        .with(format!("it has {}", names.join(", ")))
                }
            })?;
        Ok(Self {
            provider,
            name: known.name,
            value: known.check(value.trim())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_provider_a_name_and_a_checked_value() {
        let option: ProviderOption = "OpenVINO.precision=BF16".parse().unwrap();
        assert_eq!(option.to_string(), "openvino.precision=bf16");
        let option: ProviderOption = "gpu.memory-limit=2GiB".parse().unwrap();
        assert_eq!(
            (option.provider, option.value),
            (Provider::Cuda, OptionValue::Number(2 << 30))
        );
        let option: ProviderOption = "openvino.device=gpu".parse().unwrap();
        assert_eq!(option.value, OptionValue::Word("GPU"));
    }

    #[test]
    fn what_is_refused_names_what_is_possible() {
        for (text, named) in [
            ("precision=bf16", "PROVIDER.NAME=VALUE"),
            ("openvino", "PROVIDER.NAME=VALUE"),
            ("npu.precision=bf16", "unknown provider 'npu'"),
            ("rten.threads=2", "has no options"),
            (
                "cuda.precision=fp16",
                "cuda.engine=own|onnxruntime, cuda.memory-limit=SIZE, cuda.arena=exact|doubling",
            ),
            ("cpu.operators=fused", "cpu.pooling=host|graph"),
            ("cuda.tf32=maybe", "cuda.tf32=true|false"),
            ("cuda.memory-limit=0", "cuda.memory-limit=SIZE"),
            ("cuda.memory-limit=99999999999GiB", "cuda.memory-limit=SIZE"),
            ("openvino.threads=0", "openvino.threads=N"),
        ] {
            let reason = text.parse::<ProviderOption>().unwrap_err().to_string();
            assert!(reason.contains(named), "{text}: {reason}");
        }
    }

    #[test]
    fn every_option_can_be_given_and_stands_in_the_help() {
        let help = ProviderOption::help();
        for known in &KNOWN {
            let value = match known.values {
                OptionValues::Flag => "true",
                OptionValues::OneOf(values) => values[0],
                OptionValues::Bytes => "1GiB",
                OptionValues::Count => "3",
            };
            let text = format!("{}.{}={value}", known.provider, known.name);
            assert!(text.parse::<ProviderOption>().is_ok(), "{text}");
            assert!(help.contains(&known.spell()), "{text}");
        }
    }
}
