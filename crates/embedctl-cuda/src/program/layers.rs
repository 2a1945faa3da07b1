//! The steps of layers: attention or a convolution, and a feed-forward or experts, each with its norms.

use embedctl_checkpoint::architecture::{ExpertsDescription, Layer};
use embedctl_common::error::Result;
use embedctl_native::{BesideProducts, Norms, PlainProduct, Product};

use super::builder::{ProgramBuilder, TurnTable};
use super::{Attend, Convolution, Experts, Place, Relative, Step, Turn};

impl ProgramBuilder<'_> {
    pub(super) fn layers(&mut self) -> Result<()> {
        for layer in &self.architecture.layers {
            let beside = self.sets[layer.weights]
                .take()
                .map_or_else(|| self.network.beside_products(layer.weights), Ok)?;
            self.layer(layer, &beside)?;
        }
        Ok(())
    }

    /// The place of a branch's input, behind its norm.
    fn before(&mut self, norms: &Norms, out: Place) -> Result<Place> {
        let hidden = self.architecture.hidden;
        match &norms.before {
            Some(norm) => {
                self.need(out, hidden, false);
                self.push_norm(norm, Place::States, None, out)?;
                Ok(out)
            }
            None if self.is_element(Place::States) => Ok(Place::States),
            None => {
                self.need(out, hidden, false);
                self.convert(Place::States, out, hidden);
                Ok(out)
            }
        }
    }

    /// Where a branch's last product writes, and what it adds to it.
    fn branch(&mut self, norms: &Norms) -> (Place, Option<Place>) {
        if norms.with_input.is_none() && norms.after.is_none() {
            return (Place::States, Some(Place::States));
        }
        let is_wide = self.is_wide(Place::States);
        self.need(Place::Branch, self.architecture.hidden, is_wide);
        (
            Place::Branch,
            norms.with_input.as_ref().map(|_| Place::States),
        )
    }

    /// The norms behind a branch.
    fn after(&mut self, norms: &Norms) -> Result<()> {
        if let Some(norm) = norms.with_input.as_ref().or(norms.after.as_ref()) {
            self.push_norm(norm, Place::Branch, Some(Place::States), Place::States)?;
        }
        if let Some(norm) = &norms.sum {
            self.push_norm(norm, Place::States, None, Place::States)?;
        }
        Ok(())
    }

    fn layer(&mut self, layer: &Layer, beside: &BesideProducts) -> Result<()> {
        let architecture = self.architecture;
        let attention = &architecture.attention;
        let hidden = architecture.hidden;
        let set = layer.weights;
        let input = self.before(&beside.attention_norms, Place::Input)?;
        // A parallel feed-forward takes the stream as it was before attention's output was added.
        let second = match architecture.parallel {
            true => Some(self.before(&beside.feed_forward_norms, Place::Second)?),
            false => None,
        };
        let second = match second {
            Some(Place::States) => {
                self.need(Place::Second, hidden, false);
                self.convert(Place::States, Place::Second, hidden);
                Some(Place::Second)
            }
            other => other,
        };
        let into = PlainProduct::Layer(set, Product::Input);
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let (made, width) = match &beside.convolution {
            Some(_) => (3 * hidden, hidden),
            None => (query + 2 * key, query),
        };
        self.need(Place::Heads, made, false);
        self.need(Place::Context, width, false);
        self.product(into, [hidden, made], (input, hidden), None, Place::Heads)?;
        match &beside.convolution {
            Some(convolution) => {
                let step = Convolution {
                    filters: self.uploader.floats(&convolution.filters)?,
                    bias: self.uploader.floats(&convolution.bias)?,
                    channels: convolution.channels,
                    length: convolution.filters.len() / convolution.channels.max(1),
                };
                self.steps.push(Step::Convolve(step));
            }
            None => self.attend(layer, beside, query)?,
        }
        let (y, base) = self.branch(&beside.attention_norms);
        let output = PlainProduct::Layer(set, Product::Output);
        self.product(output, [width, hidden], (Place::Context, width), base, y)?;
        self.after(&beside.attention_norms)?;
        let input = match second {
            Some(second) => second,
            None => self.before(&beside.feed_forward_norms, Place::Input)?,
        };
        self.feed_forward(set, &beside.feed_forward_norms, input)
    }

    fn attend(&mut self, layer: &Layer, beside: &BesideProducts, query: usize) -> Result<()> {
        let architecture = self.architecture;
        let attention = &architecture.attention;
        let mut turn = Turn {
            norms: None,
            table: 0,
            pairs: 0,
            set: 0,
        };
        if let Some(norms) = &beside.query_key_norms {
            let [queries, keys] = [self.norm(&norms[0])?, self.norm(&norms[1])?];
            if queries.width == attention.head_size && keys.width == attention.head_size {
                turn.norms = Some([queries, keys]);
            } else {
                let first = [(queries, 0), (keys, query)];
                let steps = first.map(|(norm, first)| Step::NormHeads { norm, first });
                self.steps.extend(steps);
            }
        }
        if let Some(set) = layer.rotary {
            let TurnTable { table, pairs } = self.turns[set];
            turn = Turn {
                table,
                pairs,
                set,
                ..turn
            };
        }
        if turn.norms.is_some() || turn.pairs > 0 {
            self.steps.push(Step::Turn(turn));
        }
        let (bias, reach) = match attention.position_bias {
            Some(kind) if !beside.relative_bias.is_empty() => {
                self.bias(kind, &beside.relative_bias)?
            }
            _ => self.shared_bias,
        };
        let relative = match attention.disentangled {
            None => None,
            Some(_) => {
                let [keys, queries] = self.network.relative_tables(layer.weights)?;
                let relative = Relative {
                    keys: self.uploader.elements(&keys)?,
                    queries: self.uploader.elements(&queries)?,
                };
                (relative.keys != 0 || relative.queries != 0).then_some(relative)
            }
        };
        let far = layer.reach.unwrap_or(usize::MAX);
        self.steps.push(Step::Attend(Attend {
            before: far,
            after: if layer.causal { 0 } else { far },
            bias,
            reach,
            relative,
        }));
        Ok(())
    }

    fn feed_forward(&mut self, set: usize, norms: &Norms, input: Place) -> Result<()> {
        let architecture = self.architecture;
        let hidden = architecture.hidden;
        if let Some(described) = self.network.experts(set)? {
            self.experts(set, described, norms, input)?;
            return self.after(norms);
        }
        let of = &architecture.feed_forward;
        let inner = if of.gated { 2 * of.width } else { of.width };
        self.need(Place::Inner, inner, false);
        let up = PlainProduct::Layer(set, Product::Up);
        self.product(up, [hidden, inner], (input, hidden), None, Place::Inner)?;
        self.steps.push(Step::Activate {
            activation: of.activation,
            width: of.width,
            is_gated: of.gated,
            stride: inner,
        });
        let (y, base) = self.branch(norms);
        let down = PlainProduct::Layer(set, Product::Down);
        self.product(down, [of.width, hidden], (Place::Inner, inner), base, y)?;
        self.after(norms)
    }

    /// The experts of a set, in the feed-forward's place.
    fn experts(
        &mut self,
        set: usize,
        described: ExpertsDescription,
        norms: &Norms,
        input: Place,
    ) -> Result<()> {
        let hidden = self.architecture.hidden;
        let (out, base) = self.branch(norms);
        let halves = if described.gated { 2 } else { 1 };
        let (inner, count) = (halves * described.width, described.count);
        self.need(Place::Scores, count, true);
        let router = self.weights(PlainProduct::Router(set), [hidden, count], true)?;
        let is_wide = self.is_wide(out);
        let mut products = Vec::with_capacity(count);
        for expert in 0..count {
            let up = PlainProduct::ExpertUp(set, expert);
            let down = PlainProduct::ExpertDown(set, expert);
            products.push([
                self.weights(up, [hidden, inner], false)?,
                self.weights(down, [described.width, hidden], is_wide)?,
            ]);
        }
        let bias = self.network.experts_bias(set)?;
        let step = Experts {
            router,
            products,
            bias: self.uploader.floats(&bias)?,
            base,
            out,
            input,
        };
        self.steps.push(Step::Experts(step));
        Ok(())
    }
}
