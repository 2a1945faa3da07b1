//! The settings of LoRA adapters: `adapter_config.json` as peft reads it.
//!
//! The rules are those of peft 0.21. Every setting that peft reads and that changes a vector is applied or refused by
//! its name.

use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::{Map, Value};

use embedctl_common::error::{Error, Result};
use embedctl_common::remedies::MERGE_ADAPTER;
use embedctl_common::small_file;
use embedctl_common::word_list::lists;

/// Bytes of the settings at most.
const LARGEST: u64 = 16 << 20;

/// Settings that have no effect once an adapter is trained, or none on layers of the kinds that run here:
/// `fan_in_fan_out` is for transposed layers, which these networks do not have, and the `_config`s are for initial
/// values of a training.
const NEUTRAL: &str = "task_type auto_mapping peft_version revision inference_mode lora_dropout fan_in_fan_out
    loftq_config eva_config corda_config lora_ga_config runtime_config megatron_core qalora_group_size";

/// Settings that are applied.
const APPLIED: &str = "peft_type base_model_name_or_path r lora_alpha rank_pattern alpha_pattern use_rslora
    target_modules exclude_modules layers_to_transform layers_pattern modules_to_save bias init_lora_weights";

/// Initial values of a training that leave the network's own weights unchanged; other kinds change them.
const INITIAL: &str = "gaussian eva orthogonal";

/// A change to the weights of a network.
#[derive(Debug)]
pub enum Adapter {
    /// Low-rank weights in a file of their own, as peft writes them.
    LowRank(Box<LowRankAdapter>),
    /// The low-rank weights of the task of this name, which the network's checkpoint holds.
    Task(String),
}

impl Adapter {
    /// The one with a file of its own.
    #[must_use]
    pub fn low_rank(&self) -> Option<&LowRankAdapter> {
        match self {
            Self::LowRank(adapter) => Some(adapter),
            Self::Task(_) => None,
        }
    }
}

/// Low-rank weights in a file of their own, and where the network is that they change.
#[derive(Debug)]
pub struct LowRankAdapter {
    /// The settings in `adapter_config.json`.
    pub settings: AdapterSettings,
    /// `adapter_model.safetensors`.
    pub weights: PathBuf,
    /// The base model's name as the adapter gives it; `None` where the network lies beside the adapter.
    pub base: Option<String>,
}

impl LowRankAdapter {
    /// Its own files: settings and weights.
    #[must_use]
    pub fn files(&self) -> [PathBuf; 2] {
        [self.settings.file.clone(), self.weights.clone()]
    }
}

/// The modules that a setting names.
#[derive(Debug, Clone)]
enum TargetModules {
    /// Every linear layer.
    AllLinear,
    /// Modules whose whole name matches.
    Pattern(Regex),
    /// Modules of these names, and modules whose names end with one of these behind a dot.
    TensorNames(Vec<String>),
}

impl TargetModules {
    fn contain(&self, module: &str) -> bool {
        match self {
            Self::AllLinear => true,
            Self::Pattern(pattern) => pattern.is_match(module),
            Self::TensorNames(names) => names.iter().any(|name| {
                module
                    .strip_suffix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
        }
    }
}

/// The biases that an adapter brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Biases {
    None,
    OfAdapted,
    All,
}

/// The settings in `adapter_config.json`.
#[derive(Debug, Clone)]
pub struct AdapterSettings {
    /// The file.
    pub file: PathBuf,
    /// `base_model_name_or_path`.
    pub base: Option<String>,
    rank: f64,
    alpha: f64,
    /// Ranks and alphas of modules whose names match, the first that does.
    ranks: Vec<(Regex, f64)>,
    alphas: Vec<(Regex, f64)>,
    /// Divide by the root of the rank.
    rank_stabilized: bool,
    targets: TargetModules,
    excluded: Option<TargetModules>,
    /// `modules_to_save`, and the pattern that excludes them from the targets.
    saved: Vec<(String, Regex)>,
    biases: Biases,
    /// `layers_to_transform`, and where a module's name has its layer's number.
    layers: Option<(Vec<u64>, Vec<Regex>)>,
}

impl AdapterSettings {
    /// Reads and checks the settings in `file`.
    ///
    /// # Errors
    /// If it cannot be read, or holds a setting that is not known here.
    pub fn read(file: PathBuf) -> Result<Self> {
        let bytes = small_file::read(&file, LARGEST)
            .map_err(|error| Error::io("read", &file, error).with_remedy("fetch it again"))?;
        let settings: Map<String, Value> = serde_json::from_slice(
            bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes),
        )
        .map_err(|error| Error::model(file.display(), format!("is not readable: {error}")))?;
        Self::parse(&file, &settings)
            .map_err(|reason| Error::model(file.display(), reason).with_remedy(MERGE_ADAPTER))
    }

