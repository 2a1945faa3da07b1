//! Documents: a folder of them, their HTML, their headings, and those that are no text.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

const GUIDE: &str = "# Guide\n\nCats sit on mats and look out of the window all day long.\n\n\
                     ## Rates\n\nInterest rates rose again in the last quarter of the year.\n";

fn rows(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, Some(0), "{run}");
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn column<'a>(rows: &'a [Value], name: &str) -> Vec<&'a str> {
    rows.iter()
        .map(|row| row[name].as_str().unwrap_or("null"))
        .collect()
}

#[test]
fn a_folder_of_documents_is_read_by_itself() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("docs")).unwrap();
    sandbox.write("docs/guide.md", GUIDE);
    sandbox.write("docs/notes.txt", "one\ntwo\n");
    sandbox.write(
        "docs/page.html",
        "<html><head><title>No</title><script>no()</script></head><body><h1>Page</h1><p>A &amp; b</body></html>",
    );
    sandbox.write("docs/logo.png", "\u{1}");
    let run = sandbox.embed("docs --keep text -o -");
    let all = rows(&run);
    assert_eq!(
        column(&all, "id"),
        ["docs/guide.md", "docs/notes.txt", "docs/page.html"]
    );
    assert_eq!(
        column(&all, "text"),
        [GUIDE, "one\ntwo\n", "# Page\n\nA & b\n"]
    );
    assert!(run.stderr.contains("each input is one text"), "{run}");
    assert!(
        run.stderr
            .contains("1 file in docs skipped: no input format has this ending: .png"),
        "{run}"
    );
    // The same by names, and by a pattern.
    let named =
        rows(&sandbox.embed("docs/guide.md docs/notes.txt docs/page.html --keep text -o -"));
    assert_eq!(named, all);
    assert_eq!(
        rows(&sandbox.embed("docs/*.{md,txt,html} --keep text -o -")),
        all
    );
    // Lines, if they are asked for.
    let lines = rows(&sandbox.embed("docs/guide.md -i text -o -"));
    assert_eq!(lines.len(), GUIDE.lines().count());
    // A folder of text alone is lines, and one with records is records.
    fs::create_dir(sandbox.path("lines")).unwrap();
    sandbox.write("lines/a.txt", "one\ntwo\n");
    assert_eq!(rows(&sandbox.embed("lines -o -")).len(), 2);
    sandbox.write("docs/data.jsonl", "{\"id\": \"x\", \"text\": \"a\"}\n");
    let run = sandbox.embed("docs -o -");
    assert!(run.stderr.contains("`-i file` embeds documents"), "{run}");
}

#[test]
fn the_headings_above_a_chunk_are_a_column() {
    let sandbox = Sandbox::new();
    sandbox.write("guide.md", GUIDE);
    sandbox.write(
        "page.html",
        "<p>Nothing above.</p><h2>Only</h2><p>Below it.</p>",
    );
    let options =
        "guide.md page.html --chunk markdown --chunk-tokens 16 --chunk-text --keep heading";
    let all = rows(&sandbox.embed(&format!("{options} -o -")));
    let headings = column(&all, "heading");
    let is_of = |words: &str| {
        column(&all, "chunk_text")
            .iter()
            .position(|text| text.contains(words))
            .unwrap()
    };
    assert_eq!(headings[is_of("Cats")], "Guide");
    assert_eq!(headings[is_of("Interest")], "Guide > Rates");
    assert_eq!(headings[is_of("quarter")], "Guide > Rates");
    assert_eq!(headings[is_of("Nothing above")], "null");
    // A part of a job that goes on has the same column; a job without it is another.
    let job = format!("{options} -f jsonl --part-rows 2 -o job/");
    assert_eq!(sandbox.embed(&job).code, Some(0));
    let parts = sandbox.run("inspect job");
    assert_eq!(parts.code, Some(0), "{parts}");
    let other = job.replace(" --keep heading", " --resume");
    let run = sandbox.embed(&other);
    assert_eq!(run.code, Some(2), "{run}");
    // Without chunks there is nothing to say.
    let run = sandbox.embed("guide.md --keep heading -o x.parquet");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("add `--chunk markdown`"), "{run}");
    // A record's own field is kept as ever.
    sandbox.write(
        "in.jsonl",
        "{\"id\": \"a\", \"text\": \"t\", \"heading\": \"own\"}\n",
    );
    let own = rows(&sandbox.embed("in.jsonl --chunk markdown --keep heading -o -"));
    assert_eq!(column(&own, "heading"), ["own"]);
}

