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
use crate::budget::TextBudget;
use crate::metadata;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::pair::TextPair;
use embedctl_common::small_file;
use embedctl_common::threads::{foreign, panic_message};

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

    /// The file that it was read from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
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

    /// The chat of a row's text: a message, or one for each text of a pair; `prompt` is the system's.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn of_text(&self, prompt: &str, text: &str, is_pair: bool) -> Result<String, Cause> {
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
    let config: Map<String, Value> = metadata::read(&file)?.unwrap_or_default();
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
mod tests {
    use super::*;
    use crate::score::template_source::MOST_OPERATORS;

    fn template(source: &str) -> Result<ChatTemplate> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
        let names = [("eos_token".to_owned(), "</s>".to_owned())];
        ChatTemplate::read(folder.path(), None, "qwen3", &names, &Map::new())
    }

    #[test]
    fn a_pair_is_two_messages_and_a_prompt_the_systems() {
        let source = "{% for m in messages %}<{{ m.role }}>{{ m['content'].strip() }}{{ eos_token }}{% endfor %}\
                      {% if add_generation_prompt %}x{% endif %}";
        let template = template(source).unwrap();
        let pair = TextPair {
            first: " q ",
            second: "d",
        }
        .joined();
        let text = template.of_text("judge", &pair, true).unwrap();
        assert_eq!(text, "<system>judge</s><query>q</s><document>d</s>");
        assert_eq!(template.of_text("", "t", false).unwrap(), "<user>t</s>");
        assert!(template.check_roles().is_ok());
    }

    /// Each of these was a stack overflow, which ends the process.
    #[test]
    fn deep_expressions_and_values_are_bounded() {
        for (start, level, end) in [
            ("{{ ", "not ", "1 }}"),
            ("{{ ", "-", "1 }}"),
            ("{{ 'a'", "|string", " }}"),
            ("{{ a", ".a", " }}"),
            ("{{ a", "[0]", " }}"),
            ("{{ a", "()", " }}"),
            ("{{ 1", "+1", " }}"),
            ("{{ 1", "**1", " }}"),
            ("{{ 1", "~1", " }}"),
            ("{{ 1", " is odd", " }}"),
            ("{{ 1", " if 1 else 1", " }}"),
            ("{{ 1", " and 1", " }}"),
            ("{{ ", "[", "1 }}"),
            ("{{ ", "(", "1 }}"),
            ("{% if 1 %}", "{% elif 1 %}", "{% endif %}"),
            ("", "{% if 1 %}", ""),
            ("", "{% filter upper %}", ""),
        ] {
            let source = |levels: usize| format!("{start}{}{end}", level.repeat(levels));
            let most = (MOST_BYTES - start.len() - end.len()) / level.len();
            // Whether it is read, run, or refused: the process goes on.
            if let Ok(template) = template(&source(most)) {
                let _ = template.of_text("", "a", false);
            }
            let error = template(&source(100_000)).unwrap_err().to_string();
            assert!(error.contains("but the limit is 65536"), "{level}: {error}");
        }
        for (value, shown) in [
            ("[n.x]", "{{ n.x }}"),
            ("[[[[[[[[n.x]]]]]]]]", "{{ n.x }}"),
            ("{'a': n.x}", "{{ n.x|tojson }}"),
            ("[n.x]", "{{ n.x|tojson }}"),
            ("[n.x]", "{{ n.x == [n.x] }}"),
            ("[n.x]", ""),
        ] {
            let source = format!(
                "{{% set n = namespace(x=1) %}}{{% for i in range(9000) %}}{{% set n.x = {value} %}}{{% endfor %}}{shown}"
            );
            let _ = template(&source).unwrap().of_text("", "a", false);
        }
    }

    /// Reading a chain takes the square of its length: 30,000 terms took more than half a minute.
    #[test]
    fn operators_of_a_tag_are_counted_before_it_is_read() {
        for term in [
            "+x",
            "-x",
            "~x",
            "*1",
            "/x",
            "//x",
            "%x",
            "**1",
            "==x",
            "<x",
            " and x",
            " or x",
            " in x",
            " not in x",
            " + -x",
            " and not x",
        ] {
            let chain = |terms: usize| format!("a\n{{{{ x{} }}}}", term.repeat(terms));
            let error = template(&chain(MOST_OPERATORS + 1))
                .unwrap_err()
                .to_string();
            let said = "the expression on line 2 has more than 500 operators, the limit";
            assert!(error.contains(said), "{term}: {error}");
            // What follows it is not read, either.
            let cut = format!("{}{{{{ 'open", chain(MOST_OPERATORS + 1));
            assert!(template(&cut).unwrap_err().to_string().contains(said));
        }
        for source in [
            format!(
                "{{% set x = 1 %}}{{{{ x{} }}}}",
                "+x".repeat(MOST_OPERATORS)
            ),
            "{{ 1 + 1 }}{% if 1 == 1 and 1 %}{% endif %}".repeat(1000),
            format!("{{{{ [{}1]|length }}}}", "1,".repeat(2000)),
            "a + b - c\n".repeat(2000),
        ] {
            template(&source).unwrap();
        }
    }

    /// Each of these took gigabytes or minutes within a few steps.
    #[test]
    fn values_that_grow_are_bounded() {
        let loops = |start: &str, step: &str| {
            format!(
                "{{% set n = namespace({start}) %}}{{% for i in range(60) %}}{step}{{% endfor %}}{{{{ n.a|length }}}}"
            )
        };
        for source in [
            loops("a='xxxxxxxx'", "{% set n.a = n.a + n.a %}"),
            loops("a='xxxxxxxx'", "{% set n.a = n.a ~ n.a %}"),
            loops("a='x'", "{% set n.a = n.a * 10 %}"),
            loops("a=[1]", "{% set n.a = n.a + n.a %}"),
            loops("a=[1]", "{% set n.a = n.a * 10 %}"),
            loops("a=[1]", "{% set n.a = [n.a, n.a] %}"),
            loops("a={}", "{% set n.a = {'a': n.a, 'b': n.a} %}"),
            loops("a='x'", "{% set n.a = n.a|replace('x', 'xxxxxxxxxx') %}"),
            loops("a='x'", "{% set n.a = n.a.replace('x', 'xxxxxxxxxx') %}"),
            loops("a='x'", "{% set n.a = [n.a, n.a, n.a]|join(n.a) %}"),
            loops("a='x'", "{% set n.a = n.a.join([n.a, n.a, n.a]) %}"),
            loops("a='xx'", "{% set n.a = n.a|join(n.a) %}"),
            loops("a='xxxxxxxx'", "{% set b %}{{ n.a }}{{ n.a }}{% endset %}{% set n.a = b %}"),
            loops("a='x'", &format!("{{% set n.a %}}{{{{ n.a }}}}{}{{% endset %}}", "y".repeat(50_000))),
            loops("a=[1]", "{% set n.a = range(90000)|map('replace', '1', 'x' * 9000)|list %}"),
            loops("a=range(90000)|list", "{% set b = n.a|sort + n.a|sort + n.a|sort + n.a|sort %}"),
            "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% else %}{{ 'x' * 100000 }}{% endif %}{% endmacro %}{{ m(12) }}".into(),
            "{{ '%10000000000s'|format('x') }}".into(),
            "{{ '%*s'|format(10000000000, 'x') }}".into(),
            "{{ '{:>10000000000}'.format('x') }}".into(),
            "{{ 'x\ny'|indent(10000000000) }}".into(),
            "{{ [1]|batch(10000000000, 0)|list|length }}".into(),
            "{{ [1]|slice(10000000000)|list|length }}".into(),
            "{{ [1, [2]]|tojson(indent=1000000000) }}".into(),
            "{% set a = 'x' * 90000000 %}".repeat(1000),
            "{% set a = ('x' * 3) * (30000000 * 1) %}".repeat(1000),
        ] {
            let error = template(&source).unwrap().of_text("", "a", false).unwrap_err();
            let limits = ["limit of memory", "200 deep"];
            let is_bounded = limits.iter().any(|limit| error.reason.contains(limit));
            assert!(is_bounded, "{source:.200}: {}", error.reason);
        }
    }

    /// The interpreter would go around in them until its stack is full.
    #[test]
    fn circles_are_refused() {
        for (set, shown) in [
            ("{% set n.x = n %}", "{{ n }}"),
            ("{% set n.x = [n] %}", "{{ n.x|tojson }}"),
            ("{% set n.x = {'a': [n]} %}", "{{ n.x == n.x }}"),
            ("{% set l = [n] %}{% set n.x = l %}", "{{ l == l }}"),
            ("{% set m = namespace(n=n) %}{% set n.x = m %}", "{{ m }}"),
            ("{% set m = dict(n=n) %}{% set n.x = m %}", "{{ m }}"),
        ] {
            let source = format!("{{% set n = namespace(x=1) %}}{set}{shown}");
            let error = template(&source)
                .unwrap()
                .of_text("", "a", false)
                .unwrap_err();
            assert!(
                error.reason.contains("a namespace into a value"),
                "{source}: {}",
                error.reason
            );
        }
    }

    /// What templates do with values, as Jinja does it: the program that runs is another than the one that was read.
    #[test]
    fn programs_within_the_budget_write_what_they_should() {
        for (source, text) in [
            (
                "{{ 2 * 3 }}|{{ 'ab' * 2 }}|{{ 2 * 'ab' }}|{{ [1, 2] * 2 }}|{{ 2.5 * 2 }}|{{ 2 ** 3 * 2 }}|{{ -2 * 3 }}",
                "6|abab|abab|[1, 2, 1, 2]|5.0|16|-6",
            ),
            (
                "{% for m in messages %}{{ loop.index }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}",
                "1",
            ),
            (
                "{% for i in range(5) if i is odd %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% else %}-{% endfor %}",
                "1",
            ),
            (
                "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
                "13",
            ),
            (
                "{% macro m(a, b='x') %}<{{ a }}{{ b }}{{ caller() if caller }}>{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m(*[1, 3]) }}\
              {% call m(3) %}in{% endcall %}",
                "<1x><12><13><3xin>",
            ),
            (
                "{% set n = namespace(a=1, l=[]) %}{% for i in [2, 3] %}{% set n.a = n.a * i %}{% set n.l = n.l + [i] %}{% endfor %}\
              {{ n.a }}{{ n.l }}",
                "6[2, 3]",
            ),
            (
                "{% set b %}a{{ 1 + 1 }}{% endset %}{{ b ~ b }}{{ 'a' in b and 1 < 2 < 3 }}{{ b[0] }}{{ b[::-1] }}",
                "a2a2Truea2a",
            ),
            (
                "{{ messages[0].content.upper().split('-')|length }}{{ messages[0]['role'] }}{{ x is defined }}{{ x or 'y' }}",
                "1userFalsey",
            ),
            (
                "{{ {'a': [1, {'b': 2}]}|tojson }}{{ {'a': 1}.items()|list }}{{ ['b', 'a']|sort|join(', ') }}",
                "{\"a\": [1, {\"b\": 2}]}[('a', 1)]a, b",
            ),
            (
                "{{ '%s-%d'|format('a', 3) }}{{ 'a\nb'|indent(2) }}{{ 'a b'.split()|first }}{{ ' a '|trim }}{{ 'a-b'.replace('-', '+') }}",
                "a-3a\n  baaa+b",
            ),
            (
                "{% for x in [[1], [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}",
                "(1)(2(3))",
            ),
            (
                "{% if false %}a{% elif 1 %}b{% else %}c{% endif %}{{ 'd' if 0 else 'e' }}{{ 0 or 'f' }}{{ 1 and 'g' }}{% raw %}{{ h * 2 }}{% endraw %}",
                "befg{{ h * 2 }}",
            ),
            (
                "{% filter upper %}a{{ 'b' }}{% endfilter %}{% with c = 1 %}{{ c }}{% endwith %}{% block d %}e{% endblock %}",
                "AB1e",
            ),
        ] {
            let written = template(source).unwrap().of_text("", "a", false);
            assert_eq!(
                written.map_err(|error| error.reason).as_deref(),
                Ok(text),
                "{source}"
            );
        }
    }

    #[test]
    fn a_template_that_leaves_a_text_out_or_never_ends_is_refused() {
        let lost =
            template("{% for m in messages if m.role == 'query' %}{{ m.content }}{% endfor %}");
        let error = lost.unwrap().check_roles().unwrap_err().to_string();
        assert!(error.contains("'document'"), "{error}");
        let endless = template(
            "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        );
        let error = endless.unwrap().check_roles().unwrap_err().to_string();
        let paths = error.matches("chat_template.jinja").count();
        assert_eq!(paths, 1, "{error}");
        let error = template("{{ raise_exception('no such role') }}")
            .unwrap()
            .check_roles();
        assert!(error.unwrap_err().to_string().contains("no such role"));
        assert!(template("{% if %}").is_err());
        let long = "x".repeat(1000);
        for (times, limit) in [
            (3000, "writes more than 262156 bytes"),
            (60_000, "limit of memory"),
        ] {
            let long = template(&format!(
                "{{% for a in range({times}) %}}{long}{{% endfor %}}{{{{ messages[0].content }}}}"
            ));
            let error = long.unwrap().of_text("", "a", false).unwrap_err();
            assert!(error.reason.contains(limit), "{}", error.reason);
        }
        let parts =
            template("{{ messages[0].content[0].text }}|{{ messages[1].content[0]['text'] }}");
        assert!(parts.unwrap().check_roles().is_ok());
    }
}
