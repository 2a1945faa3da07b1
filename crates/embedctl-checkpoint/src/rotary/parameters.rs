//! Rope parameters of a configuration, and the frequencies that each kind of scaling makes of them.
//!
//! All arithmetic is in f32 where the reference's is, so that angles agree in their last bit or nearly so.

use serde_json::{Map, Value};

use super::{Rotary, RotarySets, RotaryShape};
use crate::settings::{ConfigSettings, Supported, Unsupported};
use embedctl_common::word_list::lists;

/// The parameter for the positions that the model had before it was stretched.
pub(super) const TRAINED: &str = "original_max_position_embeddings";

/// The parameter for the part of a head that is turned.
pub(super) const PART: &str = "partial_rotary_factor";

/// A set of rope parameters.
pub(super) struct RopeParameters<'a> {
    settings: &'a ConfigSettings,
    values: &'a Map<String, Value>,
    shape: RotaryShape,
    /// The scaling.
    kind: &'a str,
}

/// Frequencies after a scaling.
struct ScaledFrequencies {
    /// For rows of any length, or short ones.
    short: Vec<f32>,
    /// For rows longer than so many tokens.
    long: Option<(usize, Vec<f32>)>,
    /// Factor of cosines and sines.
    scale: f32,
}

impl ScaledFrequencies {
    fn is_finite(&self) -> bool {
        let long = self.long.iter().flat_map(|(_, long)| long);
        let mut numbers = self.short.iter().chain(long).chain([&self.scale]);
        numbers.all(|one| one.is_finite())
    }
}

impl From<Vec<f32>> for ScaledFrequencies {
    fn from(short: Vec<f32>) -> Self {
        Self {
            short,
            long: None,
            scale: 1.0,
        }
    }
}

/// Frequencies before a scaling.
struct PlainFrequencies {
    base: f64,
    /// Channels of a head that are turned.
    channels: usize,
    /// `base` to the power of each pair's place, from 0 to 1.
    powers: Vec<f32>,
}

impl PlainFrequencies {
    #[allow(clippy::cast_precision_loss)]
    fn new(base: f64, channels: usize) -> Self {
        let powers = (0..channels)
            .step_by(2)
            .map(|index| narrow(base).powf(index as f32 / channels as f32))
            .collect();
        Self {
            base,
            channels,
            powers,
        }
    }

    fn values(&self) -> Vec<f32> {
        self.powers.iter().map(|power| 1.0 / power).collect()
    }
}

#[allow(clippy::cast_possible_truncation)]
fn narrow(number: f64) -> f32 {
    number as f32
}

impl<'a> RopeParameters<'a> {
    /// The parameters `values` of a model with heads of `shape`.
    ///
    /// # Errors
    /// If they name a scaling or a parameter that is not known.
    pub(super) fn new(
        settings: &'a ConfigSettings,
        values: &'a Map<String, Value>,
        shape: RotaryShape,
    ) -> Supported<Self> {
        let mut parameters = Self {
            settings,
            values,
            shape,
            kind: "default",
        };
        if !shape.head_size.is_multiple_of(2) {
            return Err(settings.refuse(format!(
                "rotary positions need an even head size, not {}",
                shape.head_size
            )));
        }
        if let Some(kind) = values.get("rope_type").or_else(|| values.get("type")) {
            parameters.kind = kind
                .as_str()
                .ok_or_else(|| parameters.refuse("rope_type"))?;
        }
        parameters.check_names()?;
        Ok(parameters)
    }

    fn check_names(&self) -> Supported<()> {
        let own = match self.kind {
            "default" => "",
            "linear" => "factor",
            "llama3" => "factor low_freq_factor high_freq_factor",
            "yarn" => "factor attention_factor beta_fast beta_slow mscale mscale_all_dim truncate",
            "dynamic" => "factor",
            "ntk" if self.shape.own_ntk => "factor mixed_b",
            "longrope" | "su" => "factor attention_factor short_factor long_factor",
            _ => {
                return Err(self.refuse(if self.values.contains_key("rope_type") {
                    "rope_type"
                } else {
                    "type"
                }));
            }
        };
        let general =
            "rope_type type rope_theta partial_rotary_factor original_max_position_embeddings";
        let unknown = self
            .values
            .iter()
            .find(|(name, value)| !value.is_null() && !lists(general, name) && !lists(own, name));
        match unknown {
            Some((name, _)) => Err(self.refuse(name)),
            None => Ok(()),
        }
    }

    fn refuse(&self, name: &str) -> Unsupported {
        let value = self.values.get(name).unwrap_or(&Value::Null);
        self.settings.refuse(format!(
            "the rotary setting \"{name}\": {value} is not supported by the native engine"
        ))
    }

