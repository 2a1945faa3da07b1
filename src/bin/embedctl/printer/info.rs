//! The table of `embedctl info`, for people.

use embedctl::engine::Provider;
use embedctl::info::{Fit, ModelInfo};
use embedctl::model::{Card, FileCard};

use super::table::TextTable;
use super::words::{bytes, count};

/// Which weights a provider takes: `Provider::weights_of`, in words.
const RULE: &str = "those that --model-file or --weights names; else native takes safetensors, GPUs a graph built from them, \
     and other providers the ONNX file; without that they take a built graph, too, and GPUs the file where native does not \
     know the model";

/// The table; `all`: providers that are not here are listed with their reasons, too.
pub fn table(info: &ModelInfo, all: bool) -> TextTable {
    let mut table = TextTable::default();
    model(&info.model, &mut table);
    if let Some(native) = &info.native {
        table.entry("native", native);
    }
    table.line("");
    table.line("Files");
    for file in &info.model.files {
        table.line(&line(file));
    }
    table.line("");
    table.line("Runs here");
    let (absent, here): (Vec<&Fit>, Vec<&Fit>) =
        (info.providers.iter()).partition(|fit| fit.absent && !all);
    for fit in here {
        provider(fit, info.provider == Some(fit.provider), &mut table);
    }
    let absent: Vec<Provider> = absent.iter().map(|fit| fit.provider).collect();
    table.absent(&absent);
    table.line("");
    table.wrapped("weights: ", RULE);
    for note in &info.notes {
        table.line("");
        table.wrapped("note: ", note);
    }
    table
}

fn model(model: &Card, table: &mut TextTable) {
    table.line("Model");
    table.entry("name", &model.id);
    if let Some(revision) = &model.revision {
        table.entry("revision", revision);
    }
    table.entry("folder", &model.folder.display().to_string());
    let network = [
        model.architecture.clone(),
        (model.model_type.as_ref()).map(|kind| format!("model_type {kind}")),
        (model.parameters).map(|all| format!("{} parameters", count(all))),
    ];
    let network: Vec<String> = network.into_iter().flatten().collect();
    if !network.is_empty() {
        table.entry("network", &network.join(", "));
    }
    kinds(model, table);
    widths(model, table);
    pooling(model, table);
    for (index, (name, text)) in model.prompts.iter().enumerate() {
        let default = match model.default_prompt.as_ref() == Some(name) {
            true => " (default)",
            false => "",
        };
        let label = if index == 0 { "prompts" } else { "" };
        table.entry(label, &format!("{name}: {text:?}{default}"));
    }
    if !model.tasks.is_empty() {
        table.entry("tasks", &model.tasks.join(", "));
    }
    if model.prompts.is_empty() {
        table.entry("prompts", "none");
    }
    let tokenizer = &model.tokenizer;
    let mut words = format!("{} tokens", count(tokenizer.vocabulary as u64));
    if let (Some(class), Some(because)) = (&tokenizer.class, &tokenizer.because) {
        words = format!("{class} (by {because}), {words}");
    }
    table.entry("tokenizer", &words);
}

/// What the numbers of a row are.
fn kinds(model: &Card, table: &mut TextTable) {
    if let Some(labels) = &model.labels {
        let columns = match &labels[..] {
            [_] => "score".to_owned(),
            several => format!("scores of {}, label", several.join(", ")),
        };
        table.entry(
            "kind",
            &format!("scores (`embedctl score`); columns: {columns}"),
        );
    }
    if model.sparse {
        let most = match model.max_active_dims {
            Some(most) => format!(", {most} entries at most"),
            None => String::new(),
        };
        let kind = format!("sparse vectors{most}; column: embedding (indices and values)");
        table.entry("kind", &kind);
    }
    if model.multi {
        table.entry(
            "kind",
            "a vector for each token (late interaction); column: embedding (a list of vectors)",
        );
    }
    if !model.other_kinds.is_empty() {
        let kinds = model.other_kinds.iter();
        let kinds: Vec<_> = kinds.map(|kind| format!("--vectors {kind}")).collect();
        table.entry("other kinds", &kinds.join(", "));
    }
}

/// How many numbers a vector has, and how many tokens a text.
fn widths(model: &Card, table: &mut TextTable) {
    let mut dimensions = model.dimensions.to_string();
    if model.hidden_width != model.dimensions {
        dimensions += &format!(" (hidden states {})", model.hidden_width);
    }
    table.entry("dimensions", &dimensions);
    if !model.trained_dimensions.is_empty() {
        let widths: Vec<String> = model
            .trained_dimensions
            .iter()
            .map(usize::to_string)
            .collect();
        let text = format!("{}, by the model's files (--dimensions)", widths.join(", "));
        table.entry("trained for", &text);
    }
    let length = match model.max_length {
        Some(tokens) => format!(
            "{} tokens; longer texts are cut on the {}",
            count(tokens as u64),
            model.truncation_side
        ),
        None => "no limit".to_owned(),
    };
    table.entry("length", &length);
}

/// What becomes of the vectors of tokens.
fn pooling(model: &Card, table: &mut TextTable) {
    let mut pooling = match model.pooling.join(" + ") {
        _ if model.multi => "none: each token has a vector".to_owned(),
        none if none.is_empty() => "inside the network".to_owned(),
        modes => modes,
    };
    if !model.include_prompt {
        pooling += ", without the tokens of the prompt";
    }
    for module in &model.modules {
        pooling += &format!(", then {module}");
    }
    table.entry("pooling", &pooling);
    let normalized = match model.normalized {
        true => "vectors have length 1",
        false => "vectors are not scaled (--normalize true scales them to length 1)",
    };
    if model.labels.is_none() && !model.sparse {
        table.entry("normalized", normalized);
    }
}

fn line(file: &FileCard) -> String {
    let precision = file.precision.join(", ");
    format!("  {:>9}  {}  {precision}", bytes(file.size), file.path)
}

fn provider(fit: &Fit, taken: bool, table: &mut TextTable) {
    let word = if fit.runs { "yes" } else { "no" };
    let mut text = match &fit.reason {
        Some(reason) => reason.clone(),
        None => fit.weights.clone().unwrap_or_default(),
    };
    if fit.runs && fit.built {
        text += " (as a built graph)";
    }
    if fit.reason.is_none() && taken {
        text += "; --provider auto takes it";
    }
    table.wrapped(
        &format!("  {:<12}  {word:<3}  ", fit.provider.name()),
        &text,
    );
    table.remedy(!fit.runs, fit.remedy.as_ref());
}