    fn parse(file: &Path, settings: &Map<String, Value>) -> Result<Self, String> {
        let fields = SettingFields(settings);
        fields.check()?;
        let saved = fields
            .words("modules_to_save")?
            .into_iter()
            .map(|name| {
                let inside = regex(r"^(?:|.*\.)(?:", &name, r")(?:$|\..*)");
                inside.map(|inside| (name, inside))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| fields.strange("modules_to_save"))?;
        Ok(Self {
            file: file.to_path_buf(),
            base: match fields.get("base_model_name_or_path") {
                None => None,
                Some(Value::String(base)) => Some(base.clone()).filter(|base| !base.is_empty()),
                Some(_) => return Err(fields.strange("base_model_name_or_path")),
            },
            rank: fields.positive("r", 8.0)?,
            alpha: fields.positive("lora_alpha", 8.0)?,
            ranks: fields.numbers("rank_pattern")?,
            alphas: fields.numbers("alpha_pattern")?,
            rank_stabilized: match fields.get("use_rslora") {
                None => false,
                Some(value) => (value.as_bool()).ok_or_else(|| fields.strange("use_rslora"))?,
            },
            targets: match fields.get("target_modules") {
                Some(Value::String(all)) if all.eq_ignore_ascii_case("all-linear") => {
                    TargetModules::AllLinear
                }
                _ => (fields.modules("target_modules")?).ok_or("names no target_modules")?,
            },
            excluded: fields.modules("exclude_modules")?,
            saved,
            biases: match fields.get("bias").map(Value::as_str) {
                None | Some(Some("none")) => Biases::None,
                Some(Some("lora_only")) => Biases::OfAdapted,
                Some(Some("all")) => Biases::All,
                Some(_) => return Err(fields.strange("bias")),
            },
            layers: fields.layers()?,
        })
    }

    /// Whether the linear layer `module` has low-rank weights.
    #[must_use]
    pub fn targets(&self, module: &str) -> bool {
        if self
            .excluded
            .as_ref()
            .is_some_and(|them| them.contain(module))
            || self.saved.iter().any(|(_, inside)| inside.is_match(module))
            || !self.targets.contain(module)
        {
            return false;
        }
        match (&self.layers, &self.targets) {
            // A pattern already names the layers.
            (Some((layers, places)), TargetModules::TensorNames(_)) => {
                let number = places.iter().find_map(|place| place.captures(module));
                let number = number.and_then(|found| found["layer"].parse().ok());
                number.is_some_and(|number: u64| layers.contains(&number))
            }
            _ => true,
        }
    }

    /// Whether the adapter may bring a tensor of its own in place of the network's, by its name: that of a module in
    /// `modules_to_save`, or a bias.
    #[must_use]
    pub fn replaces(&self, tensor: &str) -> bool {
        let (module, part) = tensor.rsplit_once('.').unwrap_or(("", tensor));
        let mut around = module
            .match_indices('.')
            .map(|(end, _)| &module[..end])
            .chain([module]);
        let is_saved =
            around.any(|module| self.saved.iter().any(|(name, _)| module.ends_with(name)));
        is_saved
            || part == "bias"
                && match self.biases {
                    Biases::None => false,
                    Biases::OfAdapted => self.targets(module),
                    Biases::All => true,
                }
    }

    /// The rank of the weights of `module`, and the factor of their product.
    #[must_use]
    pub fn rank_and_scale(&self, module: &str) -> (f64, f64) {
        let of = |patterns: &[(Regex, f64)], default: f64| {
            let mut fitting = patterns
                .iter()
                .filter(|(pattern, _)| pattern.is_match(module));
            fitting.next().map_or(default, |(_, value)| *value)
        };
        let (rank, alpha) = (of(&self.ranks, self.rank), of(&self.alphas, self.alpha));
        let divisor = if self.rank_stabilized {
            rank.sqrt()
        } else {
            rank
        };
        (rank, alpha / divisor)
    }
}

/// The fields of `adapter_config.json`; null counts as missing.
struct SettingFields<'a>(&'a Map<String, Value>);

/// The numbers of the layers that are adapted, and where a module's name has its layer's number.
type AdaptedLayers = (Vec<u64>, Vec<Regex>);

