//! Tokens become states: the sum of their embeddings, with its norm and projection.

use embedctl_checkpoint::architecture::LearnedPositions;
use embedctl_native::{OutsideLayers, PlainNetwork, PlainProduct, PlainTable};
use embedctl_onnx::{Attribute, INT64};

use super::elements::TensorElement as _;
use super::shared::SharedValues;
use super::weights::stored_as;
use super::writer::{GraphWriter, WeightSource};
use super::{FloatType, GraphForm};
use embedctl_common::error::Result;

impl GraphWriter {
    /// The states before the first layer, `[rows, length, hidden]`.
    pub(super) fn embedded(
        &mut self,
        network: &PlainNetwork,
        outside: &OutsideLayers,
        form: GraphForm,
        shared: &SharedValues,
    ) -> Result<String> {
        let architecture = network.architecture();
        let embeddings = &architecture.embeddings;
        let width = embeddings.width;
        let table = self.token_table(network, form)?;
        let mut states = self.tokens(&table, &shared.ids);
        if let Some(types) = shared.types.as_ref().filter(|_| embeddings.word_types) {
            let types = self.tokens(&table, types);
            states = self.add(&states, &types);
        }
        states = self.scaled(&states, embeddings.scale);
        if !outside.types.is_empty() {
            let table = self.floats(&[embeddings.types, width], &outside.types);
            // Of one type there is nothing to choose, and exports for other programs do not ask for it.
            let types = match &shared.types {
                Some(types) => self.node("Gather", &[&table, types], Vec::new()),
                None => table,
            };
            states = self.add(&states, &types);
        }
        if let Some(positions) = embeddings.positions {
            let (rows, _, _) = network.table_shape(PlainTable::Positions)?;
            let source = WeightSource::Table(PlainTable::Positions);
            let table = self.weight("positions", &[rows, width], self.float, source);
            let places = self.places(&table, positions, shared);
            states = self.add(&states, &places);
        }
        if let Some(norm) = &outside.norm {
            states = self.norm(&states, norm);
        }
        if embeddings.projected {
            let sizes = [width, architecture.hidden];
            states = self.product(network, &states, PlainProduct::Projection, sizes)?;
        }
        Ok(states)
    }

    /// The table of tokens, and the numbers that it has.
    fn token_table(
        &mut self,
        network: &PlainNetwork,
        form: GraphForm,
    ) -> Result<(String, FloatType)> {
        let (rows, width, stored) = network.table_shape(PlainTable::Tokens)?;
        let element = match (stored_as(stored), form.float) {
            (_, narrow @ (FloatType::F16 | FloatType::Bf16)) => narrow,
            (Some(FloatType::F16), FloatType::F32) => FloatType::F16,
            (Some(FloatType::Bf16), FloatType::F32) if form.narrow_tables => FloatType::Bf16,
            _ => FloatType::F32,
        };
        let source = WeightSource::Table(PlainTable::Tokens);
        Ok((
            self.weight("tokens", &[rows, width], element, source),
            element,
        ))
    }

    /// The vectors of these ids.
    fn tokens(&mut self, (table, element): &(String, FloatType), ids: &str) -> String {
        let vectors = self.node("Gather", &[table, ids], Vec::new());
        if *element == self.float {
            vectors
        } else {
            self.cast(&vectors, self.float.number())
        }
    }

    /// The vectors of learned positions.
    fn places(
        &mut self,
        table: &str,
        positions: LearnedPositions,
        shared: &SharedValues,
    ) -> String {
        let Some(padding) = positions.after else {
            let axis = self.integers(&[0]);
            let (mut start, mut end) = (axis.clone(), shared.length.clone());
            if positions.first > 0 {
                start = self.integers(&[positions.first as i64]);
                end = self.add(&end, &start);
            }
            return self.node("Slice", &[table, &start, &end, &axis], Vec::new());
        };
        // Counted from the padding id + 1 on; tokens with that id keep it.
        let padding = self.integer(i64::from(padding));
        let is_padding = self.node("Equal", &[&shared.ids, &padding], Vec::new());
        let is_padding = self.cast(&is_padding, INT64);
        let one = self.integer(1);
        let counts = self.sub(&one, &is_padding);
        let axis = self.integer(1);
        let counted = self.node("CumSum", &[&counts, &axis], Vec::new());
        let counted = self.mul(&counted, &counts);
        let places = self.add(&counted, &padding);
        self.node("Gather", &[table, &places], vec![Attribute::int("axis", 0)])
    }
}
