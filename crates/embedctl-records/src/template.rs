//! `--text-template`: a text put together from several fields of a record.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::record::RecordFields;
use embedctl_common::error::Cause;
use embedctl_common::pair::TextPair;
use embedctl_common::setting::{QUERY_FIELD, TEXT_FIELD, TEXT_TEMPLATE};

/// A text with places for fields: `{title}\n{body}`. `{{` and `}}` are braces, `\n`, `\t` and `\\` what they
/// are in most languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    written: String,
    parts: Vec<TemplatePart>,
    fields: Vec<String>,
    /// Whether the first field is a text of its own, the first of a pair, and the parts make the second.
    pair: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Words(String),
    /// Index into the fields.
    Field(usize),
}

impl FromStr for Template {
    type Err = Cause;

    fn from_str(written: &str) -> Result<Self, Cause> {
        let mut parts = Vec::new();
        let mut fields: Vec<String> = Vec::new();
        let mut words = String::new();
        let mut rest = written.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\\' => match rest.next() {
                    Some('n') => words.push('\n'),
                    Some('t') => words.push('\t'),
                    Some('\\') => words.push('\\'),
                    other => {
                        let other = other.map_or_else(String::new, String::from);
                        return Err(Cause::of(format!("`\\{other}` is not an escape"))
                            .with("`\\n`, `\\t` and `\\\\` do"));
                    }
                },
                '{' | '}' if rest.next_if_eq(&character).is_some() => words.push(character),
                '}' => {
                    return Err(Cause::of("a `}` closes nothing").with("write `}}` for a brace"));
                }
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(character) => name.push(character),
                            None => {
                                return Err(Cause::of(format!("`{{{name}` is not closed"))
                                    .with("write `{{` for a brace"));
                            }
                        }
                    }
                    if name.is_empty() {
                        return Err("`{}` names no field".into());
                    }
                    if !words.is_empty() {
                        parts.push(TemplatePart::Words(std::mem::take(&mut words)));
                    }
                    let known = fields.iter().position(|field| *field == name);
                    parts.push(TemplatePart::Field(known.unwrap_or(fields.len())));
                    if known.is_none() {
                        fields.push(name);
                    }
                }
                other => words.push(other),
            }
        }
        if fields.is_empty() {
            return Err(
                Cause::of("it names no field").with("write `{NAME}` where a field is to stand")
            );
        }
        if !words.is_empty() {
            parts.push(TemplatePart::Words(words));
        }
        Ok(Self {
            written: written.to_owned(),
            parts,
            fields,
            pair: false,
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first() {
            Some(first) => write!(formatter, "{first}, {}", self.written),
            None => formatter.write_str(&self.written),
        }
    }
}

impl Template {
    /// A pair of texts ([`TextPair`]): the first is the field `first`, the second the field `second`, or what `template`
    /// makes.
    #[must_use]
    pub fn of_pair(first: &str, second: &str, template: Option<&Self>) -> Self {
        let own = template.map_or_else(
            || Self {
                written: second.to_owned(),
                parts: vec![TemplatePart::Field(0)],
                fields: vec![second.to_owned()],
                pair: false,
            },
            Clone::clone,
        );
        let parts = own.parts.into_iter().map(|part| match part {
            TemplatePart::Field(index) => TemplatePart::Field(index + 1),
            words @ TemplatePart::Words(_) => words,
        });
        Self {
            written: own.written,
            parts: parts.collect(),
            fields: std::iter::once(first.to_owned())
                .chain(own.fields)
                .collect(),
            pair: true,
        }
    }

