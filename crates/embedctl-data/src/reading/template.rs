//! `--text-template`: a text put together from several fields of a record.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use embedctl_common::error::Cause;
use embedctl_common::setting::TEXT_TEMPLATE;

/// A text with places for fields: `{title}\n{body}`. `{{` and `}}` are braces, `\n`, `\t` and `\\` what they
/// are in most languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    written: String,
    parts: Vec<TemplatePart>,
    fields: Vec<String>,
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
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.written)
    }
}

impl Template {
    /// Names of the fields, each once.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The text of a record with these values of its fields, in their order. A field without one is left empty.
    ///
    /// # Errors
    /// If no field has a value: the reason.
    pub(crate) fn text<'a>(
        &self,
        values: impl IntoIterator<Item = Option<Cow<'a, str>>>,
    ) -> Result<String, Cause> {
        let values: Vec<_> = values.into_iter().collect();
        if values.iter().all(Option::is_none) {
            let names: Vec<_> = self.fields.iter().map(|name| format!("`{name}`")).collect();
            return Err(Cause::of(format!(
                "the record has nothing in {} for `{TEXT_TEMPLATE}`",
                names.join(", ")
            ))
            .with("fill one of them, or name others"));
        }
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Words(words) => text.push_str(words),
                TemplatePart::Field(index) => {
                    text.push_str(values[*index].as_deref().unwrap_or_default());
                }
            }
        }
        Ok(text)
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