    /// A number above zero.
    fn number(&self, name: &str) -> Supported<Option<f64>> {
        match self.values.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|number| number.is_finite() && *number > 0.0)
                .map(Some)
                .ok_or_else(|| self.refuse(name)),
        }
    }

    fn required(&self, name: &str) -> Supported<f64> {
        self.number(name)?.ok_or_else(|| self.refuse(name))
    }

    /// Positions of the model before it was stretched to longer texts.
    #[allow(clippy::cast_precision_loss)]
    fn trained(&self) -> Supported<f64> {
        let trained = self.number(TRAINED)?;
        Ok(trained.unwrap_or(self.shape.positions as f64))
    }

    /// How many times as many positions the model has as before.
    #[allow(clippy::cast_precision_loss)]
    fn stretch(&self, trained: f64) -> Supported<f64> {
        let factor = self.number("factor")?;
        Ok(factor.unwrap_or(self.shape.positions as f64 / trained))
    }

    /// Whether the scaling starts from the trained length.
    pub(super) fn reads_trained(&self) -> bool {
        ["llama3", "yarn", "longrope", "su"].contains(&self.kind)
    }

    /// Whether `partial_rotary_factor` is read: by every scaling of transformers, and by some classes without one.
    fn reads_part(&self) -> bool {
        self.shape.partial || !["default", "ntk"].contains(&self.kind)
    }

    /// The parameters that say something and that nothing reads.
    fn unread(&self) -> Supported<Vec<&'static str>> {
        let trained = self.number(TRAINED)?.filter(|_| !self.reads_trained());
        let part = self.number(PART)?.filter(|_| !self.reads_part());
        let part = part.filter(|part| part.to_bits() != 1.0_f64.to_bits());
        let names = [trained.map(|_| TRAINED), part.map(|_| PART)];
        Ok(names.into_iter().flatten().collect())
    }

    /// Channels of a head that are turned.
    fn turned_channels(&self) -> Supported<usize> {
        let name = PART;
        let head_size = self.shape.head_size;
        let turned = match self.number(name)?.filter(|_| self.reads_part()) {
            None | Some(1.0) => head_size,
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss
            )]
            // Other classes fail where a scaling turns a part.
            Some(part) if part < 1.0 && self.shape.partial => (head_size as f64 * part) as usize,
            Some(_) => return Err(self.refuse(name)),
        };
        if turned == 0 || !turned.is_multiple_of(2) {
            return Err(self.refuse(name));
        }
        Ok(turned)
    }

    /// The frequencies that the parameters ask for.
    ///
    /// # Errors
    /// If a parameter is missing, or has a value that is not supported.
    pub(super) fn sets(&self) -> Supported<RotarySets> {
        let channels = self.turned_channels()?;
        let base = self.number("rope_theta")?.unwrap_or(self.shape.theta);
        let plain = PlainFrequencies::new(base, channels);
        let scaled = match self.kind {
            "linear" => self.linear(&plain)?,
            "llama3" => self.llama3(&plain)?,
            "yarn" => self.yarn(&plain)?,
            "ntk" => self.ntk(&plain)?,
            "longrope" | "su" => self.longrope(&plain)?,
            _ => plain.values().into(),
        };
        let scale = scaled.scale;
        let set = |frequencies: Vec<f32>| Rotary {
            frequencies,
            precise: None,
            scale,
            stored: None,
            beyond: None,
        };
        if !scaled.is_finite() {
            return Err(self
                .settings
                .refuse("the rotary settings give frequencies that are not finite"));
        }
        Ok(RotarySets {
            short: set(scaled.short),
            long: scaled.long.map(|(limit, long)| (limit, set(long))),
            longest: (self.kind == "dynamic").then_some(self.shape.positions),
            unread: self.unread()?,
        })
    }

    fn linear(&self, plain: &PlainFrequencies) -> Supported<ScaledFrequencies> {
        let factor = narrow(self.required("factor")?);
        let frequencies = plain.values().into_iter();
        let slower: Vec<f32> = frequencies.map(|one| one / factor).collect();
        Ok(slower.into())
    }

    /// Llama 3 slows down long waves alone, and those of medium length in part.
    fn llama3(&self, plain: &PlainFrequencies) -> Supported<ScaledFrequencies> {
        let factor = narrow(self.required("factor")?);
        let low = self.required("low_freq_factor")?;
        let high = self.required("high_freq_factor")?;
        let trained = self.trained()?;
        let scaled = |frequency: f32| {
            let length = narrow(2.0 * std::f64::consts::PI) / frequency;
            let is_long = length > narrow(trained / low);
            let slow = if is_long {
                frequency / factor
            } else {
                frequency
            };
            let is_medium = !is_long && length >= narrow(trained / high);
            if is_medium {
                let smooth = (narrow(trained) / length - narrow(low)) / narrow(high - low);
                (1.0 - smooth) * slow / factor + smooth * slow
            } else {
                slow
            }
        };
        let frequencies: Vec<f32> = plain.values().into_iter().map(scaled).collect();
        Ok(frequencies.into())
    }

    /// YaRN keeps pairs that turn often, slows down those that turn seldom, and mixes both between.
    fn yarn(&self, plain: &PlainFrequencies) -> Supported<ScaledFrequencies> {
        let trained = self.trained()?;
        let factor = self.stretch(trained)?;
        let scale = self.yarn_scale(factor)?;
        let (low, high) = self.yarn_ramp(plain, trained)?;
        let scaled = |(index, (frequency, power)): (usize, (f32, &f32))| {
            #[allow(clippy::cast_precision_loss)]
            let ramp = ((index as f32 - narrow(low)) / narrow(high - low)).clamp(0.0, 1.0);
            let keep = 1.0 - ramp;
            1.0 / (narrow(factor) * power) * (1.0 - keep) + frequency * keep
        };
        let pairs = plain.values().into_iter().zip(&plain.powers).enumerate();
        Ok(ScaledFrequencies {
            short: pairs.map(scaled).collect(),
            long: None,
            scale,
        })
    }

    /// YaRN's factor of cosines and sines.
    fn yarn_scale(&self, factor: f64) -> Supported<f32> {
        let grown = |by: f64| {
            if factor <= 1.0 {
                1.0
            } else {
                0.1 * by * factor.ln() + 1.0
            }
        };
        let given = self.number("attention_factor")?;
        let mscale = self.number("mscale")?;
        let of_all = self.number("mscale_all_dim")?;
        Ok(narrow(match (given, mscale, of_all) {
            (Some(given), ..) => given,
            (None, Some(own), Some(all)) => grown(own) / grown(all),
            _ => grown(1.0),
        }))
    }

    /// The pairs between which YaRN mixes.
    fn yarn_ramp(&self, plain: &PlainFrequencies, trained: f64) -> Supported<(f64, f64)> {
        #[allow(clippy::cast_precision_loss)]
        let width = plain.channels as f64;
        let place = |turns: f64| {
            width * (trained / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * plain.base.ln())
        };
        let mut low = place(self.number("beta_fast")?.unwrap_or(32.0));
        let mut high = place(self.number("beta_slow")?.unwrap_or(1.0));
        match self.values.get("truncate") {
            None | Some(Value::Bool(true)) => (low, high) = (low.floor(), high.ceil()),
            Some(Value::Bool(false)) => {}
            Some(_) => return Err(self.refuse("truncate")),
        }
        (low, high) = (low.max(0.0), high.min(width - 1.0));
        if low.to_bits() == high.to_bits() {
            high += 0.001;
        }
        Ok((low, high))
    }

    /// LongRoPE has a factor for each pair, others for long rows.
    fn longrope(&self, plain: &PlainFrequencies) -> Supported<ScaledFrequencies> {
        let divided = |name: &str| -> Supported<Vec<f32>> {
            let list = self.values.get(name).and_then(Value::as_array);
            let list = list.filter(|list| list.len() == plain.powers.len());
            let factors: Option<Vec<f64>> =
                list.and_then(|list| list.iter().map(Value::as_f64).collect());
            let factors = factors.ok_or_else(|| self.refuse(name))?;
            let pairs = factors.iter().zip(&plain.powers);
            Ok(pairs
                .map(|(factor, power)| 1.0 / (narrow(*factor) * power))
                .collect())
        };
        let trained = self.trained()?;
        let factor = self.stretch(trained)?;
        let scale = match self.number("attention_factor")? {
            Some(given) => narrow(given),
            None if factor <= 1.0 => 1.0,
            None => narrow((1.0 + factor.ln() / trained.ln()).sqrt()),
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let limit = trained as usize;
        Ok(ScaledFrequencies {
            short: divided("short_factor")?,
            long: Some((limit, divided("long_factor")?)),
            scale,
        })
    }

    /// GTE's own `ntk` scaling, fixed or mixed: the base grows, and each pair is slowed down once more.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn ntk(&self, plain: &PlainFrequencies) -> Supported<ScaledFrequencies> {
        let PlainFrequencies { base, channels, .. } = *plain;
        let factor = self.required("factor")?;
        let mixed = self.number("mixed_b")?;
        let grown = if factor > 1.0 && mixed.is_none() {
            base * factor
        } else {
            base
        };
        let half = channels / 2;
        let pairs = (0..half).map(|pair| {
            let frequency = 1.0 / (grown as f32).powf((2 * pair) as f32 / channels as f32);
            if factor <= 1.0 {
                return frequency;
            }
            let slower = match mixed {
                None => factor.powf(2.0 / channels as f64) as f32,
                Some(b) => {
                    let a = (factor as f32).ln() / (half as f64).powf(b) as f32;
                    (a * ((pair + 1) as f32).powf(b as f32)).exp()
                }
            };
            frequency / slower
        });
        Ok(pairs.collect::<Vec<f32>>().into())
    }
}
