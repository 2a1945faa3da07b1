//! CSV and TSV: records over several lines, wrong quoting, and types.

use proptest::prelude::*;

use super::*;
use arrow::array::{Array, AsArray, Int64Array};
use embedctl_common::error::ErrorKind;
use embedctl_records::position::Seek;

fn kept<'a>(window: &'a Window, name: &str) -> Vec<Option<&'a str>> {
    window.columns[name].as_string::<i32>().iter().collect()
}

#[test]
fn quoted_fields_hold_line_breaks_quotes_and_separators() {
    let content = "\u{feff}id,text,note\r\n1,\"two\r\nlines\",a\r\n\r\n2,\"a \"\"b\"\", c\",\"\"\r\n3,5\" wide,x";
    for (name, content) in [
        ("a.csv", content.to_owned()),
        ("a.tsv", content.replace(',', "\t")),
    ] {
        let window = Files::new().with(name, content).window(keeping(&["note"]));
        let texts: Vec<_> = window
            .texts
            .iter()
            .map(|text| text.replace('\t', ","))
            .collect();
        assert_eq!(texts, ["two\r\nlines", "a \"b\", c", "5\" wide"]);
        assert_eq!(kept(&window, "id"), [Some("1"), Some("2"), Some("3")]);
        assert_eq!(kept(&window, "note"), [Some("a"), Some(""), Some("x")]);
        let places: Vec<_> = window
            .origins()
            .map(|origin| (origin.line, origin.offset))
            .collect();
        assert_eq!(places, [(2, 17), (5, 37), (6, 56)]);
        assert!(window.rejects().next().is_none());
    }
}

/// Fields separated by another character.
fn parted(by: &str) -> InputOptions {
    InputOptions {
        csv: CsvOptions {
            delimiter: Some(by.parse().unwrap()),
            ..CsvOptions::default()
        },
        ..options()
    }
}

#[test]
fn fields_may_be_parted_by_something_else() {
    let content = "id,text\n1,\"a, b;|\tc\"\n2,two\n";
    for (name, by) in [
        ("a.csv", ";"),
        ("a.csv", "|"),
        ("a.tsv", "^"),
        ("a.csv", "\\t"),
        ("a.csv", "tab"),
    ] {
        let byte = if by.len() > 1 { "\t" } else { by };
        let content = content
            .replace("id,", &format!("id{byte}"))
            .replace("1,", &format!("1{byte}"));
        let content = content.replace("2,", &format!("2{byte}"));
        let window = Files::new().with(name, content).window(parted(by));
        let texts: Vec<_> = window.texts.iter().collect();
        assert_eq!(texts, ["a, b;|\tc", "two"], "{by}");
        assert_eq!(kept(&window, "id"), [Some("1"), Some("2")]);
    }
    for wrong in ["", ";;", "\"", "\n", "é"] {
        assert!(wrong.parse::<Delimiter>().is_err(), "{wrong:?}");
    }
    let error = Files::new().with("a.txt", "one").open(parted(";"));
    assert!(failure(error).contains("no input is read as that"));
}

#[test]
fn a_wrong_record_costs_itself_alone() {
    let content =
        "id,text\n1,\"a\"b\n2,ok\n3,\"never closed\n4,ok,more\n5\n6,\"ok\"\n\"7\",\"open\n8,fine\n";
    let window = Files::new().with("a.csv", content).window(options());
    assert_eq!(kept(&window, "id"), [Some("2"), Some("6"), Some("8")]);
    let rejects: Vec<_> = window
        .rejects()
        .map(|reject| (reject.origin.line, reject.cause.to_string()))
        .collect();
    for ((line, reason), (wanted, words)) in rejects.iter().zip([
        (2, "follows the closing quote of a field"),
        (4, "on line 7 text follows"),
        (5, "has 3 fields, but the header has 2"),
        (6, "has 1 fields"),
        (8, "is never closed"),
    ]) {
        assert!(
            *line == wanted && reason.contains(words),
            "{line}: {reason}"
        );
    }
    assert_eq!(rejects.len(), 5);
    assert_eq!(window.rejects().next().unwrap().raw, b"1,\"a\"b");

    // Above the limit of a record nothing is gathered.
    let content = format!("id,text\n1,\"{}\n2,ok\n", "x\n".repeat(1200));
    let windows = Files::new().with("a.csv", content).read(options());
    let reason = windows[0].rejects().next().unwrap().cause.to_string();
    assert!(reason.contains("--max-record-bytes"), "{reason}");
    assert_eq!(texts(&windows), ["ok"]);
    let bad = Files::new()
        .with("a.csv", b"id,text\n1,\xff\n")
        .window(options());
    assert!(
        bad.rejects()
            .next()
            .unwrap()
            .cause
            .to_string()
            .contains("not valid UTF-8")
    );
}

