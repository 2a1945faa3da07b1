//! The text of HTML, in the form of Markdown: headings stay headings, so that chunks can be cut at them.
//!
//! The page is read token by token, as browsers do, and no tree is built: the time grows with the length of the page and
//! nothing else, however its elements are nested.

use std::cell::RefCell;
use std::io::{self, Cursor, Read};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// Elements whose content is no text of the page.
const WITHOUT_TEXT: [&str; 8] = [
    "audio", "canvas", "noscript", "object", "svg", "template", "title", "video",
];

/// Elements whose content is no markup.
const RAW: [(&str, RawKind); 7] = [
    ("iframe", RawKind::Rawtext),
    ("noembed", RawKind::Rawtext),
    ("noframes", RawKind::Rawtext),
    ("script", RawKind::ScriptData),
    ("style", RawKind::Rawtext),
    ("textarea", RawKind::Rcdata),
    ("title", RawKind::Rcdata),
];

/// Elements that stand in lines of their own.
const BLOCKS: [&str; 34] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "hr",
    "html",
    "legend",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "section",
    "summary",
    "table",
    "tbody",
    "ul",
    "search",
];

/// Reads the text of a page. A page that is no UTF-8, holds a NUL byte or has more than `limit` bytes is read as it is,
/// so that it is refused as any other document would be.
pub(crate) struct PageText {
    page: Box<dyn Read + Send>,
    limit: usize,
    /// Once the page was read: its text.
    text: Option<Cursor<Vec<u8>>>,
}

impl PageText {
    pub(crate) fn new(page: Box<dyn Read + Send>, limit: usize) -> Self {
        let text = None;
        Self { page, limit, text }
    }
}

impl Read for PageText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.text.is_none() {
            let mut page = Vec::new();
            let most = self.limit as u64 + 1;
            self.page.by_ref().take(most).read_to_end(&mut page)?;
            let is_page = page.len() <= self.limit && !page.contains(&0);
            let text = std::str::from_utf8(&page).ok().filter(|_| is_page);
            self.text = Some(Cursor::new(match text {
                Some(page) => text_of(page).into_bytes(),
                None => page,
            }));
        }
        match self.text.as_mut().map_or(Ok(0), |text| text.read(buffer))? {
            // Behind a page that is too long there is more.
            0 => self.page.read(buffer),
            count => Ok(count),
        }
    }
}

/// The text of a page.
fn text_of(page: &str) -> String {
    let tokenizer = Tokenizer::new(TokenText::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(page));
    // A script's end asks whoever runs scripts to go on.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    tokenizer.sink.0.into_inner().finish()
}

/// Receives the page's tokens.
#[derive(Default)]
struct TokenText(RefCell<TextBuilder>);

impl TokenSink for TokenText {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut text = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(characters) => text.characters(&characters),
            Token::NullCharacterToken => text.characters("\u{fffd}"),
            Token::TagToken(tag) => return text.tag(&tag),
            Token::CommentToken(_)
            | Token::DoctypeToken(_)
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

/// The text so far.
#[derive(Default)]
struct TextBuilder {
    text: String,
    /// What stands between the text so far and the next word.
    gap: Gap,
    /// What begins the line of the next word, such as `## `.
    start: String,
    /// The element without text that is open, and how many of its name are open in it.
    skipped: Option<(String, usize)>,
    /// Whether white space stays as it is, in `<pre>`.
    is_verbatim: bool,
}

/// Space between words, the widest of what was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

impl TextBuilder {
    fn characters(&mut self, characters: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.is_verbatim {
            self.text.push_str(characters);
            return;
        }
        for part in characters.split_inclusive(|c: char| c.is_ascii_whitespace()) {
            let word = part.trim_end_matches(|c: char| c.is_ascii_whitespace());
            if !word.is_empty() {
                self.fill_gap();
                self.text.push_str(word);
            }
            if word.len() < part.len() {
                self.gap = self.gap.max(Gap::Space);
            }
        }
    }