    /// The field of a pair's first text; `None` where no pair is made.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.fields
            .first()
            .filter(|_| self.pair)
            .map(String::as_str)
    }

    /// The field or the template of the text, that of a pair's second one.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether it makes a pair of texts.
    #[must_use]
    pub fn is_pair(&self) -> bool {
        self.pair
    }

    /// Adds the fields of a record whose text is `text`, as far as they are known by it: those of a pair; what a template
    /// has made is called `template_text`.
    pub(crate) fn add_fields(&self, text: &str, fields: &mut RecordFields) {
        match TextPair::of(text).filter(|_| self.pair) {
            Some(TextPair { first, second }) => {
                fields.add_text(&self.fields[0], first);
                let name = match self.parts.as_slice() {
                    [TemplatePart::Field(1)] => &self.fields[1],
                    _ => "template_text",
                };
                fields.add_text(name, second);
            }
            None => fields.add_text("template_text", text),
        }
    }

    /// Names of the fields, each once.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The text of a record with these values of its fields, in their order. A field without one is left empty.
    ///
    /// # Errors
    /// If no field has a value: the reason.
    pub fn text<'a>(
        &self,
        values: impl IntoIterator<Item = Option<Cow<'a, str>>>,
    ) -> Result<String, Cause> {
        let values: Vec<_> = values.into_iter().collect();
        if self.pair {
            return self.pair_of(&values);
        }
        if values.iter().all(Option::is_none) {
            let names: Vec<_> = self.fields.iter().map(|name| format!("`{name}`")).collect();
            return Err(Cause::of(format!(
                "the record has nothing in {} for `{TEXT_TEMPLATE}`",
                names.join(", ")
            ))
            .with("fill one of them, or name others"));
        }
        Ok(self.filled(&values))
    }

    /// The pair of a record with these values: none of a pair may be missing.
    fn pair_of(&self, values: &[Option<Cow<'_, str>>]) -> Result<String, Cause> {
        let missing = match (&values[0], values[1..].iter().all(Option::is_none)) {
            (None, _) => Some(&self.fields[0]),
            (Some(_), true) => Some(&self.fields[1]),
            (Some(_), false) => None,
        };
        if let Some(missing) = missing {
            return Err(Cause::of(format!(
                "the record has nothing in `{missing}`, a text of the pair"
            ))
            .with(format!(
                "fill it, or name other fields with `{QUERY_FIELD}` and `{TEXT_FIELD}`"
            )));
        }
        let second = self.filled(values);
        let first = values[0].as_deref().unwrap_or_default();
        Ok(TextPair {
            first,
            second: &second,
        }
        .joined())
    }

    /// The parts, with these values in place of fields.
    fn filled(&self, values: &[Option<Cow<'_, str>>]) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Words(words) => text.push_str(words),
                TemplatePart::Field(index) => {
                    text.push_str(values[*index].as_deref().unwrap_or_default());
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_take_their_places() {
        let template: Template = r"{a}\n\t\\{{{b.c}}} {a}".parse().unwrap();
        assert_eq!(template.fields(), ["a", "b.c"]);
        let text = template.text([Some("x".into()), None]);
        assert_eq!(text.unwrap(), "x\n\t\\{} x");
        let error = template.text([None, None]).unwrap_err();
        assert!(error.reason.contains("nothing in `a`, `b.c`"), "{error}");
    }

    #[test]
    fn a_pair_needs_both_of_its_texts() {
        let plain = Template::of_pair("q", "t", None);
        assert_eq!(plain.fields(), ["q", "t"]);
        let made = Template::of_pair("q", "", Some(&"{a}-{b}".parse().unwrap()));
        assert_eq!(made.fields(), ["q", "a", "b"]);
        let pair = |template: &Template, values: &[Option<&str>]| {
            template.text(values.iter().map(|value| value.map(Cow::Borrowed)))
        };
        let joined = |first, second| TextPair { first, second }.joined();
        assert_eq!(
            pair(&plain, &[Some("x"), Some("y")]).unwrap(),
            joined("x", "y")
        );
        assert_eq!(
            pair(&made, &[Some("x"), None, Some("z")]).unwrap(),
            joined("x", "-z")
        );
        for (template, values, missing) in [
            (&plain, &[None, Some("y")][..], "`q`"),
            (&plain, &[Some("x"), None], "`t`"),
            (&made, &[Some("x"), None, None], "`a`"),
        ] {
            let error = pair(template, values).unwrap_err();
            assert!(error.reason.contains(missing), "{error}");
        }
    }

    #[test]
    fn faults_say_what_to_write() {
        for (written, hint) in [
            ("title", "`{NAME}`"),
            ("{title", "`{{`"),
            ("title}", "`}}`"),
            ("{}", "names no field"),
            (r"{a}\x", r"`\x`"),
            ("{a}\\", r"`\\`"),
        ] {
            let error = written.parse::<Template>().unwrap_err().to_string();
            assert!(error.contains(hint), "{written}: {error}");
        }
    }
}
