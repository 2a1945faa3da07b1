//! How near a row's states are to others.

use super::Pooler;

impl Pooler {
    /// What tells how near a row's states are to others: its finished vector, or the vector that scores are made of. All of
    /// the row's tokens count.
    pub fn compared(&self, states: &[f32], width: usize, out: &mut Vec<f32>) {
        let tokens = states.len() / width;
        if !self.kinds.is_empty() {
            let kinds = self.kinds.iter();
            return kinds.for_each(|kind| kind.compared(states, width, out));
        }
        if self.form.multi.is_some() {
            return self.finish_rows(states.to_vec(), tokens, out);
        }
        if self.weighs() {
            return out.extend(self.token_weights(states, tokens));
        }
        let stepped = self.stepped(states, width);
        let states = stepped.as_deref().unwrap_or(states);
        let mut pooled = Vec::with_capacity(width * self.rule.modes.len());
        self.rule
            .pool_counted(states, width, &(0..tokens), &mut pooled);
        self.compared_pooled(&pooled, out);
    }

    /// The same of a pooled row.
    pub fn compared_pooled(&self, row: &[f32], out: &mut Vec<f32>) {
        match self.form.scores {
            true => out.extend_from_slice(row),
            false => self.finish_rows(row.to_vec(), 1, out),
        }
    }
}
