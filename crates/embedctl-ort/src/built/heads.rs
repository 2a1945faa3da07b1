//! Queries, keys and values as heads, side by side or apart.

use embedctl_native::architecture::AttentionDescription;

use super::writer::GraphWriter;

/// Queries, keys or values.
pub(super) struct Heads {
    pub name: String,
    pub count: usize,
    pub size: usize,
    /// Whether they are `[rows, length, heads, size]`, not `[rows, length, heads * size]`.
    pub is_split: bool,
}

impl GraphWriter {
    /// Queries, keys and values of their product.
    pub(super) fn heads(&mut self, attention: &AttentionDescription, made: &str) -> [Heads; 3] {
        let size = attention.head_size;
        let counts = [
            attention.heads,
            attention.key_value_heads,
            attention.key_value_heads,
        ];
        let mut parts = self
            .split(made, -1, &counts.map(|count| count * size))
            .into_iter();
        counts.map(|count| Heads {
            name: parts.next().unwrap_or_default(),
            count,
            size,
            is_split: false,
        })
    }

    /// Puts heads on an axis of their own.
    pub(super) fn split_heads(&mut self, heads: &mut Heads) {
        if !heads.is_split {
            let shape = [0, 0, heads.count as i64, heads.size as i64];
            heads.name = self.reshape(&heads.name, &shape);
            heads.is_split = true;
        }
    }

    /// Puts heads side by side.
    pub(super) fn join_heads(&mut self, heads: &mut Heads) {
        if heads.is_split {
            heads.name = self.reshape(&heads.name, &[0, 0, (heads.count * heads.size) as i64]);
            heads.is_split = false;
        }
    }

    /// Keys or values as often as query heads take them.
    pub(super) fn of_each_query(&mut self, part: &Heads, heads: usize) -> String {
        if part.count == heads {
            return part.name.clone();
        }
        let (count, size) = (part.count as i64, part.size as i64);
        let group = (heads / part.count.max(1)) as i64;
        let split = self.reshape(&part.name, &[0, 0, count, 1, size]);
        let shape = self.integers(&[1, 1, 1, group, 1]);
        let repeated = self.node("Expand", &[&split, &shape], Vec::new());
        self.reshape(&repeated, &[0, 0, count * group * size])
    }
}
