//! Rotary positions: the frequencies that a model's settings ask for, with the scalings that stretch them
//! to longer texts.

mod parameters;

use serde_json::{Map, Value};

use super::settings::{ConfigSettings, Supported};
use parameters::{PART, RopeParameters, TRAINED};

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
    /// Whether the class's own frequencies follow `partial_rotary_factor`; those of transformers' scalings always do.
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
    /// Parameters that say something and that neither the class nor the scaling reads.
    pub unread: Vec<&'static str>,
}

impl Rotary {
    /// Reads one set of rope parameters, with those that stand outside of it in config.json. Of these, the trained length goes
    /// before the set's own. A set for one of several types of layers (`of_type`) takes none from outside.
    pub(super) fn read(
        settings: &ConfigSettings,
        parameters: &Map<String, Value>,
        shape: RotaryShape,
        of_type: bool,
    ) -> Supported<RotarySets> {
        let mut all = parameters.clone();
        let trained = settings.value(TRAINED);
        all.extend(trained.map(|value| (TRAINED.to_owned(), value.clone())));
        // A class that reads the part has read it already, with its default.
        let part = (!shape.partial).then(|| settings.value(PART)).flatten();
        if let Some(part) = part {
            all.entry(PART).or_insert_with(|| part.clone());
        }
        let read = RopeParameters::new(settings, &all, shape)?;
        if of_type && trained.is_some() && read.reads_trained() {
            return Err(settings.unknown(TRAINED));
        }
        read.sets()
    }
}
