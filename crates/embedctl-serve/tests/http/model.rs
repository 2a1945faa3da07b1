//! A model without weights: a token is a character, and a row's numbers are its length and its first characters.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use embedctl_common::Texts;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::pair::TextPair;
use embedctl_rows::batch::{BatchLimits, TokenRows};
use embedctl_rows::score::ScoreForm;

use embedctl_serve::{ModelCard, ServedCorpus, ServedModel, ServedRow, ServedWorker, Token};
use embedctl_vectors::RowForm;

/// Components of a row.
pub const WIDTH: usize = 4;

/// Whether workers may run, and the batches that they were given.
#[derive(Default)]
pub struct Gate {
    state: Mutex<(bool, Vec<Vec<String>>)>,
    changed: Condvar,
    /// The name of the thread that ran the last batch.
    thread: Mutex<Option<String>>,
}

impl Gate {
    /// Lets workers run from now on, or holds them.
    pub fn set(&self, open: bool) {
        self.state.lock().unwrap().0 = open;
        self.changed.notify_all();
    }

    /// The texts of all batches so far.
    pub fn batches(&self) -> Vec<Vec<String>> {
        self.state.lock().unwrap().1.clone()
    }

    /// Waits until so many batches have begun.
    pub fn wait_for(&self, batches: usize) {
        let state = self.state.lock().unwrap();
        let few = |state: &mut (bool, Vec<Vec<String>>)| state.1.len() < batches;
        drop(self.changed.wait_while(state, few).unwrap());
    }

    /// The name of the thread that ran the last batch.
    pub fn last_thread(&self) -> Option<String> {
        self.thread.lock().unwrap().clone()
    }

    /// Waits until workers may run.
    pub fn wait_open(&self) {
        let state = self.state.lock().unwrap();
        let closed = |state: &mut (bool, Vec<Vec<String>>)| !state.0;
        drop(self.changed.wait_while(state, closed).unwrap());
    }

    fn pass(&self, batch: Vec<String>) {
        *self.thread.lock().unwrap() = std::thread::current().name().map(str::to_owned);
        self.state.lock().unwrap().1.push(batch);
        self.changed.notify_all();
        self.wait_open();
    }
}

/// The model. Rows of texts with `fail` fail the engine, those with `panic` panic, those with `null` have no numbers. Texts
/// with `slow` are tokenized once the gate is open.
pub struct FakeModel {
    pub card: ModelCard,
    pub gate: Arc<Gate>,
    pub corpus: Option<Arc<dyn ServedCorpus>>,
}

impl FakeModel {
    pub fn new(workers: usize) -> Self {
        let gate = Gate::default();
        gate.set(true);
        let prompts = [("query".to_owned(), "q: ".to_owned())];
        Self {
            card: ModelCard {
                id: "org/fake".into(),
                revision: None,
                digest: "0".repeat(64),
                form: RowForm::Dense(vec![WIDTH]),
                labels: Vec::new(),
                cuts: true,
                max_length: Some(4000),
                prompt: String::new(),
                prompts: BTreeMap::from(prompts),
                normalized: false,
                pooling: "mean".into(),
                is_half: false,
                truncation: "right",
                limits: BatchLimits {
                    tokens: 256,
                    rows: 64,
                    equal_lengths: false,
                },
                workers,
                details: serde_json::Map::new(),
            },
            gate: Arc::new(gate),
            corpus: None,
        }
    }
}

impl FakeModel {
    /// One that gives so many scores.
    pub fn scoring(labels: usize) -> Self {
        let mut model = Self::new(1);
        model.card.form = RowForm::Scores(labels);
        model.card.labels = (0..labels).map(|label| format!("label {label}")).collect();
        model
    }
}

/// The numbers of a text, or of a pair as `first|second`.
pub fn numbers(text: &str) -> Vec<f32> {
    let mut numbers = vec![text.chars().count() as f32];
    numbers.extend(text.chars().map(|it| it as u32 as f32));
    numbers.resize(WIDTH, 0.0);
    numbers
}

impl ServedModel for FakeModel {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn tokenize(&self, texts: &Texts, prompt: Option<&str>) -> TokenRows {
        let mut rows = TokenRows::default();
        for text in texts.iter() {
            if text.contains("slow") {
                self.gate.wait_open();
            }
            let most = self.card.max_length.unwrap();
            let ids = prompt.unwrap_or("").chars().chain(text.chars());
            let ids: Vec<u32> = ids.map(u32::from).collect();
            if text.contains("refuse") {
                rows.push_refused(Cause::of("it is refused"));
            } else {
                let kept = ids.len().min(most);
                rows.push(ids[..kept].iter().copied(), ids.len() - kept);
            }
        }
        rows
    }

    fn tokenize_pairs(&self, pairs: &[TextPair<'_>]) -> TokenRows {
        let most = self.card.max_length.unwrap();
        let first = |it: &TextPair<'_>| it.first.chars().take(most).collect::<String>();
        let texts = pairs
            .iter()
            .map(|it| format!("{}|{}", first(it), it.second));
        self.tokenize(&texts.collect(), None)
    }

    /// Other forms than the raw one are other numbers.
    fn finish(&self, form: ScoreForm, scores: &mut [f32]) {
        let factor = match form {
            ScoreForm::Raw => 1.0,
            ScoreForm::Written => 10.0,
            ScoreForm::Probability => -1.0,
        };
        scores.iter_mut().for_each(|score| *score *= factor);
    }

    fn frame(&self, ids: &[Vec<u32>]) -> Result<TokenRows, Cause> {
        let mut rows = TokenRows::default();
        ids.iter().for_each(|ids| rows.push(ids.iter().copied(), 0));
        Ok(rows)
    }

    fn tokens(&self, text: &str, _: Option<&str>, _: bool) -> Result<Vec<Token>, Cause> {
        if text.contains("slow") {
            self.gate.wait_open();
        }
        let token = |(start, character): (usize, char)| Token {
            id: character.into(),
            text: character.into(),
            special: false,
            start: Some(start),
            stop: Some(start + 1),
        };
        Ok(text.chars().enumerate().map(token).collect())
    }

    fn cut(&self, row: &[f32], dimensions: usize) -> Option<Vec<f32>> {
        Some(row[..dimensions].to_vec())
    }

    fn corpus(&self) -> Option<&dyn ServedCorpus> {
        self.corpus.as_deref()
    }

    fn worker(&self) -> Result<Box<dyn ServedWorker>> {
        Ok(Box::new(GatedWorker(Arc::clone(&self.gate))))
    }
}

struct GatedWorker(Arc<Gate>);

impl ServedWorker for GatedWorker {
    fn run(&mut self, rows: &TokenRows) -> Result<Vec<Result<ServedRow, Cause>>> {
        let text = |row| rows.get(row).iter().filter_map(|&id| char::from_u32(id));
        let texts: Vec<String> = (0..rows.len()).map(|row| text(row).collect()).collect();
        self.0.pass(texts.clone());
        assert!(
            !texts.iter().any(|text| text.contains("panic")),
            "a wanted panic"
        );
        if texts.iter().any(|text| text.contains("fail")) {
            return Err(Error::engine("fake", "a wanted failure"));
        }
        let row = |text: &String| match text.contains("null") {
            true => Err(Cause::of("it has no numbers")),
            false => Ok(ServedRow {
                // As of a sparse vector; other heads do not look at them.
                indices: (0..).step_by(7).take(WIDTH).collect(),
                values: numbers(text),
                has_overflowed: false,
            }),
        };
        Ok(texts.iter().map(row).collect())
    }
}
