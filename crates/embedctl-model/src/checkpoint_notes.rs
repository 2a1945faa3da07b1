//! Notes about the weights that the native engine takes.

use embedctl_checkpoint::{Adapter, is_own_code};
use embedctl_kernels::Isa;
use serde_json::Value;

use crate::Model;

/// Notes about the weights that the engine takes for `model`, without reading them: the choice among several networks,
/// an adapter, and code of the repository's own that is not run; and faster instructions of the processor that are not used.
pub(crate) fn notes(model: &Model) -> Vec<String> {
    let Ok(known) = &model.checkpoint else {
        return Vec::new();
    };
    let own_code = own_code(&known.config).map(|classes| {
        if is_own_code(&known.config) {
            return format!(
                "config.json names code of the repository's own ({classes}), which is not run: the native engine \
                 computes the same network itself"
            );
        }
        format!(
            "config.json names code of the repository's own ({classes}), which is not run: the model is taken for \
             transformers' own class for the model_type {}",
            known.config["model_type"].as_str().unwrap_or_default()
        )
    });
    let adapter = model.adapter().map(|adapter| {
        let adapter = match adapter {
            Adapter::LowRank(adapter) => adapter,
            Adapter::Task(task) => {
                return format!("the model's adapter for the task {task} is applied");
            }
        };
        let below = adapter
            .base
            .as_deref()
            .map(|base| format!(" over those of its base model {base}"));
        format!(
            "{}: the adapter's weights are applied{}",
            adapter.weights.display(),
            below.unwrap_or_default()
        )
    });
    let network = known.network_notes();
    let tiles = Isa::why_no_tiles()
        .map(|reason| format!("the native engine computes with AVX-512 in place of AMX: {reason}"));
    let slower =
        Isa::why_slower().map(|reason| format!("the native engine is slow here: {reason}"));
    let notes = own_code.into_iter().chain(adapter).chain(network);
    notes.chain(tiles).chain(slower).collect()
}

/// The classes that `auto_map` names, where it names any: `AutoModel: modeling.OwnModel`.
fn own_code(config: &Value) -> Option<String> {
    let shown = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    match &config["auto_map"] {
        Value::Null => None,
        Value::Object(map) => {
            let given = map.iter().filter(|(_, value)| !value.is_null());
            let classes: Vec<String> = given
                .map(|(class, value)| format!("{class}: {}", shown(value)))
                .collect();
            (!classes.is_empty()).then(|| format!("auto_map: {}", classes.join(", ")))
        }
        other => Some(format!("auto_map: {}", shown(other))),
    }
}
