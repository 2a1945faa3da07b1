//! Chat templates: texts as messages, as a model was trained to read them.
//!
//! A template is a program of the repository's. It runs in an interpreter that has no files, no network, a limit of
//! steps and the budget of its text ([`bounded_template`]). The interpreter recurses: over the operators of an expression
//! where it reads a template, over the levels of nested values where it runs it. Both are bounded, and run on a stack for
//! the most of them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use minijinja::machinery::get_compiled_template;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::bounded_template;
use super::template_source::{check_operators, readable};
use crate::metadata;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::pair::TextPair;
use embedctl_common::small_file;
use embedctl_common::threads::{foreign, panic_message};
use embedctl_rows::budget::TextBudget;
use embedctl_rows::score::ChatFormat;

/// The most bytes of a template's file, and of a template: an operator has a byte or more. Long ones have 30,000.
const MOST_FILE: u64 = 4 << 20;
const MOST_BYTES: usize = 64 << 10;

/// Steps that a template may take for one text, those that weigh a value counted.
const MOST_STEPS: u64 = 1 << 18;

/// The stack of the interpreter: 4 KiB for each byte of a template, and 1 KiB for each step.
const STACK: usize = 256 << 20;

/// The name of the template among an environment's.
const NAME: &str = "chat";

/// A message of a chat.
#[derive(Debug, Clone, Serialize)]
pub struct ChatMessage<'a> {
    /// `system`, `user`, `query` or `document`.
    pub role: &'static str,
    /// Its text.
    pub content: &'a str,
}

/// A model's chat template.
pub struct ChatTemplate {
    file: PathBuf,
    environment: Environment<'static>,
    /// Whether a message's content is a list of parts.
    structured: bool,
    /// Special tokens by name, and arguments.
    variables: Map<String, Value>,
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChatTemplate")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Reads the template of the tokenizer in `folder`. `format` is how a message is written, if the model's files say it;
    /// `kind` its `model_type`; `names` are special tokens, `arguments` variables of the template.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub(crate) fn read(
        folder: &Path,
        format: Option<&str>,
        kind: &str,
        names: &[(String, String)],
        arguments: &Map<String, Value>,
    ) -> Result<Self> {
        let TemplateText {
            file,
            source,
            is_named,
        } = source(folder)?;
        let failed = |reason: String| {
            Error::model(
                file.display(),
                format!("has a chat template that cannot be used: {reason}"),
            )
        };
        let structured = match format {
            Some(format) if format != "auto" => format == "structured",
            _ if FLAT.contains(&kind) => false,
            _ => is_named || STRUCTURED.iter().any(|pattern| source.contains(pattern)),
        };
        if source.len() > MOST_BYTES {
            let bytes = source.len();
            return Err(failed(format!(
                "it has {bytes} bytes, but the limit is {MOST_BYTES}"
            )));
        }
        check_operators(&source).map_err(failed)?;
        let environment = on_deep_stack(|| {
            let mut environment = with_functions(Environment::new());
            environment.set_fuel(Some(MOST_STEPS));
            let added = environment.add_template_owned(NAME, readable(&source));
            added.map(|()| environment).map_err(|error| words(&error))
        });
        let environment = environment.and_then(|read| read).map_err(failed)?;
        let mut variables: Map<String, Value> = names
            .iter()
            .map(|(name, text)| (name.clone(), text.as_str().into()))
            .collect();
        for (name, value) in arguments {
            if ["truncation", "max_length", "padding", "restore_suffix"].contains(&name.as_str()) {
                return Err(failed(format!(
                    "processing_kwargs.chat_template.{name} is set, which embedctl does not do"
                )));
            }
            variables.insert(name.clone(), value.clone());
        }
        for (name, usual) in [
            ("add_generation_prompt", Value::from(false)),
            ("tools", Value::Null),
            ("documents", Value::Null),
        ] {
            variables.entry(name).or_insert(usual);
        }
        Ok(Self {
            file,
            environment,
            structured,
            variables,
        })
    }

    /// The text of a chat.
    ///
    /// # Errors
    /// If the template refuses it, or does not come to an end.
    pub fn render(&self, messages: &[ChatMessage<'_>]) -> Result<String, Cause> {
        self.text_of(messages).map_err(|reason| {
            let file = self.file.display();
            Cause::of(format!(
                "the chat template ({file}) fails on this text: {reason}"
            ))
        })
    }

    /// The text of a chat, or the reason for which there is none, without the template's file.
    fn text_of(&self, messages: &[ChatMessage<'_>]) -> Result<String, String> {
        let bytes = messages.iter().map(|message| message.content.len()).sum();
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| {
                let content = match self.structured {
                    true => json!([{"type": "text", "text": message.content}]),
                    false => message.content.into(),
                };
                json!({"role": message.role, "content": content})
            })
            .collect();
        let rendered = on_deep_stack(|| {
            let values = context! { messages, ..minijinja::Value::from_serialize(&self.variables) };
            let template = self.environment.get_template(NAME);
            let template = template.map_err(|error| words(&error))?;
            let compiled = get_compiled_template(&template);
            let budget = TextBudget::of_program(bytes);
            let text = bounded_template::render(&self.environment, compiled, values, budget)
                .map_err(|error| words(&error))?;
            let most = TextBudget::bytes(bytes);
            match text.len() <= most {
                true => Ok(text),
                false => Err(format!(
                    "it writes more than {most} bytes, the limit of memory for this text"
                )),
            }
        });
        rendered.and_then(|text| text)
    }

    /// Checks that both texts of a pair come into the chat: a template that knows other roles alone leaves them out.
    ///
    /// # Errors
    /// If one does not.
    pub(crate) fn check_roles(&self) -> Result<()> {
        let chat = |first, second| {
            let text = self.text_of(&of_pair(TextPair { first, second }));
            text.map_err(|reason| {
                let reason = format!("has a chat template that fails on a pair: {reason}");
                Error::model(self.file.display(), reason)
            })
        };
        let base = chat("alpha", "bravo")?;
        let lost = [
            ("query", chat("charlie", "bravo")?),
            ("document", chat("alpha", "foxtrot")?),
        ];
        match lost.iter().find(|(_, other)| *other == base) {
            None => Ok(()),
            Some((role, _)) => Err(Error::model(
                self.file.display(),
                format!("has a chat template that leaves out messages of the role '{role}', so it scores no pair"),
            )
            .with_remedy("use a model that was trained to score pairs, or give it a template for them")),
        }
    }
}

