//! What the card must know of a batch beside its states, as whole numbers: ids, positions, ends, and attention's work.

use std::cmp::Reverse;
use std::ops::Range;

use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;
use embedctl_native::{Rows, unknown_id, unknown_type};

use super::plan::{ANY_QUERIES, AttentionPlan, LONG_QUERIES, SHORT_CLASSES};
use crate::arguments::Work;
use crate::pooling::Pooling;
use crate::program::{Program, int};

const _: () = assert!(size_of::<Work>() == 16);

/// Work items of attention that are launched together.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkGroup {
    pub kernel: WorkKernel,
    /// The first of them, and how many there are.
    pub first: usize,
    pub count: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Bytes of shared memory.
    pub shared: usize,
}

/// The kernel of work items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkKernel {
    Any,
    Short,
    Long,
}

/// Where the parts of a batch's numbers begin.
#[derive(Debug, Default)]
pub(super) struct BatchParts {
    pub tokens: usize,
    pub rows: usize,
    pub ids: usize,
    pub kinds: Option<usize>,
    pub places: Option<usize>,
    /// The rows of the tables that each set of frequencies turns tokens by.
    pub turns: Vec<usize>,
    pub ends: usize,
    pub row_work: usize,
    pub work: usize,
    pub spans: usize,
    pub modes: usize,
    pub groups: Vec<WorkGroup>,
}

impl BatchParts {
    /// Writes the numbers of a batch in place of those in `numbers`: of `rows`, and of the tokens that each row's vector is
    /// `pooled` from.
    ///
    /// # Errors
    /// If an id or a type is not in a table, or a row is too long.
    pub(super) fn write(
        program: &Program,
        plan: AttentionPlan,
        rows: Rows<'_>,
        pooled: Option<(&[Range<usize>], &Pooling)>,
        numbers: &mut Vec<i32>,
    ) -> Result<Self> {
        numbers.clear();
        let starts = std::iter::once(0).chain(rows.ends.iter().copied());
        let spans = starts.zip(rows.ends.iter().copied());
        let mut writer = NumberWriter {
            program,
            rows,
            spans: spans.map(|(start, end)| start..end).collect(),
            numbers,
            parts: Self {
                tokens: rows.ids.len(),
                rows: rows.ends.len(),
                ..Self::default()
            },
        };
        writer.check_lengths()?;
        writer.ids()?;
        writer.types()?;
        writer.positions()?;
        writer.turns();
        writer.ends();
        writer.pooled(pooled)?;
        writer.work(plan);
        Ok(writer.parts)
    }
}

/// A batch's numbers while they are written.
struct NumberWriter<'a> {
    program: &'a Program,
    rows: Rows<'a>,
    /// Each row's tokens.
    spans: Vec<Range<usize>>,
    numbers: &'a mut Vec<i32>,
    parts: BatchParts,
}