/// A heading inside of something says nothing of what follows outside of it.
#[test]
fn a_chunk_has_the_headings_of_its_own_section() {
    let sandbox = Sandbox::new();
    let words = |what: &str| format!("{what} {}.", "cats sit on mats ".repeat(4).trim_end());
    let text = format!(
        "# Guide\n\n## Food & <drink>\n\n{}\n\n> # Quoted\n>\n> {}\n\n{}\n",
        words("First"),
        words("Said"),
        words("Second")
    );
    sandbox.write("guide.md", text);
    let page = format!(
        "<h1>Page</h1><blockquote><h2>Quoted</h2><p>{}</p></blockquote><ul><li><h2>Card</h2></li></ul><p>{}</p>\
         <p># not heading</p><p>{}</p><h3>Sub<br>head</h3><p>{}</p>",
        words("Said"),
        words("First"),
        words("Second"),
        words("Third")
    );
    sandbox.write("page.html", page);
    for (name, expected) in [
        (
            "guide.md",
            &[
                ("First", "Guide > Food &"),
                ("Said", "Guide > Food & > Quoted"),
                ("Second", "Guide > Food &"),
            ][..],
        ),
        (
            "page.html",
            &[
                ("First", "Page"),
                ("Second", "Page"),
                ("Third", "Page > Sub head"),
            ],
        ),
    ] {
        let run = sandbox.embed(&format!(
            "{name} --chunk markdown --chunk-tokens 12 --chunk-text --keep heading -o -"
        ));
        let all = rows(&run);
        for (word, heading) in expected {
            let of = |row: &&Value| row["chunk_text"].as_str().unwrap().contains(word);
            let row = all.iter().find(of).unwrap();
            assert_eq!(row["heading"], *heading, "{name} {word}: {run}");
        }
    }
    // Of lines of text there is none.
    sandbox.write("q.txt", "one\n");
    let run = sandbox.embed("q.txt --chunk tokens --keep heading -o x.parquet");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("`--input-format file`") || run.stderr.contains("`-i file`"),
        "{run}"
    );
}

/// In XHTML a tag that is closed in itself has no content.
#[test]
fn what_follows_an_empty_element_is_text() {
    let sandbox = Sandbox::new();
    for empty in ["<script src=\"a.js\"/>", "<style/>", "<title/>"] {
        let page = format!(
            "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head>{empty}</head><body><p>Cats &amp; mats</p></body></html>"
        );
        sandbox.write("page.xhtml", page);
        let all = rows(&sandbox.embed("page.xhtml --keep text -o -"));
        assert_eq!(column(&all, "text"), ["Cats & mats\n"], "{empty}");
    }
}

/// Text that is cut at headings is a document, not a list of lines.
#[test]
fn text_in_chunks_of_markdown_is_one_document() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "# A\n\none\n\n# B\n\ntwo\n");
    let all = rows(&sandbox.embed("a.txt --chunk markdown --keep text -o -"));
    assert_eq!(column(&all, "id"), ["a.txt"]);
    assert_eq!(
        rows(&sandbox.embed("a.txt -i text --chunk markdown -o -")).len(),
        7
    );
}

/// What has no name is known by its content, or by what is done with it.
#[test]
fn a_document_on_standard_input_is_one() {
    let sandbox = Sandbox::new();
    let markdown = sandbox.run_with_input(
        &mut sandbox.embed_command("- --chunk markdown --keep text -o -"),
        GUIDE.as_bytes(),
    );
    let all = rows(&markdown);
    assert_eq!(all.len(), 1, "{markdown}");
    assert_eq!(column(&all, "text")[0].trim_end(), GUIDE.trim_end());
    let page =
        "<!DOCTYPE html>\n<html><body><h1>Guide</h1><p>Cats sit on mats.</p></body></html>\n";
    let html = sandbox.run_with_input(
        &mut sandbox.embed_command("- -i file --keep text -o -"),
        page.as_bytes(),
    );
    let text = column(&rows(&html), "text")[0].to_owned();
    assert!(
        text.contains("Cats sit on mats.") && !text.contains('<'),
        "{text}"
    );
    // Lines of text stay lines.
    let lines = sandbox.run_with_input(&mut sandbox.embed_command("- -o -"), page.as_bytes());
    assert_eq!(rows(&lines).len(), 2, "{lines}");
}

#[test]
fn documents_that_are_no_text_are_all_named() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("docs")).unwrap();
    for name in ["a.md", "b.pdf", "c.docx", "d.pdf", "d.txt"] {
        sandbox.write(&format!("docs/{name}"), "text\n");
    }
    for inputs in ["docs", "docs -i file", "docs/*"] {
        let run = sandbox.embed(&format!("{inputs} -o x.parquet"));
        assert_eq!(run.code, Some(2), "{run}");
        for words in [
            "2 documents",
            "docs/b.pdf (a PDF)",
            "docs/c.docx",
            "pdftotext",
            "pandoc",
        ] {
            assert!(run.stderr.contains(words), "{words}: {run}");
        }
        assert!(!run.stderr.contains("d.pdf"), "{run}");
    }
    let run = sandbox.embed("docs/*.md -o x.parquet");
    assert_eq!(run.code, Some(0), "{run}");
}

