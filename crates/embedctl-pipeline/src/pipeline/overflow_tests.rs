//! Rows that overflow in fp16 and are computed in bf16, on an engine that says which it runs where.

use std::sync::Mutex;

use super::fake_tests::{Kept, WIDTH, loaded, run_with};
use super::*;
use crate::batch::Batch;
use crate::cancel::CancelToken;
use crate::engine::{BatchLimits, Engine, EngineInfo, OpeningModel, Output, Provider, Worker};
use crate::error::{Error, ErrorKind};
use crate::record::Texts;

/// The rows of each batch that ran.
type Batches = Arc<Mutex<Vec<usize>>>;

/// Numbers up to a token's id: a token's state is its id, or infinite where that is greater.
#[derive(Clone)]
struct BoundedNumbers {
    most: u32,
    batches: Batches,
}

impl BoundedNumbers {
    fn up_to(most: u32) -> Self {
        let batches = Batches::default();
        Self { most, batches }
    }
}

/// An engine in fp16.
struct Fp16 {
    info: EngineInfo,
    fp16: BoundedNumbers,
    /// `None`: the card has no memory for it.
    bf16: Option<BoundedNumbers>,
}

struct Fp16Worker {
    own: BoundedNumbers,
    bf16: Option<BoundedNumbers>,
    is_fp16: bool,
    states: Vec<f32>,
}

impl Engine for Fp16 {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        BatchLimits {
            tokens: 1024,
            rows: 16,
            equal_lengths: false,
        }
    }

    fn is_ragged(&self) -> bool {
        true
    }

    fn workers(&self) -> Option<usize> {
        Some(1)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(Fp16Worker {
            own: self.fp16.clone(),
            bf16: self.bf16.clone(),
            is_fp16: true,
            states: Vec::new(),
        }))
    }
}

impl Worker for Fp16Worker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.own.batches.lock().unwrap().push(batch.rows());
        self.states.clear();
        for &id in &batch.ids {
            let state = match id <= self.own.most {
                true => id as f32,
                false => f32::INFINITY,
            };
            self.states.resize(self.states.len() + WIDTH, state);
        }
        Ok(Output::Tokens {
            states: &self.states,
            width: WIDTH,
        })
    }

    fn in_bf16(&self) -> Result<Option<Box<dyn Worker>>> {
        assert!(self.is_fp16, "bf16 is asked for greater numbers");
        let own = self.bf16.clone();
        let own =
            own.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "fake", "no memory for bf16"))?;
        Ok(Some(Box::new(Self {
            own,
            bf16: None,
            is_fp16: false,
            states: Vec::new(),
        })))
    }
}

const TEXTS: [&str; 6] = ["one", "two two", "six", "one six", "two two", "a b c d"];

/// The greatest token id of each text.
fn greatest_ids() -> Vec<u32> {
    let engine = Fp16 {
        info: EngineInfo::new("fake", "1".into(), Provider::Cpu),
        fp16: BoundedNumbers::up_to(0),
        bf16: None,
    };
    let tokens = loaded(Box::new(engine)).tokenize(&TEXTS.iter().collect::<Texts>());
    let greatest = |row| tokens.get(row).iter().copied().max().unwrap();
    (0..TEXTS.len()).map(greatest).collect()
}

/// Embeds the texts where fp16 and bf16 hold such ids.
fn embedded(
    fp16: &BoundedNumbers,
    bf16: Option<&BoundedNumbers>,
    on_error: OnError,
) -> (Result<Summary>, Kept) {
    let engine = Fp16 {
        info: EngineInfo::new("fake", "1".into(), Provider::Cpu),
        fp16: fp16.clone(),
        bf16: bf16.cloned(),
    };
    let model = OpeningModel::ready(loaded(Box::new(engine)));
    let lines = TEXTS.join("\n") + "\n";
    let unused = |_: &Batch, _| -> Result<f32> { unreachable!("another engine runs") };
    run_with(&lines, unused, on_error, &CancelToken::new(), |run| {
        run.model = model;
    })
}

#[test]
fn rows_that_overflow_in_fp16_run_together_in_bf16_and_are_counted() {
    let ids = greatest_ids();
    // Of equal texts, which run once.
    let two = ids[1];
    let [fp16, bf16, exact] = [two - 1, u32::MAX, u32::MAX].map(BoundedNumbers::up_to);
    let overflowing = ids.iter().filter(|id| **id >= two).count();
    assert!((2..6).contains(&overflowing), "{ids:?}");
    let (summary, expected) = embedded(&exact, None, OnError::Fail);
    assert_eq!(summary.unwrap().counts.overflowed, 0);
    let (summary, kept) = embedded(&fp16, Some(&bf16), OnError::Fail);
    let counts = summary.unwrap().counts;
    assert_eq!(
        (counts.overflowed, counts.rejected),
        (overflowing as u64, 0)
    );
    let (kept, expected) = (kept.0.lock().unwrap(), expected.0.lock().unwrap());
    assert_eq!(kept.ids, expected.ids);
    assert_eq!(kept.vectors, expected.vectors);
    // No row ran alone.
    assert_eq!(*fp16.batches.lock().unwrap(), [5]);
    assert_eq!(*bf16.batches.lock().unwrap(), [overflowing - 1]);
}

#[test]
fn rows_that_overflow_in_bf16_too_are_rejected_and_not_counted() {
    let ids = greatest_ids();
    let greatest = ids.iter().copied().max().unwrap();
    let lost = ids.iter().filter(|id| **id == greatest).count() as u64;
    let [fp16, bf16] = [100, greatest - 1].map(BoundedNumbers::up_to);
    let overflowing = ids.iter().filter(|id| **id > fp16.most).count() as u64;
    assert!(lost < overflowing, "{ids:?}");
    let (summary, kept) = embedded(&fp16, Some(&bf16), OnError::Skip);
    let summary = summary.unwrap();
    assert_eq!(summary.counts.rejected, lost);
    assert_eq!(summary.counts.overflowed, overflowing - lost);
    let reason = &summary.rejects[0];
    assert!(reason.contains("NaN or infinity"), "{reason}");
    assert!(reason.contains("also in bf16"), "{reason}");
    let kept = kept.0.lock().unwrap();
    assert!(kept.vectors.iter().all(|value| value.is_finite()));
    let (result, kept) = embedded(&fp16, Some(&bf16), OnError::Fail);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Record);
    assert!(!kept.0.lock().unwrap().finished);
}

#[test]
fn bf16_that_cannot_be_opened_ends_the_run_also_where_rows_may_be_left_out() {
    let (result, kept) = embedded(&BoundedNumbers::up_to(1), None, OnError::Skip);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("no memory for bf16"), "{error}");
    assert!(!kept.0.lock().unwrap().finished);
}