#[test]
fn fields_are_strings_unless_a_type_is_named() {
    let content = "text,n,f,b,j,zip\na,1, 2.5 ,TRUE,[1],007\nb,,,,,\nc,x,1,true,1,1\n";
    let keep = ["n:int", "f:float", "b:bool", "j:json", "zip"];
    let window = Files::new().with("a.csv", content).window(keeping(&keep));
    assert_eq!(
        window.columns["n"].as_ref(),
        &Int64Array::from(vec![Some(1), None]) as &dyn Array
    );
    for name in ["f", "b", "j"] {
        assert_eq!(window.columns[name].null_count(), 1, "{name}");
    }
    assert_eq!(kept(&window, "zip"), [Some("007"), Some("")]);
    assert_eq!(kept(&window, "id"), [None, None]);
    assert!(
        window
            .rejects()
            .next()
            .unwrap()
            .cause
            .to_string()
            .contains("is not of type int (x)")
    );
}

#[test]
fn headers_are_looked_at_before_any_record() {
    let field = |name: &str| InputOptions {
        text_field: name.to_owned(),
        ..options()
    };
    for (content, options, expected) in [
        (
            "id,text\n1,a\n",
            field("body"),
            "the columns are `id`, `text`; name one of them with `--text-field`",
        ),
        ("id,text\n", keeping(&["lang"]), "with `--keep`"),
        (
            "text,text\na,b\n",
            options(),
            "several columns called `text`",
        ),
        (
            "id;text\n1;a\n",
            options(),
            "expected fields separated by commas; say `--csv-delimiter ';'`",
        ),
        ("id\ttext\n1\ta\n", options(), "say `-i tsv`"),
        (
            "id,text\n1,a\n",
            parted(";"),
            "expected fields separated by `;`; say `--csv-delimiter ','`",
        ),
        ("\"a\"b,text\n", options(), "the header cannot be read"),
    ] {
        let files = Files::new().with("a.csv", content);
        let error = files.open(options).unwrap().next_window().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(expected), "{error}");
    }
    for empty in ["", "\n", "id,text\n", "id,text"] {
        assert!(Files::new().with("a.csv", empty).read(options()).is_empty());
    }
}

#[test]
fn reading_goes_on_at_any_position() {
    let content: String = (0..9)
        .map(|row| match row % 3 {
            0 => format!("{row},\"two\nlines {row}\"\n"),
            1 => format!("{row},one\r\n"),
            _ => format!("{row},\"open {row}\n"),
        })
        .collect();
    let files = Files::new().with("a.csv", format!("id,text\n{content}"));
    let one_by_one = || InputOptions {
        window_rows: 1,
        ..options()
    };
    let all = files.read(one_by_one());
    assert_eq!(all.len(), 9);
    for (done, window) in (1..).zip(&all) {
        assert!(matches!(window.position.seek, Seek::Byte { .. }) || done == 9);
        let rest = files.read_from(one_by_one(), window.position);
        assert_eq!(texts(&rest), texts(&all[done..]));
        let lines = |windows: &[Window]| -> Vec<_> {
            let rejects = windows.iter().flat_map(Window::rejects);
            let origins = windows.iter().flat_map(Window::origins);
            let origins = origins.chain(rejects.map(|reject| reject.origin));
            origins.map(|origin| origin.line).collect()
        };
        assert_eq!(lines(&rest), lines(&all[done..]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(embedctl_testing::mutation::cases(200)))]

    /// What the csv crate writes is read again, whatever the fields hold.
    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec(("[a-z\",\r\n\té ]{0,12}", "[a-z\",\n]{1,9}"), 1..20),
        window in 1usize..7,
        crlf in any::<bool>(),
    ) {
        let mut writer = ::csv::WriterBuilder::new();
        if crlf {
            writer.terminator(::csv::Terminator::CRLF);
        }
        let mut writer = writer.from_writer(Vec::new());
        writer.write_record(["text", "id"]).unwrap();
        for (text, id) in &rows {
            writer.write_record([text, id]).unwrap();
        }
        let files = Files::new().with("a.csv", writer.into_inner().unwrap());
        let windows = files.read(InputOptions { window_rows: window, ..options() });
        let expected: Vec<_> = rows.iter().map(|row| row.0.as_str()).collect();
        prop_assert_eq!(texts(&windows), expected);
        let ids: Vec<_> = windows.iter().flat_map(|window| kept(window, "id")).flatten().collect();
        let expected: Vec<_> = rows.iter().map(|row| row.1.as_str()).collect();
        prop_assert_eq!(ids, expected);
    }
}