/// A folder of binary documents is one of documents, unless there are records in it.
#[test]
fn binary_documents_are_named_beside_text_and_alone() {
    let sandbox = Sandbox::new();
    for folder in ["mixed", "alone", "pairs", "records"] {
        fs::create_dir(sandbox.path(folder)).unwrap();
        sandbox.write(&format!("{folder}/a.pdf"), "%PDF");
    }
    sandbox.write("mixed/b.txt", "one\ntwo\n");
    sandbox.write("alone/c.docx", "PK");
    sandbox.write("pairs/a.txt", "one\ntwo\n");
    sandbox.write("records/b.jsonl", "{\"id\": \"x\", \"text\": \"a\"}\n");
    for (folder, words) in [
        (
            "mixed",
            &["mixed/a.pdf (a PDF) is not text", "pdftotext"][..],
        ),
        (
            "alone",
            &["alone/a.pdf (a PDF)", "alone/c.docx", "pdftotext", "pandoc"],
        ),
        ("pairs", &["documents or lists of lines", "file`", "text`"]),
    ] {
        for command in ["embed", "tokens"] {
            let output = if command == "embed" {
                "-o x.parquet"
            } else {
                ""
            };
            let run = sandbox.run(&format!("{command} {folder} {output}"));
            assert_eq!(run.code, Some(2), "{run}");
            for words in words {
                assert!(run.stderr.contains(words), "{words}: {run}");
            }
        }
    }
    assert_eq!(rows(&sandbox.embed("pairs -i file -o -")).len(), 1);
    assert_eq!(rows(&sandbox.embed("pairs -i text -o -")).len(), 2);
    let run = sandbox.embed("records -o -");
    assert_eq!(rows(&run).len(), 1);
    assert!(run.stderr.contains("1 file in records skipped"), "{run}");
}

/// A page that is no UTF-8, holds a NUL byte or is too long is refused as any document.
#[test]
fn pages_that_are_no_text_are_bad_records() {
    let sandbox = Sandbox::new();
    sandbox.write("good.html", "<p>good");
    sandbox.write("latin.html", b"<p>caf\xe9");
    sandbox.write("nul.html", "<p>a\0b");
    sandbox.write("long.html", format!("<p>{}", "a ".repeat(1000)));
    let run = sandbox.embed(
        "good.html latin.html nul.html long.html --max-record-bytes 1000 --on-error skip --keep text \
         --rejects bad.jsonl -o out.jsonl",
    );
    assert_eq!(run.code, Some(3), "{run}");
    let rejects = fs::read_to_string(sandbox.path("bad.jsonl")).unwrap();
    for words in ["UTF-8", "NUL byte", "2003 bytes"] {
        assert!(rejects.contains(words), "{words}: {rejects}");
    }
    let out = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    assert_eq!(out.lines().count(), 1);
    assert!(out.contains("\"text\":\"good\\n\""), "{out}");
}

#[test]
fn strings_of_json_are_texts() {
    let sandbox = Sandbox::new();
    sandbox.write("array.json", "[\"a \\\"b\\\"\", \"\\u00e9\",\n \"c\"]");
    sandbox.write(
        "lines.jsonl",
        "\"a \\\"b\\\"\"\n\"\\u00e9\"\n{\"id\": \"x\", \"text\": \"c\"}\n",
    );
    for (name, id) in [("array.json", "null"), ("lines.jsonl", "x")] {
        for keep in ["text", "*"] {
            let run = sandbox.embed(&format!("{name} --keep {keep} -o -"));
            let all = rows(&run);
            assert_eq!(column(&all, "text"), ["a \"b\"", "\u{e9}", "c"], "{run}");
            assert_eq!(column(&all, "id"), ["null", "null", id], "{run}");
        }
    }
    let run = sandbox.embed("array.json --text-template {title}:{text} -o none.parquet");
    assert!(
        run.stderr
            .contains("the line is a string, but `--text-template` needs fields"),
        "{run}"
    );
    let run = sandbox.embed("array.json --keep title -o none.parquet");
    assert!(run.stderr.contains("no field is called `title`"), "{run}");
    // What is rejected can be read again.
    sandbox.write("bad.jsonl", "\"good\"\n12\n\"\\ud800\"\n");
    let run = sandbox.embed("bad.jsonl --on-error skip --rejects rejects.jsonl -o out.jsonl");
    assert_eq!(run.code, Some(3), "{run}");
    assert_eq!(
        fs::read_to_string(sandbox.path("rejects.jsonl"))
            .unwrap()
            .lines()
            .count(),
        2
    );
}

/// A document in UTF-16 is a bad record, and the others are embedded.
#[test]
fn a_document_in_another_encoding_is_left_out() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("docs")).unwrap();
    sandbox.write("docs/guide.md", GUIDE);
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    sandbox.write(
        "docs/marked.md",
        [&[0xff, 0xfe][..], &wide("a cat")].concat(),
    );
    sandbox.write("docs/page.html", wide("<html><body>a cat</body></html>"));
    let run = sandbox.embed("docs -o out.jsonl");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("docs/marked.md") && run.stderr.contains("is UTF-16"),
        "{run}"
    );
    let run = sandbox.embed("docs -o out.jsonl --on-error skip --rejects bad.jsonl");
    assert_eq!(run.code, Some(3), "{run}");
    assert_eq!(
        fs::read_to_string(sandbox.path("out.jsonl"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    let bad = fs::read_to_string(sandbox.path("bad.jsonl")).unwrap();
    assert_eq!(bad.matches("is UTF-16;").count(), 2, "{bad}");
}
