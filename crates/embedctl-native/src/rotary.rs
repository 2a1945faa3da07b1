//! Rotary positions: the frequencies that a model's settings ask for, with the scalings that stretch them
//! to longer texts, and the tables made from them.
//!
//! All arithmetic is in f32 where the reference's is, so that angles agree in their last bit or nearly so.

use std::collections::TryReserveError;

use serde_json::{Map, Value};

use super::scratch::grow_kept;
use super::settings::{ConfigSettings, Supported};
use embedctl_common::word_list::lists;

/// How fast each pair of a head's components turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// Radians a position, for each pair `(i, i + head_size / 2)`.
    pub frequencies: Vec<f32>,
    /// Factor of cosines and sines.
    pub scale: f32,
}

impl Rotary {
    /// Reads one set of rope parameters; `theta` is the base where they name none.
    pub(super) fn read(
        settings: &ConfigSettings,
        parameters: &Map<String, Value>,
        head_size: usize,
        theta: f64,
        positions: usize,
    ) -> Supported<Self> {
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
        if number("partial_rotary_factor")?
            .is_some_and(|factor| factor.to_bits() != 1.0_f64.to_bits())
        {
            return Err(refuse("partial_rotary_factor"));
        }
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
            _ => {}
        }
        if frequencies.iter().all(|frequency| frequency.is_finite()) && scale.is_finite() {
            Ok(Self { frequencies, scale })
        } else {
            Err(settings.refuse("the rotary settings give frequencies that are not finite"))
        }
    }

    /// Appends cosines and sines of the positions from `table`'s own length up to `positions`.
    pub fn extend(&self, table: &mut RotaryTable, positions: usize) {
        for position in table.positions..positions {
            for frequency in &self.frequencies {
                #[allow(clippy::cast_precision_loss)]
                let angle = f64::from(position as f32 * frequency);
                #[allow(clippy::cast_possible_truncation)]
                let (sine, cosine) = (angle.sin() as f32, angle.cos() as f32);
                table.cosines.push(cosine * self.scale);
                table.sines.push(sine * self.scale);
            }
        }
        table.positions = table.positions.max(positions);
    }
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
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let width = self.cosines.len() / self.positions;
        let row = position * width..(position + 1) * width;
        (&self.cosines[row.clone()], &self.sines[row])
    }
}
