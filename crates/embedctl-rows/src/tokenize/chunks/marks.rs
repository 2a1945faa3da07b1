//! The places at which a text is to be cut by its own structure.

use std::ops::RangeInclusive;

use pulldown_cmark::{Event, Options, Parser, Tag};
use unicode_segmentation::UnicodeSegmentation as _;

use super::ChunkBy;
use embedctl_common::error::Cause;
use embedctl_common::threads::foreign;

/// The dialect of Markdown that is read.
pub(super) const MARKDOWN: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_YAML_STYLE_METADATA_BLOCKS);

/// Levels of headings in Markdown.
const HEADINGS: usize = 6;

/// The starts of a text's parts, in bytes and in ascending order: a list for each kind of part, the coarsest first.
///
/// # Errors
/// If the parser of Markdown fails on the text.
pub(super) fn part_starts(text: &str, by: ChunkBy) -> Result<Vec<Vec<usize>>, Cause> {
    Ok(match by {
        ChunkBy::Tokens => Vec::new(),
        ChunkBy::Sentences => vec![sentences(text)],
        ChunkBy::Paragraphs => vec![paragraphs(text), sentences(text)],
        ChunkBy::Markdown => {
            let marks = foreign(|| markdown(text));
            marks.map_err(|reason| Cause::of(format!("it cannot be read as Markdown: {reason}")))?
        }
    })
}

/// Starts of sentences (Unicode's rules, UAX 29).
fn sentences(text: &str) -> Vec<usize> {
    let all = text.split_sentence_bound_indices();
    all.map(|(start, _)| start).collect()
}

/// Starts of lines behind blank ones.
fn paragraphs(text: &str) -> Vec<usize> {
    let (mut starts, mut at, mut after_blank) = (Vec::new(), 0, true);
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if after_blank && !is_blank {
            starts.push(at);
        }
        after_blank = is_blank;
        at += line.len();
    }
    starts
}

/// Starts of sections by the level of their heading, of blocks, of parts of blocks, and of sentences. A heading is never
/// separated from the beginning of its text.
fn markdown(text: &str) -> Vec<Vec<usize>> {
    let mut headings = vec![Vec::new(); HEADINGS];
    let (mut blocks, mut parts) = (Vec::new(), Vec::new());
    // From behind the start of a heading to the start of its text.
    let mut joined: Vec<RangeInclusive<usize>> = Vec::new();
    let (mut depth, mut open_heading) = (0_usize, None);
    for (event, range) in Parser::new_ext(text, MARKDOWN).into_offset_iter() {
        let (is_start, is_end) = (
            matches!(event, Event::Start(_)),
            matches!(event, Event::End(_)),
        );
        let is_block = depth == 0 && (is_start || event == Event::Rule);
        if let Event::Start(Tag::Heading { level, .. }) = &event
            && is_block
        {
            // Of headings that follow one another, the first begins the section.
            if open_heading.is_none() {
                open_heading = Some(range.start);
                headings[*level as usize - 1].push(range.start);
            }
        } else if is_block {
            match open_heading.take() {
                Some(heading) => joined.push(heading + 1..=range.start),
                None => blocks.push(range.start),
            }
        } else if let Event::Start(tag) = &event
            && is_part(tag)
        {
            parts.push(range.start);
        }
        depth = (depth + usize::from(is_start)).saturating_sub(usize::from(is_end));
    }
    let mut marks = headings;
    marks.extend([blocks, parts, sentences(text)]);
    for starts in &mut marks {
        starts.sort_unstable();
        starts.dedup();
        starts.retain(|start| {
            let behind = joined.partition_point(|range| range.end() < start);
            joined
                .get(behind)
                .is_none_or(|range| !range.contains(start))
        });
    }
    marks
}

/// Whether an element inside of a block is a part of its own: an item, a row, a block in a quotation.
fn is_part(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Item | Tag::TableRow | Tag::Paragraph | Tag::CodeBlock(_) | Tag::List(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the parts of each kind.
    fn words(text: &str, by: ChunkBy) -> Vec<Vec<&str>> {
        let marks = part_starts(text, by).unwrap();
        let word = |start: &usize| text[*start..].lines().next().unwrap_or_default();
        marks
            .iter()
            .map(|starts| starts.iter().map(word).collect())
            .collect()
    }

    #[test]
    fn paragraphs_begin_behind_blank_lines() {
        let text = "\n\none\ntwo\n \t\nthree\r\n\r\nfour";
        let found = words(text, ChunkBy::Paragraphs);
        assert_eq!(found[0], ["one", "three", "four"]);
    }

    #[test]
    fn sections_of_markdown_begin_at_headings_and_not_in_code() {
        let text = "---\ntitle: x\n---\n\nIntro.\n\n# A\n\nText of A. More.\n\nSecond.\n\n## B\n\n- one\n- two\n\n\
                    ```sh\n# no heading\n\nls\n```\n\nSetext\n======\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
        let found = words(text, ChunkBy::Markdown);
        assert_eq!(found[0], ["# A", "Setext"]);
        assert_eq!(found[1], ["## B"]);
        assert!(found[2..6].iter().all(Vec::is_empty), "{found:?}");
        assert_eq!(found[6], ["---", "Intro.", "Second.", "```sh"]);
        assert_eq!(found[7], ["- two", "| 1 | 2 |"]);
        // A heading stays with what follows it.
        for kind in &found {
            assert!(!kind.contains(&"Text of A. More."), "{found:?}");
        }
    }

    #[test]
    fn headings_in_a_row_are_one_place() {
        let found = words("# A\n\n## B\n\ntext\n\n# C\n", ChunkBy::Markdown);
        assert_eq!(
            (&found[0][..], &found[1][..]),
            (&["# A", "# C"][..], &[][..])
        );
        assert!(
            found.iter().all(|kind| !kind.contains(&"## B")),
            "{found:?}"
        );
    }
}
