//! Templates against transformers: `fixtures/scores/templates.py` has made `templates.json`.

use std::fs;

use serde_json::{Map, Value, json};

use crate::score::ChatTemplate;
use embedctl_common::error::Result;
use embedctl_common::pair::TextPair;
use embedctl_rows::score::ChatFormat;

fn read(template: &Value, file: &str, format: Option<&str>) -> Result<ChatTemplate> {
    let folder = tempfile::tempdir().unwrap();
    let text = match template {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    fs::write(folder.path().join(file), text).unwrap();
    ChatTemplate::read(folder.path(), format, "qwen3", &[], &Map::new())
}

fn rendered(template: &str, format: Option<&str>, pair: TextPair<'_>) -> Result<String, String> {
    let template = read(&template.into(), "chat_template.jinja", format);
    let template = template.map_err(|error| error.to_string())?;
    let text = template.of_text("", &pair.joined(), true);
    text.map_err(|error| error.reason)
}

#[test]
fn templates_write_what_they_write_in_transformers() {
    let file = fs::read("../../fixtures/scores/templates.json").unwrap();
    let whole: Value = serde_json::from_slice(&file).unwrap();
    let pair = TextPair {
        first: whole["query"].as_str().unwrap(),
        second: whole["document"].as_str().unwrap(),
    };
    let cases = whole["cases"].as_array().unwrap();
    assert!(cases.len() > 30);
    let mut failures = Vec::new();
    for case in cases {
        let template = case["template"].as_str().unwrap();
        let format = if case["structured"] == true {
            "structured"
        } else {
            "flat"
        };
        let text = rendered(template, Some(format), pair);
        if text.as_deref() != Ok(case["text"].as_str().unwrap()) {
            failures.push(format!("{template}\n  {text:?}\n  {}", case["text"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_would_be_written_in_another_way_is_refused() {
    let pair = TextPair {
        first: "a",
        second: "b",
    };
    for (template, said) in [
        (
            "{% if strftime_now is defined %}{{ strftime_now('%d %b') }}{% endif %}",
            "strftime_now",
        ),
        ("{{ messages|pprint }}", "pprint"),
        ("{{ x|tojson }}", "is not JSON"),
        ("{{ 1|tojson(colour=1) }}", "colour"),
        ("{{ 'a'.index('b') }}", "substring not found"),
        ("{{ 'a'.rsplit('') }}", "empty separator"),
        ("{{ 'a'.ljust(99999999999) }}", "limit of memory"),
        ("{{ 'a'.zfill(99999999999) }}", "limit of memory"),
    ] {
        let error = rendered(template, None, pair).unwrap_err();
        assert!(error.contains(said), "{template}: {error}");
    }
}

/// Where a model has several named templates, sentence-transformers looks into none, and takes contents for lists of parts.
#[test]
fn the_form_of_contents_is_inferred_where_none_is_stated() {
    let (plain, typed) = (
        "{{ messages[1].content }}",
        "{{ messages[1].content }}{# m.type #}",
    );
    let (text, parts) = ("b", "[{'type': 'text', 'text': 'b'}]");
    let list = json!({"chat_template": [{"name": "default", "template": plain}]});
    let map = json!({"chat_template": {"default": plain, "tool_use": typed}});
    let alone = |template: &str| json!({ "chat_template": template });
    for (config, format, written) in [
        (alone(plain), None, text),
        (alone(plain), Some("auto"), text),
        (alone(typed), Some("auto"), parts),
        (alone(typed), Some("flat"), text),
        (list.clone(), None, parts),
        (list, Some("flat"), text),
        (map.clone(), Some("auto"), parts),
        (map, Some("flat"), text),
    ] {
        let pair = TextPair {
            first: "a",
            second: "b",
        };
        let template = read(&config, "tokenizer_config.json", format).unwrap();
        let chat = template.of_text("", &pair.joined(), true).unwrap();
        assert_eq!(chat, written, "{config} {format:?}");
    }
    let other = json!({"chat_template": {"tool_use": plain}});
    let error = read(&other, "tokenizer_config.json", None).unwrap_err();
    assert!(error.to_string().contains("'default'"));
}
