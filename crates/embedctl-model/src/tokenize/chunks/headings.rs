//! The headings of Markdown above the places of a text.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::marks::MARKDOWN;
use embedctl_common::error::Cause;
use embedctl_common::threads::foreign;

/// What stands between the headings of a place.
const BETWEEN: &str = " > ";

/// A heading of a text.
struct Heading {
    /// The byte at which it begins.
    start: usize,
    level: usize,
    words: String,
}

/// The headings above each of these places of `text`, from the highest level down (`Guide > Install`); empty where there is
/// none. A heading that begins at a place counts. Places are code points, in ascending order.
///
/// # Errors
/// If the parser of Markdown fails on the text.
pub fn headings_above(
    text: &str,
    places: impl IntoIterator<Item = u64>,
) -> Result<Vec<String>, Cause> {
    let found = foreign(|| headings(text));
    let found =
        found.map_err(|reason| Cause::of(format!("it cannot be read as Markdown: {reason}")))?;
    let mut found = found.into_iter().peekable();
    let mut above: Vec<Heading> = Vec::new();
    let mut bytes = text.char_indices().map(|(byte, _)| byte);
    let (mut byte, mut at) = (0, 0);
    let mut paths = Vec::new();
    for place in places {
        while at <= place {
            byte = bytes.next().unwrap_or(text.len());
            at += 1;
        }
        // White space before a heading belongs to the place before it.
        let begins = text[byte..].len() - text[byte..].trim_start().len();
        while let Some(heading) = found.next_if(|one| one.start <= byte + begins) {
            above.retain(|higher| higher.level < heading.level);
            above.push(heading);
        }
        let words: Vec<&str> = above.iter().map(|one| one.words.as_str()).collect();
        paths.push(words.join(BETWEEN));
    }
    Ok(paths)
}

fn headings(text: &str) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    let mut is_open = false;
    for (event, range) in Parser::new_ext(text, MARKDOWN).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                is_open = true;
                found.push(Heading {
                    start: range.start,
                    level: level as usize,
                    words: String::new(),
                });
            }
            Event::End(TagEnd::Heading(_)) => is_open = false,
            Event::Text(words) | Event::Code(words) if is_open => {
                if let Some(heading) = found.last_mut() {
                    heading.words.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak if is_open => {
                if let Some(heading) = found.last_mut() {
                    heading.words.push(' ');
                }
            }
            _ => {}
        }
    }
    found.retain(|heading| !heading.words.trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_headings_of_its_section() {
        let text = "Intro\n\n# Guide é\n\nText.\n\n## Install `x`\n\nMore.\n\n```\n# code\n```\n\n# Other\n\nEnd";
        let place = |words: &str| {
            let byte = text.find(words).unwrap();
            text[..byte].chars().count() as u64
        };
        let places = [
            "Intro",
            "# Guide",
            "Text.",
            "## Install",
            "# code",
            "# Other",
            "End",
        ];
        let found = headings_above(text, places.map(place)).unwrap();
        let expected = [
            "",
            "Guide é",
            "Guide é",
            "Guide é > Install x",
            "Guide é > Install x",
            "Other",
            "Other",
        ];
        assert_eq!(found, expected);
        // A blank line before a heading is no part of the section before it.
        let blank = place("# Other") - 1;
        assert_eq!(headings_above(text, [blank]).unwrap(), ["Other"]);
        assert_eq!(headings_above("", [0]).unwrap(), [""]);
    }
}
