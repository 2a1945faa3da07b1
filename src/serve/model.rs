//! An opened model as the server knows it.

mod scoring;

use std::sync::Arc;

use embedctl_serve::{ModelCard, ServedCorpus, ServedModel, ServedRow, ServedWorker, Token};
use serde_json::{Map, Value, json};

use super::LikeFile;
use super::rows::LikeRows;
use crate::batch::TokenRows;
use crate::engine::LoadedModel;
use crate::engine::RowWorker;
use crate::error::{Cause, Error, Result};
use crate::identity::VectorIdentity;
use crate::inspect::Verification;
use crate::model::ModelProvenance;
use crate::output::Dtype;
use crate::pool::Pooler;
use crate::record::{RowVector, Texts};
use crate::rows::score::ScoreForm;
use crate::rows::{Side, Step};
use crate::setting::VECTORS;
use embedctl_common::hash;
use embedctl_common::pair::TextPair;
use scoring::Scoring;

/// A model that gives vectors or scores.
pub(super) struct OpenedModel {
    loaded: Arc<LoadedModel>,
    card: ModelCard,
    /// Where it gives scores.
    scoring: Option<Scoring>,
    /// The rows of that output.
    pub rows: Option<LikeRows>,
}

impl OpenedModel {
    pub fn new(
        mut loaded: LoadedModel,
        identity: &VectorIdentity,
        files: &ModelProvenance,
        like: Option<&LikeFile>,
        verified: Option<&Verification>,
    ) -> Result<Self> {
        if !loaded.model().config.beside.is_empty() {
            return Err(Error::usage(format!(
                "{VECTORS}: a server gives vectors of one kind, but several are asked for"
            ))
            .with_remedy("start a server for each kind"));
        }
        if loaded.model().config.any_multi().is_some() {
            return Err(Error::usage(
                "the model gives each token a vector, but the protocols of a server have one for a text",
            )
            .with_remedy("embed with it in a batch job"));
        }
        let scoring = Scoring::of(&loaded)?;
        if scoring.is_some() {
            let prompt_tokens = loaded.tokenizer().prompt_tokens();
            let raw = Pooler::of_raw_scores(&loaded.model().config, prompt_tokens);
            loaded = loaded.with_pooler(raw);
        }
        let (model, config) = (loaded.model(), &loaded.model().config);
        // Where prompt tokens are left out of pooling, a worker's pooling belongs to one prompt.
        let prompts = match config.include_prompt {
            true => config.prompts.by_name.clone(),
            false => Default::default(),
        };
        // A vector that was scaled is not the one that a shorter one is cut from.
        let is_whole = !config.normalize_last || config.steps.last() == Some(&Step::Normalize);
        let modes = config.pooling.iter().map(|mode| mode.name());
        let card = ModelCard {
            id: model.id.clone(),
            revision: model.revision.clone(),
            digest: digest(files),
            form: config.form(),
            labels: scoring.as_ref().map_or_else(Vec::new, Scoring::labels),
            cuts: config.dimensions.is_empty()
                && is_whole
                && like.is_none()
                && scoring.is_none()
                && config.sparse.is_none(),
            max_length: config.limit(),
            prompt: config.prompt.clone(),
            prompts,
            normalized: config.normalized(),
            pooling: modes.collect::<Vec<_>>().join("+"),
            is_half: identity.dtype() == Dtype::F16.name(),
            truncation: match config.truncation_side {
                Side::Left => "left",
                Side::Right => "right",
            },
            limits: loaded.limits(),
            workers: loaded.threads(),
            details: details(&loaded, identity, files, like, verified)?,
        };
        Ok(Self {
            loaded: Arc::new(loaded),
            card,
            scoring,
            rows: None,
        })
    }

    /// `rows`, those refused that the model cannot run.
    fn bounded(&self, mut rows: TokenRows) -> TokenRows {
        self.loaded.bounds().refuse(&mut rows);
        rows
    }
}

/// A hash of the hashes of a model's files.
fn digest(files: &ModelProvenance) -> String {
    let hashes = files.files.iter().map(|file| file.sha256.as_str());
    hash::of(hashes.collect::<Vec<_>>().join("\n"))
}

/// The members of `/info` beside those of text-embeddings-inference.
fn details(
    loaded: &LoadedModel,
    identity: &VectorIdentity,
    files: &ModelProvenance,
    like: Option<&LikeFile>,
    verified: Option<&Verification>,
) -> Result<Map<String, Value>> {
    let failed = |error| Error::internal(format!("describing the model: {error}"));
    let value = |name: &str, value: serde_json::Result<Value>| {
        Ok((name.to_owned(), value.map_err(failed)?))
    };
    let mut all = vec![
        value("identity", serde_json::to_value(identity))?,
        value("model", serde_json::to_value(files))?,
        value("engine", serde_json::to_value(loaded.info()))?,
    ];
    if let Some(like) = like {
        let like = json!({
            "file": like.path(),
            "prompt_differs": like.prompt_differs(identity),
            "verified": verified,
        });
        all.push(("like".to_owned(), like));
    }
    Ok(all.into_iter().collect())
}

