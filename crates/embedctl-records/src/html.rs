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
pub struct PageText {
    page: Box<dyn Read + Send>,
    limit: usize,
    /// Once the page was read: its text.
    text: Option<Cursor<Vec<u8>>>,
}

impl PageText {
    /// The text of `page`, of which at most `limit` bytes are read.
    #[must_use]
    pub fn new(page: Box<dyn Read + Send>, limit: usize) -> Self {
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
    /// Whether words are those of a heading, which has one line.
    is_heading: bool,
    /// Quotations and lists that are open. A heading in one is not above the text behind it.
    inside: usize,
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
                let begins_line = self.begins_line() && self.start.is_empty();
                self.fill_gap();
                if begins_line && marks_heading(word) {
                    self.text.push('\\');
                }
                self.text.push_str(word);
            }
            if word.len() < part.len() {
                self.gap = self.gap.max(Gap::Space);
            }
        }
    }

    /// Whether the next word begins a line.
    fn begins_line(&self) -> bool {
        self.gap >= Gap::Line || self.text.is_empty()
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
            match (is_start, tag.self_closing) {
                (true, false) => self.open(name),
                (true, true) => self.empty(name),
                (false, _) => self.close(name),
            }
        }
        match raw {
            // As in XHTML, one that is closed in itself has no content.
            Some((_, kind)) if !tag.self_closing => TokenSinkResult::RawData(*kind),
            _ => TokenSinkResult::Continue,
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

    /// An element that is closed in itself.
    fn empty(&mut self, name: &str) {
        match name {
            "br" | "td" | "th" => self.open(name),
            _ if holds(name) => self.begin(Gap::Paragraph, ""),
            _ => self.close(name),
        }
    }

    fn open(&mut self, name: &str) {
        self.inside += usize::from(holds(name));
        self.is_heading &= !BLOCKS.contains(&name);
        match (name, heading(name)) {
            (_, Some(level)) => {
                self.is_heading = true;
                let mark = match self.inside {
                    0 => "#".repeat(level) + " ",
                    _ => String::new(),
                };
                self.begin(Gap::Paragraph, &mark);
            }
            ("br", _) if self.is_heading => self.gap = self.gap.max(Gap::Space),
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
        self.inside = self.inside.saturating_sub(usize::from(holds(name)));
        self.is_heading &= heading(name).is_none();
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
                if heading(name).is_some() && self.inside == 0 {
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
        if !self.begins_line() {
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

/// Whether an element is a quotation or a list.
fn holds(name: &str) -> bool {
    matches!(name, "blockquote" | "menu" | "ol" | "ul")
}

/// Whether a word that begins a line would make a heading of it, or of the line before it, in Markdown.
fn marks_heading(word: &str) -> bool {
    let is_all = |mark| word.bytes().all(|byte| byte == mark);
    (is_all(b'#') && word.len() <= 6) || (word.len() > 1 && (is_all(b'=') || is_all(b'-')))
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
    fn a_tag_that_is_closed_in_itself_has_no_content() {
        for name in [
            "script", "style", "title", "iframe", "textarea", "svg", "pre", "h2", "ul",
        ] {
            let page = format!("<p>a</p><{name} x=\"y\"/><p>b</p><h2>c</h2>");
            assert_eq!(text_of(&page), "a\n\nb\n\n## c\n", "{name}");
        }
        assert_eq!(
            text_of("a<br/>b<script src=x/></script><p/>c"),
            "a\nb\n\nc\n"
        );
    }

    #[test]
    fn what_is_no_heading_of_the_page_is_none_of_its_text() {
        for (page, expected) in [
            (
                "<blockquote><h2>q</h2>x</blockquote><h2>y</h2>",
                "q\n\nx\n\n## y\n",
            ),
            (
                "<ul><li><h3>a</h3><p>b<li>c</ul><h2>y",
                "- a\n\nb\n- c\n\n## y\n",
            ),
            (
                "<p># a<br>## b<p>#c<br>===<br>- d<br>---",
                "\\# a\n\\## b\n\n#c\n\\===\n- d\n\\---\n",
            ),
            (
                "<h3>Sub<br>head <b>x</b></h3><p>a<br>b",
                "### Sub head x\n\na\nb\n",
            ),
            ("<h3>Never closed<p>a<br>b", "### Never closed\n\na\nb\n"),
        ] {
            assert_eq!(text_of(page), expected, "{page}");
        }
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
            ("</ul></blockquote><h2>x", "## x\n"),
        ] {
            assert_eq!(text_of(page), expected, "{page}");
        }
        // Any depth takes the same time for each element.
        let deep = "<div>".repeat(200_000) + "x";
        assert_eq!(text_of(&deep), "x\n");
    }
}
