use super::*;

/// A row whose tokens have a gap, a query, a key, a value, a correction and a decay; keys have the length of one.
struct Row {
    values: Vec<f32>,
    key_size: usize,
    value_size: usize,
}

const GAP: usize = 3;

impl Row {
    fn of(tokens: usize, key_size: usize, value_size: usize) -> Self {
        let stride = GAP + 2 * key_size + value_size + 2;
        let mut values = random(tokens * stride, 11 + (tokens * value_size) as u64);
        for token in values.chunks_exact_mut(stride) {
            let key = &mut token[GAP + key_size..GAP + 2 * key_size];
            let length = key.iter().map(|one| one * one).sum::<f32>().sqrt();
            key.iter_mut().for_each(|one| *one /= length);
            let [correction, decay] = &mut token[stride - 2..] else {
                unreachable!()
            };
            (*correction, *decay) = (correction.abs(), 1.0 - 0.1 * decay.abs());
        }
        Self {
            values,
            key_size,
            value_size,
        }
    }

    fn stride(&self) -> usize {
        GAP + 2 * self.key_size + self.value_size + 2
    }

    fn head(&self) -> DeltaHead<'_> {
        let Self {
            key_size,
            value_size,
            ..
        } = *self;
        let value = GAP + 2 * key_size;
        DeltaHead {
            rows: &self.values,
            stride: self.stride(),
            query: GAP,
            key: GAP + key_size,
            value,
            correction: value + value_size,
            decay: value + value_size + 1,
            key_size,
            value_size,
        }
    }

    fn run(&self, isa: Isa) -> Vec<f32> {
        let mut state = vec![f32::NAN; DeltaHead::state_floats(self.key_size)];
        let mut out = vec![f32::NAN; self.values.len() / self.stride() * self.value_size];
        delta_rule(isa, self.head(), &mut state, &mut out);
        out
    }

    /// The same in double precision, as it is written down.
    fn plain(&self) -> Vec<f64> {
        let Self {
            key_size,
            value_size,
            ..
        } = *self;
        let mut state = vec![vec![0.0; value_size]; key_size];
        let mut out = Vec::new();
        for token in self.values.chunks_exact(self.stride()) {
            let wide: Vec<f64> = token[GAP..].iter().map(|one| f64::from(*one)).collect();
            let (query, rest) = wide.split_at(key_size);
            let (key, rest) = rest.split_at(key_size);
            let (value, shares) = rest.split_at(value_size);
            for column in 0..value_size {
                let mut known = 0.0;
                for (row, key) in state.iter_mut().zip(key) {
                    row[column] *= shares[1];
                    known += row[column] * key;
                }
                let change = (value[column] - known) * shares[0];
                let mut read = 0.0;
                for ((row, key), query) in state.iter_mut().zip(key).zip(query) {
                    row[column] += key * change;
                    read += row[column] * query;
                }
                out.push(read);
            }
        }
        out
    }
}

#[test]
fn a_delta_rule_is_that_of_plain_code() {
    for (tokens, key_size, value_size) in [
        (0, 4, 4),
        (1, 1, 1),
        (5, 3, 7),
        (40, 8, 16),
        (40, 20, 33),
        (200, 16, 100),
        (300, 128, 128),
    ] {
        let row = Row::of(tokens, key_size, value_size);
        let plain = row.plain();
        for isa in Isa::all_and_emulated() {
            let ours = row.run(isa);
            assert_eq!(ours.len(), plain.len());
            for (ours, plain) in ours.iter().zip(&plain) {
                let apart = (f64::from(*ours) - plain).abs();
                assert!(
                    apart < 1e-5,
                    "{isa}, {tokens} x {key_size} x {value_size}: {ours}, {plain}"
                );
            }
        }
    }
}

#[test]
fn a_token_changes_no_earlier_one_and_a_nan_stays_in_its_column() {
    let row = Row::of(30, 12, 40);
    for isa in Isa::all_and_emulated() {
        let before = row.run(isa);
        let mut other = Row::of(30, 12, 40);
        let (stride, place) = (other.stride(), other.head().value + 37);
        other.values[20 * stride + place] = f32::NAN;
        let after = other.run(isa);
        for (number, (before, after)) in before.iter().zip(&after).enumerate() {
            let (token, column) = (number / 40, number % 40);
            if token >= 20 && column == 37 {
                assert!(after.is_nan(), "{isa}: {token}, {column}");
            } else {
                assert_eq!(
                    before.to_bits(),
                    after.to_bits(),
                    "{isa}: {token}, {column}"
                );
            }
        }
    }
}