impl<'a> SettingFields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// The reason for which a field's value is refused.
    fn strange(&self, key: &str) -> String {
        let value = self.get(key).unwrap_or(&Value::Null);
        format!("has the setting \"{key}\": {value}, which embedctl does not know")
    }

    /// Checks that the settings are LoRA's, that every field is known, and that the adapter leaves the network's own weights
    /// unchanged.
    fn check(&self) -> Result<(), String> {
        if self.get("peft_type").is_none_or(|kind| kind != "LORA") {
            return Err(self.strange("peft_type"));
        }
        let is_off = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        let is_known =
            |key: &str, value: &Value| lists(NEUTRAL, key) || lists(APPLIED, key) || is_off(value);
        if let Some((key, _)) = self.0.iter().find(|(key, value)| !is_known(key, value)) {
            return Err(self.strange(key));
        }
        match self.get("init_lora_weights") {
            None | Some(Value::Bool(_)) => Ok(()),
            Some(Value::String(way)) if lists(INITIAL, &way.to_ascii_lowercase()) => Ok(()),
            Some(_) => Err(self.strange("init_lora_weights")),
        }
    }

    fn positive(&self, key: &str, default: f64) -> Result<f64, String> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|value| *value > 0.0)
                .ok_or_else(|| self.strange(key)),
        }
    }

    /// Numbers of modules whose names match.
    fn numbers(&self, key: &str) -> Result<Vec<(Regex, f64)>, String> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Object(map)) => {
                let each = map.iter().map(|(pattern, value)| {
                    let value = value.as_f64().filter(|value| *value > 0.0);
                    let pattern = regex(r"^(?:.*\.)?(?:", pattern, ")$");
                    pattern.zip(value).ok_or_else(|| self.strange(key))
                });
                each.collect()
            }
            Some(_) => Err(self.strange(key)),
        }
    }

    /// One word or several.
    fn words(&self, key: &str) -> Result<Vec<String>, String> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::String(one)) => Ok(vec![one.clone()]),
            Some(value) => {
                serde_json::from_value::<Vec<String>>(value.clone()).map_err(|_| self.strange(key))
            }
        }
    }

    /// The modules of a pattern or of a list of names.
    fn modules(&self, key: &str) -> Result<Option<TargetModules>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(pattern)) if pattern.is_empty() => Ok(None),
            Some(Value::String(pattern)) => regex("^(?:", pattern, ")$")
                .map(|pattern| Some(TargetModules::Pattern(pattern)))
                .ok_or_else(|| self.strange(key)),
            Some(_) => {
                let names = self.words(key)?;
                Ok((!names.is_empty()).then_some(TargetModules::TensorNames(names)))
            }
        }
    }

    /// The layers that are adapted; `None`: all.
    fn layers(&self) -> Result<Option<AdaptedLayers>, String> {
        let strange = || self.strange("layers_to_transform");
        let layers = match self.get("layers_to_transform") {
            None => Vec::new(),
            Some(Value::Number(one)) => vec![one.as_u64().ok_or_else(strange)?],
            Some(list) => {
                serde_json::from_value::<Vec<u64>>(list.clone()).map_err(|_| strange())?
            }
        };
        let patterns = self.words("layers_pattern")?;
        let places: Option<Vec<Regex>> = if patterns.iter().all(String::is_empty) {
            regex(r"^.*?\.[^.]*", "", r"\.(?P<layer>\d+)\.").map(|place| vec![place])
        } else {
            let place =
                |pattern: &String| regex(r"^(?:|.*?\.)(?:", pattern, r")\.(?P<layer>\d+)\.");
            patterns.iter().map(place).collect()
        };
        let places = places.ok_or_else(|| self.strange("layers_pattern"))?;
        Ok((!layers.is_empty()).then_some((layers, places)))
    }
}

/// A regular expression that means the same here as in Python, on the names of modules; `None` where it cannot be read
/// or might mean something else.
fn regex(before: &str, pattern: &str, behind: &str) -> Option<Regex> {
    let other = ["[[", "&&", "--", "~~", "*+", "++", "?+", "}+"];
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '(']) {
        let after = &rest[at + 1..];
        let next = after.chars().next()?;
        let is_alike = if rest[at..].starts_with('\\') {
            "dDwWsS".contains(next) || next.is_ascii_punctuation() && !"<>".contains(next)
        } else {
            next != '?' || after.starts_with("?:")
        };
        if !is_alike {
            return None;
        }
        // An escaped character escapes nothing.
        rest = if rest[at..].starts_with('\\') {
            &after[next.len_utf8()..]
        } else {
            after
        };
    }
    if other.iter().any(|part| pattern.contains(part)) {
        return None;
    }
    Regex::new(&format!("{before}{pattern}{behind}")).ok()
}
