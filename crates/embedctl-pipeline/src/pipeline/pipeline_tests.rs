//! The pipeline around engines that misbehave: what panics, fails, returns NaN or finishes out of order.

use proptest::prelude::*;

use super::fake_tests::{Behaviour, WIDTH, run};
use super::*;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::tokenize::chunks::{ChunkBy, Chunking};

fn lines(count: usize) -> String {
    (0..count)
        .map(|line| "word ".repeat(1 + (line * 7) % 23) + "\n")
        .collect()
}

#[test]
fn rows_come_out_in_order_whatever_the_order_of_batches() {
    let slow_when_even: Behaviour = |_, number| {
        if number % 2 == 0 {
            (0..20_000).for_each(|_| std::thread::yield_now());
        }
        Ok(0.0)
    };
    let (summary, kept) = run(
        &lines(100),
        slow_when_even,
        OnError::Fail,
        &CancelToken::new(),
    );
    let summary = summary.unwrap();
    assert_eq!(
        (
            summary.counts.read,
            summary.counts.embedded,
            summary.counts.rejected
        ),
        (100, 100, 0)
    );
    let written = kept.0.lock().unwrap();
    assert!(written.finished);
    let expected: Vec<String> = (1..=100).map(|line| line.to_string()).collect();
    assert_eq!(written.ids, expected);
    // Rows of equal text have equal vectors, others don't: the vectors went with their rows.
    let vector = |row: usize| &written.vectors[row * WIDTH..(row + 1) * WIDTH];
    for row in 0..77 {
        assert_eq!(vector(row), vector(row + 23));
        assert_ne!(vector(row), vector(row + 1));
    }
    assert!(
        written
            .refs
            .iter()
            .enumerate()
            .all(|(row, one)| one.record == row as u64 && one.part == 0)
    );
}

#[test]
fn a_panic_in_a_worker_is_an_error_and_nothing_is_published() {
    let panics: Behaviour = |_, number| if number == 9 { panic!("boom") } else { Ok(0.0) };
    let (result, kept) = run(&lines(200), panics, OnError::Skip, &CancelToken::new());
    let message = result.unwrap_err().to_string();
    assert!(message.contains("boom"), "{message}");
    assert!(!kept.0.lock().unwrap().finished);
}

#[test]
fn an_engines_error_ends_the_run() {
    let fails: Behaviour = |_, number| {
        if number < 5 {
            return Ok(0.0);
        }
        Err(Error::engine("fake", "out of memory"))
    };
    let (result, kept) = run(&lines(200), fails, OnError::Skip, &CancelToken::new());
    assert!(result.unwrap_err().to_string().contains("out of memory"));
    assert!(!kept.0.lock().unwrap().finished);
}

#[test]
fn a_row_without_a_finite_vector_is_tried_alone_and_then_rejected() {
    // A batch goes wrong when it has several rows, or an empty text.
    let breaks: Behaviour = |batch, _| {
        Ok(if batch.rows() > 1 || batch.longest() == 2 {
            f32::NAN
        } else {
            0.0
        })
    };
    let text = "one two\n\none two\nthree four five\n\n";
    let (summary, kept) = run(text, breaks, OnError::Skip, &CancelToken::new());
    let summary = summary.unwrap();
    let written = kept.0.lock().unwrap();
    assert!(written.vectors.iter().all(|value| value.is_finite()));
    assert_eq!(summary.counts.embedded + summary.counts.rejected, 5);
    assert_eq!(written.ids.len() as u64, summary.counts.embedded);
    assert_eq!(summary.counts.rejected, 2);
    assert!(summary.rejects[0].contains("NaN"), "{:?}", summary.rejects);
    // The rows that are left keep their numbers and their place.
    let lines: Vec<u64> = written
        .ids
        .iter()
        .map(|id| id.parse::<u64>().unwrap() - 1)
        .collect();
    assert_eq!(written.records(), lines);

    let (result, kept) = run(text, breaks, OnError::Fail, &CancelToken::new());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Record);
    assert!(!kept.0.lock().unwrap().finished);
}