    /// Writes what stands before a word.
    fn fill_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if !self.text.is_empty() {
            self.text.push_str(match gap {
                Gap::None => "",
                Gap::Space => " ",
                Gap::Line => "\n",
                Gap::Paragraph => "\n\n",
            });
        }
        self.text.push_str(&std::mem::take(&mut self.start));
    }

    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let is_start = tag.kind == TagKind::StartTag;
        let raw = RAW.iter().find(|(own, _)| *own == name && is_start);
        if !self.is_skipped(name, is_start, tag.self_closing) {
            match is_start {
                true => self.open(name),
                false => self.close(name),
            }
        }
        match raw {
            Some((_, kind)) => TokenSinkResult::RawData(*kind),
            None => TokenSinkResult::Continue,
        }
    }

    /// Whether this tag begins, ends or stands in an element without text.
    fn is_skipped(&mut self, name: &str, is_start: bool, is_empty: bool) -> bool {
        if let Some((skipped, depth)) = &mut self.skipped {
            if skipped == name && !is_empty {
                *depth = match is_start {
                    true => *depth + 1,
                    false => *depth - 1,
                };
            }
            if *depth == 0 {
                self.skipped = None;
            }
            return true;
        }
        let has_text = !WITHOUT_TEXT.contains(&name)
            && !RAW
                .iter()
                .any(|(own, _)| *own == name && name != "textarea");
        if is_start && !has_text && !is_empty {
            self.skipped = Some((name.to_owned(), 1));
        }
        !has_text
    }

    fn open(&mut self, name: &str) {
        match (name, heading(name)) {
            (_, Some(level)) => self.begin(Gap::Paragraph, &format!("{} ", "#".repeat(level))),
            ("br", _) => self.gap = self.gap.max(Gap::Line),
            ("li", _) => self.begin(Gap::Line, "- "),
            ("tr", _) => self.begin(Gap::Line, ""),
            ("td" | "th", _) => self.cell(),
            ("pre", _) => {
                self.begin(Gap::Paragraph, "```\n");
                self.fill_gap();
                self.is_verbatim = true;
            }
            _ if BLOCKS.contains(&name) => self.begin(Gap::Paragraph, ""),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "pre" if self.is_verbatim => {
                self.is_verbatim = false;
                let end = if self.text.ends_with('\n') {
                    "```"
                } else {
                    "\n```"
                };
                self.text.push_str(end);
                self.gap = Gap::Paragraph;
            }
            "li" | "tr" => self.gap = self.gap.max(Gap::Line),
            _ if heading(name).is_some() || BLOCKS.contains(&name) => {
                // A heading without words is none.
                if heading(name).is_some() {
                    self.start.clear();
                }
                self.begin(Gap::Paragraph, "");
            }
            _ => {}
        }
    }

    /// The next word begins a line; an item's paragraph stays on the item's line.
    fn begin(&mut self, gap: Gap, start: &str) {
        if !start.is_empty() || self.start.is_empty() {
            self.gap = self.gap.max(gap);
        }
        if !start.is_empty() {
            start.clone_into(&mut self.start);
        }
    }

    /// Separates a cell from the one before it in its row.
    fn cell(&mut self) {
        let begins_row = self.gap >= Gap::Line || self.text.is_empty();
        if !begins_row {
            self.text.push_str(" |");
            self.gap = Gap::Space;
        }
    }

    fn finish(mut self) -> String {
        if self.is_verbatim {
            self.close("pre");
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}

/// The level of a heading's element.
fn heading(name: &str) -> Option<usize> {
    let level = name.strip_prefix('h')?.parse().ok()?;
    (1..=6).contains(&level).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_paragraphs_lists_and_tables_become_lines() {
        let page = "<!DOCTYPE html><html><head><title>Not text</title><style>p { color: red }</style>\
                    <script>if (a < b) document.write('<p>no</p>')</script></head><body>\n\
                    <nav><a href=/>Home</a></nav>\n<h1>A &amp; B</h1>\n<p>One\n  <b>bold</b> word&mdash;and\
                    <br>a line.</p>\n<h2>List</h2><ul><li><p>first</p></li><li>second <i>item</i></ul>\
                    <table><tr><th>a<th>b</tr><tr><td>1<td>2</table><pre># no heading\n  x = 1</pre>\
                    <svg><text>gone</text></svg><p>End &lt;here&gt;.";
        assert_eq!(
            text_of(page),
            "Home\n\n# A & B\n\nOne bold word\u{2014}and\na line.\n\n## List\n\n- first\n\n- second item\n\n\
             a | b\n1 | 2\n\n```\n# no heading\n  x = 1\n```\n\nEnd <here>.\n"
        );
    }

    #[test]
    fn damaged_pages_are_read_to_their_end() {
        for (page, expected) in [
            ("", ""),
            ("plain", "plain\n"),
            ("<p>a<p>b</div></div>c", "a\n\nb\n\nc\n"),
            ("<script>never closed <p>x", ""),
            ("a<svg>b<svg>c</svg>d</svg>e", "ae\n"),
            ("a<svg/>b", "ab\n"),
            ("<pre>x", "```\nx\n```\n"),
            ("<textarea>typed <b></textarea>", "typed <b>\n"),
            ("a < b &unknown; &#x41;", "a < b &unknown; A\n"),
            ("<h1></h1><p>x", "x\n"),
        ] {
            assert_eq!(text_of(page), expected, "{page}");
        }
        // Any depth takes the same time for each element.
        let deep = "<div>".repeat(200_000) + "x";
        assert_eq!(text_of(&deep), "x\n");
    }
}
