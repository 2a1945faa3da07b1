//! Output at a terminal.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::sandbox::{REAL_MODEL, Sandbox, in_repository};
use crate::support::program;
use crate::support_terminal::{all_at_a_terminal_of, at_a_terminal, at_a_terminal_of, drawn};

#[test]
fn progress_is_drawn_and_taken_away() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a text\n".repeat(2000));
    let mut command = sandbox.embed_command("texts.txt -o out.npy --window 100");
    let (code, shown) = at_a_terminal(&mut command, b"");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("opening the model"), "{shown}");
    let (_, after) = shown
        .rsplit_once("\u{1b}[2K")
        .expect("the bar should be cleared");
    assert!(after.contains("embedded 2,000 rows"), "{shown}");
}

/// A single window of a slow model says how far it is all the same, and at the width of a telephone.
#[test]
fn progress_moves_with_batches_and_fits_the_terminal() {
    let sandbox = Sandbox::new();
    let texts: String = (0..64)
        .map(|line| format!("{line} {}\n", "word ".repeat(200)))
        .collect();
    sandbox.write("texts.txt", texts);
    let mut command = sandbox.embed_command("texts.txt -o out.npy --batch-size 1");
    command.arg("--model").arg(in_repository(REAL_MODEL));
    let (code, shown) = at_a_terminal_of(40, &mut command, b"");
    assert_eq!(code, Some(0), "{shown}");
    let lines = drawn(&shown);
    let shares: std::collections::BTreeSet<&str> = lines
        .iter()
        .filter(|line| line.contains(" left"))
        .filter_map(|line| line.split(" % ").next())
        .collect();
    assert!(shares.len() > 3, "{lines:?}");
    let longest = lines.iter().map(|line| line.chars().count()).max();
    assert!(longest <= Some(40), "{lines:?}");
}

#[test]
fn progress_can_be_forbidden() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a text\n");
    for option in ["--progress never", "--quiet", "--log-format json"] {
        let mut command = sandbox.embed_command("texts.txt -o out.npy --force");
        command.args(option.split(' '));
        let (code, shown) = at_a_terminal(&mut command, b"");
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains("opening the model"), "{option}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{option}: {shown}");
    }
}

#[test]
fn errors_are_coloured_unless_no_color_is_set() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("missing.txt -o out.npy --progress never");
    let (_, shown) = at_a_terminal(&mut command, b"");
    assert!(shown.contains("\u{1b}[31merror:"), "{shown}");
    let (_, shown) = at_a_terminal(command.env("NO_COLOR", "1"), b"");
    assert!(shown.starts_with("error:"), "{shown}");
}

#[test]
fn records_can_be_typed() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("-o out.npy --progress never");
    let (code, shown) = at_a_terminal(&mut command, b"one\ntwo\n\x04");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("until Ctrl-D"), "{shown}");
    assert!(shown.contains("embedded 2 rows"), "{shown}");
}

/// Rows go to a terminal without the characters that steer it, and into files as they are.
#[test]
fn rows_do_not_steer_a_terminal() {
    let sandbox = Sandbox::new();
    let id = "\u{9b}31m\u{202e}\u{7f}";
    sandbox.write(
        "in.jsonl",
        format!("{{\"id\": \"{id}\", \"text\": \"a\"}}\n"),
    );
    for output in ["/dev/stderr", "/dev/fd/2"] {
        let mut command = sandbox.embed_command(&format!("in.jsonl -o {output} -f jsonl -q"));
        let (code, shown) = at_a_terminal(&mut command, b"");
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("\\u009b31m\\u202e\\u007f"), "{shown}");
        assert!(
            !shown
                .chars()
                .any(|character| id.contains(character) && !character.is_ascii_alphanumeric()),
            "{shown}"
        );
        let row = shown.lines().find(|line| line.starts_with('{')).unwrap();
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["id"], id);
    }
    let piped = sandbox.embed("in.jsonl -o - -f jsonl");
    assert!(piped.stdout.contains(id), "{piped}");
}

