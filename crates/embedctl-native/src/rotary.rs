//! Rotary positions: the frequencies that a model's settings ask for, with the scalings that stretch them
//! to longer texts, and the tables made from them.
//!
//! All arithmetic is in f32 where the reference's is, so that angles agree in their last bit or nearly so.

use std::collections::TryReserveError;

use serde_json::{Map, Value};

use super::room::grow_kept;
use super::settings::{ConfigSettings, Supported};
use embedctl_common::word_list::lists;

/// How fast each pair of a head's components turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// Radians a position, for each pair `(i, i + pairs)` of a head's first `2 * pairs` channels.
    pub frequencies: Vec<f32>,
    /// The same where the reference computes angles in double precision.
    pub precise: Option<Vec<f64>>,
    /// Factor of cosines and sines.
    pub scale: f32,
    /// The table of sines and cosines that the reference takes where a checkpoint has it, `[positions, 2 * pairs]`.
    pub stored: Option<&'static str>,
    /// Rows of more tokens than the first take the set of frequencies whose number is the second.
    pub beyond: Option<(usize, usize)>,
}

/// The heads that are turned, and what the model's class says about positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct RotaryShape {
    /// Channels of a head.
    pub head_size: usize,
    /// The base where the parameters name none.
    pub theta: f64,
    /// `max_position_embeddings`.
    pub positions: usize,
    /// Whether the class's own frequencies follow `partial_rotary_factor`; those of a scaling always do.
    pub partial: bool,
    /// Whether the class has GTE's `ntk` scaling.
    pub own_ntk: bool,
}

/// Frequencies as settings ask for them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RotarySets {
    /// For rows of any length, or short ones.
    pub short: Rotary,
    /// For rows longer than so many tokens.
    pub long: Option<(usize, Rotary)>,
    /// Tokens of a row at most: longer rows would change the frequencies.
    pub longest: Option<usize>,
}