impl ServedModel for OpenedModel {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn tokenize(&self, texts: &Texts, prompt: Option<&str>) -> TokenRows {
        if let Some(scoring) = &self.scoring {
            return self.bounded(scoring.tokenize(texts));
        }
        let Some(prompt) = prompt else {
            return self.loaded.tokenize(texts);
        };
        self.bounded(self.loaded.tokenizer().tokenize_behind(prompt, texts))
    }

    fn tokenize_pairs(&self, pairs: &[TextPair<'_>]) -> TokenRows {
        let tokenizer = self.scoring.as_ref().map(Scoring::pairs);
        let tokenizer = tokenizer.unwrap_or(self.loaded.tokenizer());
        self.bounded(tokenizer.tokenize_pairs(pairs))
    }

    fn finish(&self, form: ScoreForm, scores: &mut [f32]) {
        if let Some(scoring) = &self.scoring {
            scoring.finish(form, scores);
        }
    }

    fn frame(&self, ids: &[Vec<u32>]) -> Result<TokenRows, Cause> {
        let mut rows = TokenRows::default();
        for ids in ids {
            self.loaded.tokenizer().frame_ids(ids, &mut rows)?;
        }
        Ok(self.bounded(rows))
    }

    fn tokens(&self, text: &str, prompt: Option<&str>, special: bool) -> Result<Vec<Token>, Cause> {
        let model = self.loaded.model();
        let tokenizer = &model.tokenizer;
        let text = format!("{}{text}", prompt.unwrap_or(&model.config.prompt));
        let encoded = self.loaded.tokenizer().with_places(&text)?;
        let characters: Vec<char> = text.chars().collect();
        let own = encoded.get_ids().iter().zip(encoded.get_offsets());
        let own = own.map(|(&id, &(start, stop))| Token {
            id,
            text: characters
                .get(start..stop)
                .unwrap_or_default()
                .iter()
                .collect(),
            special: false,
            start: Some(start),
            stop: Some(stop),
        });
        let added = |ids: &[u32]| -> Vec<Token> {
            let ids = ids.iter().filter(|_| special);
            ids.map(|&id| Token {
                id,
                text: tokenizer.id_to_token(id).unwrap_or_default(),
                special: true,
                start: None,
                stop: None,
            })
            .collect()
        };
        let frame = &model.config.frame;
        let (before, after) = (added(&frame.before), added(&frame.after));
        Ok(before.into_iter().chain(own).chain(after).collect())
    }

    fn cut(&self, row: &[f32], dimensions: usize) -> Option<Vec<f32>> {
        let mut vector = Vec::with_capacity(dimensions);
        let pooler = self.loaded.pooler();
        pooler.cut_to(dimensions, row, &mut vector)?;
        Some(vector)
    }

    fn corpus(&self) -> Option<&dyn ServedCorpus> {
        let rows = self.rows.as_ref()?;
        Some(rows)
    }

    fn worker(&self) -> Result<Box<dyn ServedWorker>> {
        Ok(Box::new(OpenedWorker {
            worker: self.loaded.worker()?,
            loaded: Arc::clone(&self.loaded),
        }))
    }
}

/// A thread's worker of it.
struct OpenedWorker {
    loaded: Arc<LoadedModel>,
    worker: RowWorker,
}

impl ServedWorker for OpenedWorker {
    fn run(&mut self, rows: &TokenRows) -> Result<Vec<Result<ServedRow, Cause>>> {
        let mut vectors: Vec<Option<Result<ServedRow, Cause>>> = vec![None; rows.len()];
        for plan in self.loaded.plan(rows) {
            let finished = self.worker.run(&plan, rows)?;
            for (&row, vector) in finished.rows.iter().zip(finished.vectors.iter()) {
                vectors[row as usize] = Some(Ok(served(vector.first())));
            }
            for row in finished.overflowed {
                if let Some(Ok(served)) = &mut vectors[row as usize] {
                    served.has_overflowed = true;
                }
            }
            for (row, cause) in finished.failed {
                vectors[row as usize] = Some(Err(cause));
            }
        }
        let finish = |vector: Option<Result<ServedRow, Cause>>| match vector {
            Some(vector) => vector,
            None => Ok(served(self.loaded.vector_of_nothing()?.get(0).first())),
        };
        Ok(vectors.into_iter().map(finish).collect())
    }
}

fn served(vector: RowVector<'_>) -> ServedRow {
    ServedRow {
        indices: vector.indices().unwrap_or_default().to_vec(),
        values: vector.values().to_vec(),
        has_overflowed: false,
    }
}