/// Of chunks, too, of which one alone has gone wrong.
#[cfg(unix)]
#[test]
fn what_the_engine_refuses_is_listed_whole() {
    use std::io::Read;

    use super::fake_tests::{Kept, run_with};
    use super::sink::WholeSink;
    use crate::rejects::RejectsWriter;
    let breaks: Behaviour = |batch, _| {
        Ok(if batch.rows() > 1 || batch.longest() > 5 {
            f32::NAN
        } else {
            0.0
        })
    };
    let text = "one two\nthree four five six seven eight nine. ten\n";
    for chunk in [false, true] {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        let list = RejectsWriter::create(path.as_ref(), false, &RunFiles::new()).unwrap();
        let chunking = Chunking {
            by: ChunkBy::Sentences,
            tokens: Some(9),
            overlap: 0,
            text: false,
            id: false,
            heading: false,
        };
        let (summary, _) = run_with(text, breaks, OnError::Skip, &CancelToken::new(), |run| {
            let writer = Box::new(Kept::default());
            run.sink = Box::new(WholeSink {
                writer,
                rejects: Some(list),
            });
            let chunked = run.model.tokenizer().chunked(&chunking).unwrap();
            run.chunked = chunk.then_some(chunked);
        });
        assert_eq!(summary.unwrap().counts.rejected, 1);
        drop(pipe);
        let mut listed = String::new();
        reader.read_to_string(&mut listed).unwrap();
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let whole = text.lines().last().unwrap();
        assert_eq!(
            [&listed["id"], &listed["text"], &listed["raw"]],
            ["2", whole, whole]
        );
    }
}

#[test]
fn a_row_that_does_not_fit_into_memory_alone_is_rejected() {
    // The longest text of five, whose padding makes its batch mates as long; halved until it is alone.
    let too_small: Behaviour = |batch, _| {
        if batch.longest() > 20 {
            return Err(Error::new(ErrorKind::OutOfMemory, "fake", "no room"));
        }
        Ok(0.0)
    };
    let text = format!("one\ntwo three\n{}\nfour\nfive six\n", "long ".repeat(20));
    let (summary, kept) = run(&text, too_small, OnError::Skip, &CancelToken::new());
    let summary = summary.unwrap();
    assert_eq!((summary.counts.embedded, summary.counts.rejected), (4, 1));
    let reason = &summary.rejects[0];
    assert!(
        reason.contains(":3: ") && reason.contains("--max-length"),
        "{reason}"
    );
    assert_eq!(kept.0.lock().unwrap().ids, ["1", "2", "4", "5"]);

    let (result, kept) = run(&text, too_small, OnError::Fail, &CancelToken::new());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Record);
    assert!(!kept.0.lock().unwrap().finished);
}

#[test]
fn rejected_records_are_numbered_with_the_others() {
    let text = format!(
        "a\n{}\nb\n{}\n{}\nc\n",
        "x".repeat(300),
        "y".repeat(300),
        "z".repeat(300)
    );
    let (summary, kept) = run(&text, |_, _| Ok(0.0), OnError::Skip, &CancelToken::new());
    let summary = summary.unwrap();
    assert_eq!(
        (
            summary.counts.read,
            summary.counts.embedded,
            summary.counts.rejected
        ),
        (6, 3, 3)
    );
    assert_eq!(kept.0.lock().unwrap().records(), [0, 2, 5]);
}

#[test]
fn a_cancelled_run_ends_as_interrupted() {
    let cancel = CancelToken::new();
    cancel.cancel();
    let (result, kept) = run(&lines(50), |_, _| Ok(0.0), OnError::Fail, &cancel);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(!kept.0.lock().unwrap().finished);
}

#[test]
fn an_empty_input_is_a_run_of_no_rows() {
    let (summary, kept) = run("", |_, _| Ok(0.0), OnError::Fail, &CancelToken::new());
    assert_eq!(summary.unwrap().counts.read, 0);
    assert!(kept.0.lock().unwrap().finished);
}