impl NumberWriter<'_> {
    fn check_lengths(&self) -> Result<()> {
        int(self.parts.tokens)?;
        let longest = self.program.longest;
        match self.spans.iter().find(|span| span.len() > longest) {
            Some(span) => Err(Error::usage(format!(
                "{MAX_LENGTH}: a text has {} tokens, but the engine was opened for {longest} at most",
                span.len(),
            ))
            .with_remedy(format!("give a smaller {MAX_LENGTH}"))),
            None => Ok(()),
        }
    }

    fn ids(&mut self) -> Result<()> {
        let (ids, table) = (self.rows.ids, self.program.tables.rows);
        if let Some(id) = ids.iter().find(|id| **id as usize >= table) {
            return Err(unknown_id(*id, table));
        }
        self.parts.ids = self.numbers.len();
        self.numbers.extend(ids.iter().map(|id| id.cast_signed()));
        Ok(())
    }

    /// Token types, where rows state them and the network reads them.
    fn types(&mut self) -> Result<()> {
        let embeddings = &self.program.architecture.embeddings;
        let types = self.rows.types;
        if types.is_empty() {
            return Ok(());
        }
        if embeddings.word_types {
            return Err(
                Error::usage("this engine does not look token types up among the tokens")
                    .with_remedy("leave the engine to ONNX Runtime"),
            );
        }
        let count = embeddings.types;
        if count == 0 {
            return Ok(());
        }
        if let Some(kind) = types.iter().find(|kind| **kind as usize >= count) {
            return Err(unknown_type(*kind as usize, count));
        }
        self.parts.kinds = Some(self.numbers.len());
        self.numbers
            .extend(types.iter().map(|kind| kind.cast_signed()));
        Ok(())
    }

    /// Learned positions, where the network has such.
    fn positions(&mut self) -> Result<()> {
        let Some(positions) = self.program.architecture.embeddings.positions else {
            return Ok(());
        };
        let most = self.program.tables.position_rows;
        self.parts.places = Some(self.numbers.len());
        for span in &self.spans {
            let mut counted = 0;
            for (place, id) in self.rows.ids[span.clone()].iter().enumerate() {
                let position = match positions.after {
                    None => place + positions.first,
                    Some(padding) if *id == padding => padding as usize,
                    Some(padding) => {
                        counted += 1;
                        counted + padding as usize
                    }
                };
                if position >= most {
                    return Err(Error::usage(format!(
                        "{MAX_LENGTH}: a text of {} tokens needs position {position}, but the model has {most} positions",
                        span.len(),
                    ))
                    .with_remedy(format!("give a smaller {MAX_LENGTH}")));
                }
                self.numbers.push(int(position)?);
            }
        }
        Ok(())
    }

    /// Of each set of frequencies the rows of its table; sets that turn all rows alike share them.
    fn turns(&mut self) {
        let mut plain = None;
        for beyond in &self.program.turn_starts {
            if let (None, Some(first)) = (beyond, plain) {
                self.parts.turns.push(first);
                continue;
            }
            let first = self.numbers.len();
            for span in &self.spans {
                let start = beyond.filter(|(limit, _)| span.len() > *limit);
                let start = start.map_or(0, |(_, start)| start);
                let rows = start..start + span.len();
                self.numbers.extend(rows.map(|row| row as i32));
            }
            if beyond.is_none() {
                plain = Some(first);
            }
            self.parts.turns.push(first);
        }
    }

    fn ends(&mut self) {
        self.parts.ends = self.numbers.len();
        let ends = self.rows.ends.iter();
        self.numbers.extend(ends.map(|end| *end as i32));
    }

    /// The tokens of each row that are pooled, and the modes.
    fn pooled(&mut self, pooled: Option<(&[Range<usize>], &Pooling)>) -> Result<()> {
        self.parts.spans = self.numbers.len();
        let Some((pooled, pooling)) = pooled else {
            return Ok(());
        };
        if pooled.len() != self.spans.len() {
            return Err(Error::internal("rows without the tokens that are pooled"));
        }
        for (span, pooled) in self.spans.iter().zip(pooled) {
            let end = pooled.end.min(span.len());
            let start = pooled.start.min(end);
            let ends = [(span.start + start) as i32, (span.start + end) as i32];
            self.numbers.extend(ends);
        }
        self.parts.modes = self.numbers.len();
        let modes = pooling.modes.iter();
        self.numbers.extend(modes.map(|mode| *mode as i32));
        Ok(())
    }

    /// Work items of convolutions, one a row, and of attention.
    fn work(&mut self, plan: AttentionPlan) {
        // Structures of four numbers.
        let aligned = self.numbers.len().next_multiple_of(4);
        self.numbers.resize(aligned, 0);
        self.parts.row_work = aligned;
        for row in 0..self.spans.len() {
            let work = self.row_work(row, 0);
            self.numbers.extend(work);
        }
        self.parts.work = self.numbers.len();
        let spans = &self.spans;
        let mut order: Vec<usize> = (0..spans.len())
            .filter(|row| !spans[*row].is_empty())
            .collect();
        // Long rows first, so that none is left at the end.
        order.sort_by_key(|row| Reverse(spans[*row].len()));
        if plan.by_tensor_cores {
            let mut end = plan.short + 1;
            self.group(plan, &order, WorkKernel::Long, end..usize::MAX);
            for class in SHORT_CLASSES {
                if class + 1 < end {
                    self.group(plan, &order, WorkKernel::Short, class + 1..end);
                    end = class + 1;
                }
            }
            self.group(plan, &order, WorkKernel::Short, 1..end);
        } else {
            self.group(plan, &order, WorkKernel::Any, 1..usize::MAX);
        }
    }

    /// A work item: the row's first token, its length, the tokens that all of its tokens see, and the first query.
    fn row_work(&self, row: usize, query: usize) -> [i32; 4] {
        let span = &self.spans[row];
        let length = span.len();
        let seen = self.rows.seen.get(row);
        let seen = seen.map_or(length, |seen| (*seen).min(length));
        [span.start, length, seen, query].map(|it| it as i32)
    }

    /// Work items of the rows in `order` whose lengths are in `lengths`.
    fn group(
        &mut self,
        plan: AttentionPlan,
        order: &[usize],
        kernel: WorkKernel,
        lengths: Range<usize>,
    ) {
        let first = (self.numbers.len() - self.parts.work) / 4;
        let (mut count, mut seen, mut longest) = (0, 0, 0);
        for &row in order {
            let length = self.spans[row].len();
            if !lengths.contains(&length) {
                continue;
            }
            longest = longest.max(length);
            let step = match kernel {
                WorkKernel::Any => ANY_QUERIES,
                WorkKernel::Short => length,
                WorkKernel::Long => LONG_QUERIES,
            };
            for query in (0..length).step_by(step) {
                let work = self.row_work(row, query);
                seen = seen.max(work[2].unsigned_abs() as usize);
                self.numbers.extend(work);
                count += 1;
            }
        }
        let (threads, shared) = match kernel {
            WorkKernel::Any => (128, plan.any_bytes()),
            WorkKernel::Short => (plan.short_threads(longest), plan.short_bytes(seen)),
            WorkKernel::Long => (128, plan.long_bytes()),
        };
        if count > 0 {
            self.parts.groups.push(WorkGroup {
                kernel,
                first,
                count,
                threads,
                shared,
            });
        }
    }
}