impl ChatFormat for ChatTemplate {
    fn file(&self) -> &Path {
        &self.file
    }

    fn of_text(&self, prompt: &str, text: &str, is_pair: bool) -> Result<String, Cause> {
        let message = |role, content| ChatMessage { role, content };
        let mut messages = Vec::new();
        if !prompt.is_empty() {
            messages.push(message("system", prompt));
        }
        match TextPair::of(text).filter(|_| is_pair) {
            Some(pair) => messages.extend(of_pair(pair)),
            None => messages.push(message("user", text)),
        }
        self.render(&messages)
    }
}

/// The messages of a pair.
fn of_pair<'a>(pair: TextPair<'a>) -> [ChatMessage<'a>; 2] {
    let message = |role, content| ChatMessage { role, content };
    [
        message("query", pair.first),
        message("document", pair.second),
    ]
}

/// Architectures whose templates read a message's content as a text.
const FLAT: [&str; 4] = ["apertus", "deepseek_v3", "gpt_oss", "seed_oss"];

/// What a template has that reads a message's content as a list of parts.
const STRUCTURED: [&str; 6] = [
    "content[0]",
    ".type",
    "'type'",
    "\"type\"",
    "item.type",
    "message.content[",
];

/// A template as it is stored.
struct TemplateText {
    /// The file that holds it.
    file: PathBuf,
    source: String,
    /// Whether it is the default of several that have names.
    is_named: bool,
}

fn source(folder: &Path) -> Result<TemplateText> {
    let alone = folder.join("chat_template.jinja");
    match small_file::read(&alone, MOST_FILE) {
        Ok(bytes) => {
            let source = String::from_utf8(bytes)
                .map_err(|_| Error::model(alone.display(), "is not UTF-8"))?;
            return Ok(TemplateText {
                file: alone,
                source,
                is_named: folder.join("additional_chat_templates").exists(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io("read", &alone, error)),
    }
    let file = folder.join("tokenizer_config.json");
    let config = metadata::read_object(&file)?.unwrap_or_default();
    let (text, is_named) = match config.get("chat_template") {
        Some(Value::Array(named)) => {
            let default = named.iter().find(|one| one["name"] == "default");
            (default.map(|one| &one["template"]), true)
        }
        Some(Value::Object(named)) => (named.get("default"), true),
        other => (other, false),
    };
    match text.and_then(Value::as_str) {
        Some(text) => Ok(TemplateText {
            source: text.to_owned(),
            file,
            is_named,
        }),
        None => Err(Error::model(
            file.display(),
            "has several chat templates, but none is called 'default'",
        )),
    }
}

/// An environment with what transformers gives to templates.
fn with_functions(mut environment: Environment<'static>) -> Environment<'static> {
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    bounded_template::prepare(&mut environment);
    environment.add_function(
        "raise_exception",
        |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        },
    );
    environment.add_function(
        "strftime_now",
        |_: String| -> Result<String, minijinja::Error> {
            let reason =
                "it writes the date (strftime_now), so its scores would be others tomorrow";
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
        },
    );
    environment
}

/// Runs `work` on a thread with a large stack, of which the system gives as much as is used.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("chat-template".into())
            .stack_size(STACK)
            .spawn_scoped(scope, || foreign(work));
        let thread = thread.map_err(|error| format!("no thread could be started: {error}"))?;
        let done = thread.join();
        done.unwrap_or_else(|panic| Err(panic_message(&*panic)))
    })
}

/// An error with its causes.
fn words(error: &minijinja::Error) -> String {
    format!("{error:#}")
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
