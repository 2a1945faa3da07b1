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
    /// How many quotations and list items it stands in.
    depth: usize,
    /// The byte at which the innermost of them ends, and with it the heading's section.
    end: usize,
}

impl Heading {
    /// Whether a section of this heading goes on behind the beginning of another one's.
    fn holds(&self, other: &Self) -> bool {
        self.depth < other.depth || self.level < other.level
    }
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
            above.retain(|higher| higher.end > heading.start && higher.holds(&heading));
            above.push(heading);
        }
        above.retain(|heading| heading.end > byte + begins);
        let words: Vec<&str> = above.iter().map(|one| one.words.as_str()).collect();
        paths.push(words.join(BETWEEN));
    }
    Ok(paths)
}

fn headings(text: &str) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    let mut is_open = false;
    // The ends of quotations and list items that are open.
    let mut around: Vec<usize> = Vec::new();
    for (event, range) in Parser::new_ext(text, MARKDOWN).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                is_open = true;
                found.push(Heading {
                    start: range.start,
                    level: level as usize,
                    words: String::new(),
                    depth: around.len(),
                    end: around.last().copied().unwrap_or(usize::MAX),
                });
            }
            Event::Start(Tag::BlockQuote(_) | Tag::Item) => around.push(range.end),
            Event::End(TagEnd::BlockQuote(_) | TagEnd::Item) => {
                around.pop();
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
    for heading in &mut found {
        // Where markup of HTML stood, there is nothing between two spaces.
        let words: Vec<&str> = heading.words.split_whitespace().collect();
        heading.words = words.join(" ");
    }
    found.retain(|heading| !heading.words.is_empty());
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

    /// The headings above each of these words.
    fn above(text: &str, words: &[&str]) -> Vec<String> {
        let place = |words: &&str| {
            let byte = text.find(*words).unwrap();
            text[..byte].chars().count() as u64
        };
        headings_above(text, words.iter().map(place)).unwrap()
    }

    #[test]
    fn a_heading_in_a_quotation_or_an_item_ends_with_it() {
        let text = "# Guide\n\n## Rates\n\n> # Quoted\n>\n> said\n>\n> > ## Deep\n> >\n> > more\n>\n> last\n\nBehind.\n\n\
                    - ## Item\n\n  one\n\n- two\n\nAfter.\n\n### Sub\n\nEnd.\n";
        let words = [
            "said", "more", "last", "Behind", "one", "two", "After", "End",
        ];
        assert_eq!(
            above(text, &words),
            [
                "Guide > Rates > Quoted",
                "Guide > Rates > Quoted > Deep",
                "Guide > Rates > Quoted",
                "Guide > Rates",
                "Guide > Rates > Item",
                "Guide > Rates",
                "Guide > Rates",
                "Guide > Rates > Sub",
            ]
        );
    }

    #[test]
    fn a_headings_words_have_no_space_around_them() {
        let text = "## Food & <drink>\n\none\n\n## a <b>  c</b>\n\ntwo\n";
        assert_eq!(above(text, &["one", "two"]), ["Food &", "a c"]);
    }
}