impl Rotary {
    /// Reads one set of rope parameters.
    pub(super) fn read(
        settings: &ConfigSettings,
        parameters: &Map<String, Value>,
        shape: RotaryShape,
    ) -> Supported<RotarySets> {
        let RotaryShape {
            head_size,
            theta,
            positions,
            partial,
            own_ntk,
        } = shape;
        let refuse = |name: &str| {
            let value = parameters.get(name).unwrap_or(&Value::Null);
            settings.refuse(format!(
                "the rotary setting \"{name}\": {value} is not supported by the native engine"
            ))
        };
        if !head_size.is_multiple_of(2) {
            return Err(settings.refuse(format!(
                "rotary positions need an even head size, not {head_size}"
            )));
        }
        let number = |name: &str| match parameters.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|number| number.is_finite() && *number > 0.0)
                .map(Some)
                .ok_or_else(|| refuse(name)),
        };
        let required = |name: &str| number(name)?.ok_or_else(|| refuse(name));
        let kind = match parameters
            .get("rope_type")
            .or_else(|| parameters.get("type"))
        {
            None => "default",
            Some(value) => value.as_str().ok_or_else(|| refuse("rope_type"))?,
        };
        let own = match kind {
            "default" => "",
            "linear" => "factor",
            "llama3" => "factor low_freq_factor high_freq_factor original_max_position_embeddings",
            "yarn" => {
                "factor original_max_position_embeddings attention_factor beta_fast beta_slow mscale
                mscale_all_dim truncate"
            }
            "dynamic" => "factor",
            "ntk" if own_ntk => "factor mixed_b",
            "longrope" | "su" => {
                "factor original_max_position_embeddings attention_factor short_factor long_factor"
            }
            _ => {
                return Err(refuse(if parameters.contains_key("rope_type") {
                    "rope_type"
                } else {
                    "type"
                }));
            }
        };
        let general = "rope_type type rope_theta partial_rotary_factor";
        let unknown = parameters
            .iter()
            .find(|(name, value)| !value.is_null() && !lists(general, name) && !lists(own, name));
        if let Some((name, _)) = unknown {
            return Err(refuse(name));
        }
        let turned = match number("partial_rotary_factor")? {
            None => head_size,
            Some(1.0) => head_size,
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss
            )]
            Some(part) if part < 1.0 && (partial || kind != "default") => {
                (head_size as f64 * part) as usize
            }
            Some(_) => return Err(refuse("partial_rotary_factor")),
        };
        if turned == 0 || !turned.is_multiple_of(2) {
            return Err(refuse("partial_rotary_factor"));
        }
        let head_size = turned;
        let base = number("rope_theta")?.unwrap_or(theta);
        #[allow(clippy::cast_possible_truncation)]
        let narrow = |number: f64| number as f32;
        #[allow(clippy::cast_precision_loss)]
        let powers: Vec<f32> = (0..head_size)
            .step_by(2)
            .map(|index| narrow(base).powf(index as f32 / head_size as f32))
            .collect();
        let mut frequencies: Vec<f32> = powers.iter().map(|power| 1.0 / power).collect();
        let mut scale = 1.0;
        let mut long = None;
        #[allow(clippy::cast_precision_loss)]
        let trained =
            || Ok(number("original_max_position_embeddings")?.unwrap_or(positions as f64));
        match kind {
            "linear" => {
                let factor = narrow(required("factor")?);
                frequencies
                    .iter_mut()
                    .for_each(|frequency| *frequency /= factor);
            }
            "llama3" => {
                let factor = narrow(required("factor")?);
                let (low, high) = (required("low_freq_factor")?, required("high_freq_factor")?);
                let trained: f64 = trained()?;
                for frequency in &mut frequencies {
                    let length = narrow(2.0 * std::f64::consts::PI) / *frequency;
                    let long = length > narrow(trained / low);
                    let slow = if long {
                        *frequency / factor
                    } else {
                        *frequency
                    };
                    let medium = !long && length >= narrow(trained / high);
                    *frequency = if medium {
                        let smooth = (narrow(trained) / length - narrow(low)) / narrow(high - low);
                        (1.0 - smooth) * slow / factor + smooth * slow
                    } else {
                        slow
                    };
                }
            }
            "yarn" => {
                let trained: f64 = trained()?;
                #[allow(clippy::cast_precision_loss)]
                let factor = number("factor")?.unwrap_or(positions as f64 / trained);
                let grown = |scale: f64, by: f64| {
                    if scale <= 1.0 {
                        1.0
                    } else {
                        0.1 * by * scale.ln() + 1.0
                    }
                };
                scale = narrow(
                    match (
                        number("attention_factor")?,
                        number("mscale")?,
                        number("mscale_all_dim")?,
                    ) {
                        (Some(given), ..) => given,
                        (None, Some(own), Some(all)) => grown(factor, own) / grown(factor, all),
                        _ => grown(factor, 1.0),
                    },
                );
                #[allow(clippy::cast_precision_loss)]
                let width = head_size as f64;
                let place = |turns: f64| {
                    width * (trained / (turns * 2.0 * std::f64::consts::PI)).ln()
                        / (2.0 * base.ln())
                };
                let mut low = place(number("beta_fast")?.unwrap_or(32.0));
                let mut high = place(number("beta_slow")?.unwrap_or(1.0));
                match parameters.get("truncate") {
                    None | Some(Value::Bool(true)) => (low, high) = (low.floor(), high.ceil()),
                    Some(Value::Bool(false)) => {}
                    Some(_) => return Err(refuse("truncate")),
                }
                (low, high) = (low.max(0.0), high.min(width - 1.0));
                if low.to_bits() == high.to_bits() {
                    high += 0.001;
                }
                for (index, (frequency, power)) in frequencies.iter_mut().zip(&powers).enumerate() {
                    #[allow(clippy::cast_precision_loss)]
                    let ramp = ((index as f32 - narrow(low)) / narrow(high - low)).clamp(0.0, 1.0);
                    let keep = 1.0 - ramp;
                    *frequency = 1.0 / (narrow(factor) * power) * (1.0 - keep) + *frequency * keep;
                }
            }
            "ntk" => frequencies = ntk(&required, &number, base, head_size)?,
            "longrope" | "su" => {
                let factors = |name: &str| {
                    let list = parameters.get(name).and_then(Value::as_array);
                    let list = list.filter(|list| list.len() == powers.len());
                    let factors: Option<Vec<f64>> =
                        list.and_then(|list| list.iter().map(Value::as_f64).collect());
                    factors.ok_or_else(|| refuse(name))
                };
                let by = |factors: &[f64]| -> Vec<f32> {
                    let divided = factors.iter().zip(&powers);
                    divided
                        .map(|(factor, power)| 1.0 / (narrow(*factor) * power))
                        .collect()
                };
                let trained: f64 = trained()?;
                #[allow(clippy::cast_precision_loss)]
                let factor = number("factor")?.unwrap_or(positions as f64 / trained);
                scale = match number("attention_factor")? {
                    Some(given) => narrow(given),
                    None if factor <= 1.0 => 1.0,
                    None => narrow((1.0 + factor.ln() / trained.ln()).sqrt()),
                };
                frequencies = by(&factors("short_factor")?);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let limit = trained as usize;
                long = Some((limit, by(&factors("long_factor")?)));
            }
            _ => {}
        }
        let set = |frequencies: Vec<f32>| Self {
            frequencies,
            precise: None,
            scale,
            stored: None,
            beyond: None,
        };
        let is_finite = |set: &Self| set.frequencies.iter().all(|one| one.is_finite());
        let sets = RotarySets {
            short: set(frequencies),
            long: long.map(|(limit, frequencies)| (limit, set(frequencies))),
            longest: (kind == "dynamic").then_some(positions),
        };
        let all_finite =
            is_finite(&sets.short) && sets.long.iter().all(|(_, long)| is_finite(long));
        if all_finite && scale.is_finite() {
            Ok(sets)
        } else {
            Err(settings.refuse("the rotary settings give frequencies that are not finite"))
        }
    }

    /// Appends cosines and sines of the positions from `table`'s own length up to `positions`.
    pub fn extend(&self, table: &mut RotaryTable, positions: usize) {
        for position in table.positions..positions {
            for (pair, frequency) in self.frequencies.iter().enumerate() {
                #[allow(clippy::cast_precision_loss)]
                let angle = match &self.precise {
                    None => f64::from(position as f32 * frequency),
                    Some(precise) => position as f64 * precise[pair],
                };
                #[allow(clippy::cast_possible_truncation)]
                let (sine, cosine) = (angle.sin() as f32, angle.cos() as f32);
                table.cosines.push(cosine * self.scale);
                table.sines.push(sine * self.scale);
            }
        }
        table.positions = table.positions.max(positions);
    }
}