/// Messages are broken between words, and no line is wider than the terminal.
#[test]
fn messages_are_broken_between_words() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command(
        "no-such-file-with-a-long-name.jsonl in-no-such-folder.jsonl -o out.npy --progress never",
    );
    let moves = regex::Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]").unwrap();
    for columns in [40, 60] {
        let (code, shown) = at_a_terminal_of(columns, &mut command, b"");
        assert_eq!(code, Some(2), "{shown}");
        let plain = moves.replace_all(&shown, "");
        let lines: Vec<&str> = plain.lines().map(str::trim_end).collect();
        assert!(lines.len() > 2, "{lines:?}");
        let fits = |line: &&str| line.chars().count() <= usize::from(columns);
        let is_word = |line: &&str| line.trim_start().split(' ').count() == 1;
        assert!(
            lines.iter().all(|line| fits(line) || is_word(line)),
            "{lines:?}"
        );
    }
}

/// The summary is broken between words, too.
#[test]
fn the_summary_fits_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "a cat\na rug\na cat\n");
    let moves = regex::Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]").unwrap();
    let mut command = sandbox.embed_command("in.txt -o out.npy --force --progress never");
    for columns in [50, 80] {
        let (code, shown) = at_a_terminal_of(columns, &mut command, b"");
        assert_eq!(code, Some(0), "{shown}");
        let plain = moves.replace_all(&shown, "");
        let whole = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            whole.contains("3 records read = 3 embedded + 0 rejected"),
            "{plain}"
        );
        for line in plain.lines().map(str::trim_end) {
            let is_word = line.trim_start().split(' ').count() == 1;
            assert!(
                line.chars().count() <= usize::from(columns) || is_word,
                "{columns}: {line}"
            );
        }
    }
}

/// A hit is a line.
#[test]
fn hits_fit_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "in.txt",
        "a cat sat on a mat and looked at a rat ".repeat(5) + "\na rug\n",
    );
    let mut command = sandbox.embed_command("in.txt -o out.parquet --keep text");
    sandbox.finish(&mut command);
    for columns in [40, 80] {
        let mut command = sandbox.command("search out.parquet -q a cat".split(' '));
        let (code, shown) = all_at_a_terminal_of(columns, &mut command);
        assert_eq!(code, Some(0), "{shown}");
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let longest = lines.iter().map(|line| line.chars().count()).max();
        assert_eq!(longest, Some(usize::from(columns)), "{lines:?}");
    }
}

/// The log of a CI job says how far a run is, once a minute. The clock goes 200 times as fast; records come until the
/// second line is there.
#[test]
fn without_a_terminal_progress_is_a_line_a_minute() {
    let name = "without_a_terminal_progress_is_a_line_a_minute";
    let Some(faketime) = program("faketime", name) else {
        return;
    };
    let sandbox = Sandbox::new();
    let embed = sandbox.embed_command("- -o out.npy");
    let mut command = Command::new(faketime);
    command.args(["-f", "+0 x200"]).arg(embed.get_program());
    command.args(embed.get_args());
    for (name, value) in embed.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(embed.get_current_dir().expect("a folder"));
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let is_progress = |line: &str| line.ends_with(" tokens/s") && !line.starts_with("embedded");
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut records = child.stdin.take().unwrap();
    let told = BufReader::new(child.stderr.take().unwrap());
    let (sender, seen) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines = told.lines().map(|line| line.unwrap());
        let tell = |line: &String| {
            if is_progress(line) {
                let _ = sender.send(());
            }
        };
        lines.inspect(tell).collect::<Vec<String>>()
    });
    let mut minutes = 0;
    while minutes < 2 {
        if seen.try_recv().is_ok() {
            minutes += 1;
        }
        // The program has ended, which its messages explain.
        if records.write_all(b"a text\n").is_err() {
            break;
        }
    }
    drop(records);
    let status = child.wait().unwrap();
    let lines = reader.join().unwrap();
    assert!(status.success(), "{lines:?}");
    let mut told = lines.iter().filter(|line| is_progress(line));
    let first = told.next().expect("a line of progress");
    assert!(first.contains(" rows, "), "{first}");
    assert!(first.contains(" rows/s"), "{first}");
    // As many lines as minutes have passed, or a few fewer where a batch lasted longer.
    let passed = began.elapsed().as_secs_f64() * 200.0 / 60.0;
    assert!(((1 + told.count()) as f64) < passed + 1.0, "{lines:?}");
}
