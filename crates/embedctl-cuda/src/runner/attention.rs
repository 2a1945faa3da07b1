//! The launches of attention.

use std::sync::Arc;

use embedctl_common::error::Result;

use super::numbers::{BatchParts, WorkKernel};
use super::{CardRunner, grown, heads_stride};
use crate::CardElement;
use crate::arguments::AttendArguments;
use crate::kernels::Kernel;
use crate::library::DevicePointer;
use crate::products::{Operands, ProductShape};
use crate::program::{Attend, Place, Relative, int};

impl CardRunner {
    pub(super) fn attend(&mut self, attend: &Attend, parts: &BatchParts) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let attention = &program.architecture.attention;
        let size = attention.head_size;
        let (query, key) = (attention.heads * size, attention.key_value_heads * size);
        let far = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let mut arguments = AttendArguments {
            heads: self.place(Place::Heads),
            out: self.place(Place::Context),
            bias: attend.bias,
            scale: attention.scale,
            softcap: attention.softcap.unwrap_or(0.0),
            stride: int(query + 2 * key)?,
            out_stride: int(query)?,
            key_at: int(query)?,
            value_at: int(query + key)?,
            size: int(size)?,
            group: int(attention.heads / attention.key_value_heads.max(1))?,
            before: far(attend.before),
            after: far(attend.after),
            bias_reach: int(attend.reach)?,
            query_heads: int(attention.heads)?,
            ..AttendArguments::default()
        };
        if let Some(relative) = &attend.relative {
            self.relative_scores(relative, &mut arguments, parts.tokens)?;
        }
        let has_extras = attend.bias != 0 || attention.softcap.is_some();
        for group in &parts.groups {
            let plan = shared.attention;
            let (kernel, heads) = match (group.kernel, has_extras) {
                (WorkKernel::Any, _) => (Kernel::AttendAny, attention.heads),
                (WorkKernel::Short, extras) => {
                    arguments.together = int(plan.together)?;
                    let heads = attention.key_value_heads / plan.together;
                    match extras {
                        true => (Kernel::AttendShortExtras, heads),
                        false => (Kernel::AttendShort, heads),
                    }
                }
                (WorkKernel::Long, true) => (Kernel::AttendLongExtras, attention.heads),
                (WorkKernel::Long, false) => (Kernel::AttendLong, attention.heads),
            };
            let work = parts.work + 4 * group.first;
            let arguments = AttendArguments {
                work: self.number(work),
                ..arguments
            };
            let (blocks, threads) = ([group.count, heads], group.threads);
            let kernels = &shared.kernels;
            kernels.launch(
                &self.stream,
                kernel,
                blocks,
                threads,
                group.shared,
                arguments,
            )?;
        }
        Ok(())
    }

    /// Scores of queries with the keys of relative positions, and of keys with their queries, `[heads, tokens, positions]`.
    fn relative_scores(
        &mut self,
        relative: &Relative,
        arguments: &mut AttendArguments,
        tokens: usize,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let attention = &program.architecture.attention;
        let Some((rows, kind)) = program.relative_rows.zip(attention.disentangled) else {
            return Ok(());
        };
        let (size, count) = (attention.head_size, kind.rows());
        let hidden = attention.heads * size;
        let element = program.element.bytes();
        arguments.relative_rows = rows.0;
        arguments.relative_reach = int(rows.1)?;
        arguments.relative_count = int(count)?;
        arguments.together = int(tokens)?;
        let shape = ProductShape {
            inputs: size,
            outputs: count,
            x_stride: heads_stride(program),
            w_stride: hidden,
            y_stride: count,
            is_wide: program.element == CardElement::F32,
            has_bias: false,
            has_base: false,
        };
        let sides = [(relative.keys, 0), (relative.queries, hidden)];
        let mut made = [0; 2];
        for (side, (table, first)) in sides.into_iter().enumerate() {
            if table == 0 {
                continue;
            }
            let bytes = attention.heads * tokens * count * element;
            let memory = &mut self.relative[side];
            made[side] = grown(&shared.card, &self.stream, memory, bytes)?.pointer;
            for head in 0..attention.heads {
                let at = |index: usize| (index * element) as DevicePointer;
                let operands = Operands {
                    w: table + at(head * size),
                    x: self.place(Place::Heads) + at(first + head * size),
                    bias: 0,
                    base: 0,
                    y: made[side] + at(head * tokens * count),
                };
                self.run_product(shape, tokens, operands)?;
            }
        }
        [arguments.query_scores, arguments.key_scores] = made;
        Ok(())
    }
}