#[test]
fn equal_texts_of_a_window_run_once() {
    // Windows of seven: the second has nothing but copies, the third none.
    let text = format!(
        "{}{}a\nb\nc\n",
        "one two\nthree\none two\none two\nfour\nthree\n\n",
        "same\n".repeat(7)
    );
    let (summary, kept) = run(&text, |_, _| Ok(0.0), OnError::Fail, &CancelToken::new());
    let summary = summary.unwrap();
    let written = kept.0.lock().unwrap();
    assert_eq!((summary.counts.read, summary.counts.embedded), (17, 17));
    assert_eq!(summary.stages.duplicates, 3 + 6);
    let ids: Vec<String> = (1..=17).map(|line| line.to_string()).collect();
    assert_eq!(written.ids, ids);
    let vector = |row: usize| &written.vectors[row * WIDTH..(row + 1) * WIDTH];
    for (row, first) in [(2, 0), (3, 0), (5, 1), (13, 7)] {
        assert_eq!(vector(row), vector(first), "row {row}");
    }
    assert_ne!(vector(0), vector(1));
    assert_ne!(vector(1), vector(4));
    // A copy counts like its first, though its tokens don't run.
    assert!(summary.counts.tokens > summary.stages.real_tokens);
    let (alone, _) = run("same\n", |_, _| Ok(0.0), OnError::Fail, &CancelToken::new());
    let (seven, _) = run(
        &"same\n".repeat(7),
        |_, _| Ok(0.0),
        OnError::Fail,
        &CancelToken::new(),
    );
    let (alone, seven) = (alone.unwrap(), seven.unwrap());
    assert_eq!(seven.counts.tokens, 7 * alone.counts.tokens);
    assert_eq!(seven.stages.real_tokens, alone.stages.real_tokens);
}

#[test]
fn copies_of_a_truncated_text_count_as_truncated() {
    let long = "a ".repeat(99);
    let text = format!("{long}\nshort\n{long}\n{long}\n");
    let (summary, _) = run(&text, |_, _| Ok(0.0), OnError::Fail, &CancelToken::new());
    let counts = summary.unwrap().counts;
    let (alone, _) = run(
        &format!("{long}\n"),
        |_, _| Ok(0.0),
        OnError::Fail,
        &CancelToken::new(),
    );
    let alone = alone.unwrap().counts;
    assert_eq!(counts.truncated, 3 * alone.truncated);
    assert_eq!(alone.truncated, 1, "the model's limit is below 99 tokens");
}

#[test]
fn copies_of_a_text_without_a_finite_vector_are_rejected_with_it() {
    // An empty text never gets a vector, the others get one when they run alone.
    let breaks: Behaviour = |batch, _| {
        let broken = batch.rows() > 1 || batch.longest() == 2;
        Ok(if broken { f32::NAN } else { 0.0 })
    };
    let text = "one two\n\none two\n\n\nthree four five\n";
    let (summary, kept) = run(text, breaks, OnError::Skip, &CancelToken::new());
    let summary = summary.unwrap();
    assert_eq!(
        (
            summary.counts.read,
            summary.counts.embedded,
            summary.counts.rejected
        ),
        (6, 3, 3)
    );
    assert_eq!(summary.rejects.len(), 3);
    for (reject, line) in summary.rejects.iter().zip([2, 4, 5]) {
        assert!(
            reject.contains(&format!(":{line}: ")) && reject.contains("NaN"),
            "{reject}"
        );
    }
    let written = kept.0.lock().unwrap();
    assert_eq!(written.ids, ["1", "3", "6"]);
    assert_eq!(written.records(), [0, 2, 5]);
    assert_eq!(written.vectors[..WIDTH], written.vectors[WIDTH..2 * WIDTH]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever stands beside it, a row gets the vector that its text gets alone.
    #[test]
    fn rows_get_the_vectors_that_their_texts_get_without_copies(
        picks in proptest::collection::vec(0_usize..6, 1..30),
    ) {
        let texts = ["one", "one two", "a b c d", "two one", "e", "some words more"];
        let (summary, kept) = run(
            &picks.iter().map(|&pick| format!("{}\n", texts[pick])).collect::<String>(),
            |_, _| Ok(0.0),
            OnError::Fail,
            &CancelToken::new(),
        );
        let (_, alone) = run(&format!("{}\n", texts.join("\n")), |_, _| Ok(0.0), OnError::Fail, &CancelToken::new());
        prop_assert_eq!(summary.unwrap().counts.embedded, picks.len() as u64);
        let (written, alone) = (kept.0.lock().unwrap(), alone.0.lock().unwrap());
        for (row, pick) in picks.into_iter().enumerate() {
            prop_assert_eq!(
                &written.vectors[row * WIDTH..(row + 1) * WIDTH],
                &alone.vectors[pick * WIDTH..(pick + 1) * WIDTH]
            );
        }
    }
}