/// Frequencies of GTE's own `ntk` scaling, fixed or mixed: the base grows, and each pair is slowed down once more.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn ntk(
    required: &dyn Fn(&str) -> Supported<f64>,
    number: &dyn Fn(&str) -> Supported<Option<f64>>,
    base: f64,
    turned: usize,
) -> Supported<Vec<f32>> {
    let factor = required("factor")?;
    let mixed = number("mixed_b")?;
    let grown = if factor > 1.0 && mixed.is_none() {
        base * factor
    } else {
        base
    };
    let half = turned / 2;
    let pairs = (0..half).map(|pair| {
        let frequency = 1.0 / (grown as f32).powf((2 * pair) as f32 / turned as f32);
        if factor <= 1.0 {
            return frequency;
        }
        let slower = match mixed {
            None => factor.powf(2.0 / turned as f64) as f32,
            Some(b) => {
                let a = (factor as f32).ln() / (half as f64).powf(b) as f32;
                (a * ((pair + 1) as f32).powf(b as f32)).exp()
            }
        };
        frequency / slower
    });
    Ok(pairs.collect())
}

/// Cosines and sines, row-major `[positions, head_size / 2]`.
#[derive(Debug, Clone, Default)]
pub struct RotaryTable {
    /// Cosines.
    pub cosines: Vec<f32>,
    /// Sines.
    pub sines: Vec<f32>,
    positions: usize,
}

impl RotaryTable {
    /// The rows of a stored table: sines, then cosines.
    pub(super) fn of_stored(values: &[f32], pairs: usize) -> Self {
        let rows = values.chunks_exact(2 * pairs);
        let mut table = Self {
            positions: rows.len(),
            ..Self::default()
        };
        for row in rows {
            let (sines, cosines) = row.split_at(pairs);
            table.sines.extend_from_slice(sines);
            table.cosines.extend_from_slice(cosines);
        }
        table
    }

    /// Becomes the first `positions` rows of `other`.
    pub(super) fn copy(&mut self, other: &Self, positions: usize) {
        let width = other.cosines.len() / other.positions.max(1);
        let floats = width * positions.min(other.positions);
        for (to, from) in [
            (&mut self.cosines, &other.cosines),
            (&mut self.sines, &other.sines),
        ] {
            to.clear();
            to.extend_from_slice(&from[..floats]);
        }
        self.positions = positions.min(other.positions);
    }

    /// Room for `positions` positions.
    pub(super) fn try_reserve(
        &mut self,
        rotary: &Rotary,
        positions: usize,
    ) -> Result<(), TryReserveError> {
        let floats = positions.saturating_mul(rotary.frequencies.len());
        grow_kept(&mut self.cosines, floats)?;
        grow_kept(&mut self.sines, floats)
    }

    /// Cosines and sines of a position.
    ///
    /// # Panics
    /// If the table has not been extended to it.
    #[must_use]
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let width = self.cosines.len() / self.positions;
        let row = position * width..(position + 1) * width;
        (&self.cosines[row.clone()], &self.sines[row])
    }
}
