//! `embedctl search`, against answers that are computed here.

use std::fmt::Write as _;
use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::jobs::code;
use crate::sandbox::{Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};
use embedctl_testing::stride;

/// How far a score may be from the exact one: rows and queries are float32.
const NEAR: f64 = 2e-5;

const QUERY: &str = "the number of a cat";

fn texts(count: usize) -> String {
    let words = ["cat", "rate", "mat", "number", "interest", "rose", "rug"];
    let mut lines = String::new();
    for n in 0..count {
        let (one, other) = (words[n % 7], words[n / 7 % 7]);
        let text = format!("the {one} and a {other} number {}", n * n % 89);
        let _ = writeln!(lines, "{}", json!({"id": format!("a{n}"), "text": text}));
    }
    lines
}

/// `embed` with a model.
fn embed_with(sandbox: &Sandbox, model: &str, line: &str) -> Run {
    let mut command = sandbox.embed_command(line);
    command.env("EMBEDCTL_MODEL", in_repository(model));
    sandbox.finish(&mut command)
}

fn search(sandbox: &Sandbox, line: &str) -> Run {
    let line = format!("search -p native {line}");
    sandbox.run(&line)
}

/// The hits, one object each.
fn hits(sandbox: &Sandbox, line: &str) -> Vec<Value> {
    let run = search(sandbox, &format!("--json {line}"));
    code(&run, 0);
    objects(&run.stdout)
}

fn objects(lines: &str) -> Vec<Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn rows(sandbox: &Sandbox, file: &str) -> Vec<Value> {
    objects(&fs::read_to_string(sandbox.path(file)).unwrap())
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap().iter();
    list.map(|number| number.as_f64().unwrap()).collect()
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

/// Checks hits against the exact score of every row, best first; of equal ones the earlier row.
fn exact(hits: &[Value], scores: &[f64], count: usize, what: &str) {
    assert_eq!(hits.len(), count.min(scores.len()), "{what}");
    let mut best: Vec<f64> = scores.to_vec();
    best.sort_by(|one, other| other.total_cmp(one));
    let mut before: Option<(f64, usize)> = None;
    for (place, hit) in hits.iter().enumerate() {
        let row = usize::try_from(hit["row"].as_u64().unwrap()).unwrap();
        let score = hit["score"].as_f64().unwrap();
        let tolerance = NEAR * best[0].abs().max(1.0);
        assert_eq!(hit["rank"], place + 1, "{what}");
        assert!(
            (score - scores[row]).abs() < tolerance,
            "{what}: {hit}: {}",
            scores[row]
        );
        assert!(
            (score - best[place]).abs() < tolerance,
            "{what}: {hit}: {}",
            best[place]
        );
        if let Some((last, own)) = before {
            assert!(
                score < last || (score == last && row > own),
                "{what}: {hit}"
            );
        }
        before = Some((score, row));
    }
}

/// The query's vector, as the model gives it.
fn query(sandbox: &Sandbox, model: &str, more: &str) -> Value {
    sandbox.write("query.txt", QUERY);
    let run = embed_with(
        sandbox,
        model,
        &format!("query.txt -o query.jsonl --force {more}"),
    );
    code(&run, 0);
    rows(sandbox, "query.jsonl").remove(0)
}

/// Stored components as numbers, as docs/search.md says.
fn decoded(stored: &[f64], dtype: &str, ranges: &Value, width: usize) -> Vec<f64> {
    let shift = if ["int8", "binary"].contains(&dtype) {
        128.0
    } else {
        0.0
    };
    let codes = stored.iter().map(|code| code + shift);
    match dtype {
        "int8" | "uint8" => {
            let (min, max) = (numbers(&ranges["min"]), numbers(&ranges["max"]));
            let ranges = min.iter().zip(&max);
            codes
                .zip(ranges)
                .map(|(code, (min, max))| (min + (code + 0.5) * (max - min) / 255.0).min(*max))
                .collect()
        }
        "binary" | "ubinary" => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let bytes: Vec<u8> = codes.map(|code| code as u8).collect();
            let bit = |place: usize| bytes[place / 8] >> (7 - place % 8) & 1 == 1;
            (0..width)
                .map(|place| if bit(place) { 1.0 } else { -1.0 })
                .collect()
        }
        _ => stored.to_vec(),
    }
}

#[test]
fn every_type_in_every_format_gives_the_exact_answer() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(230));
    code(&sandbox.embed("in.jsonl -o plain.jsonl"), 0);
    let query = numbers(&query(&sandbox, SMALL_MODEL, "")["embedding"]);
    let all = ["f32", "f16", "int8", "uint8", "binary", "ubinary"];
    let formats: [(&str, &[&str]); 9] = [
        ("parquet", &all),
        ("arrow", &all),
        ("arrows", &["f32", "uint8"]),
        ("npy", &all),
        ("jsonl", &all),
        ("jsonl.zst", &["f32", "binary"]),
        ("pgcopy", &["f32", "f16", "binary", "ubinary"]),
        ("fbin", &["f32"]),
        ("i8bin", &["int8", "binary"]),
    ];
    let mut tried = 0;
    for dtype in all {
        let calibration = match dtype {
            "int8" | "uint8" => "--calibration plain.jsonl",
            _ => "",
        };
        let embed = |out: &str| {
            let line =
                format!("in.jsonl -o {out} --keep text --dtype {dtype} {calibration} --force");
            code(&sandbox.embed(&line), 0);
        };
        embed("stored.jsonl");
        let made = fs::read_to_string(sandbox.path("stored.jsonl.embedctl.json"))
            .or_else(|_| fs::read_to_string(sandbox.path("stored.jsonl.json")))
            .unwrap();
        let made: Value = serde_json::from_str(&made).unwrap();
        let ranges = &made["calibration"]["ranges"]["embedding"];
        let stored = rows(&sandbox, "stored.jsonl");
        let scores: Vec<f64> = (stored.iter())
            .map(|row| decoded(&numbers(&row["embedding"]), dtype, ranges, query.len()))
            .map(|row| cosine(&query, &row))
            .collect();
        for (ending, dtypes) in formats {
            tried += usize::from(dtypes.contains(&dtype));
            if !dtypes.contains(&dtype) || tried % stride(3) != 0 {
                continue;
            }
            let out = format!("out-{dtype}.{ending}");
            embed(&out);
            let found = hits(&sandbox, &format!("{out} {QUERY}"));
            exact(&found, &scores, 10, &out);
            for hit in &found {
                let row = usize::try_from(hit["row"].as_u64().unwrap()).unwrap();
                if ending == "pgcopy" {
                    assert!(hit["id"].is_null() && hit["text"].is_null(), "{out}: {hit}");
                    continue;
                }
                assert_eq!(hit["id"], stored[row]["id"], "{out}");
                assert_eq!(hit["text"], stored[row]["text"], "{out}");
            }
        }
    }
}

/// A matrix that threads read piece by piece, under the provenance of a small one; the file beside names its rows. What
/// follows its last row, and what is missing of it, is damage.
#[test]
fn pieces_of_a_large_matrix_are_one_answer() {
    const ROWS: usize = 5000;
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(3));
    code(&sandbox.embed("in.jsonl -o out.npy"), 0);
    code(&sandbox.embed("in.jsonl -o out.fbin"), 0);
    let width = numbers(&query(&sandbox, SMALL_MODEL, "")["embedding"]).len();
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(f32::from_bits(0x3f80_0000 | state >> 9)) - 1.5
    };
    let matrix: Vec<Vec<f64>> = (0..ROWS)
        .map(|_| (0..width).map(|_| random()).collect())
        .collect();
    #[allow(clippy::cast_possible_truncation)] // the numbers are float32's
    let values: Vec<u8> = (matrix.iter().flatten())
        .flat_map(|number| (*number as f32).to_le_bytes())
        .collect();
    let shape = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ROWS}, {width}), }}");
    let header = [
        &b"\x93NUMPY\x01\x00\x76\x00"[..],
        format!("{shape:<117}\n").as_bytes(),
    ]
    .concat();
    let of = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let small = [of(ROWS), of(width)].concat();
    for (out, header) in [("out.npy", header), ("out.fbin", small)] {
        fs::write(sandbox.path(out), [&header[..], &values].concat()).unwrap();
        let lines: String = (0..ROWS)
            .map(|row| {
                format!(
                    "{}\n",
                    json!({"row": row, "id": format!("b{row}"), "line": row + 1})
                )
            })
            .collect();
        sandbox.write(&format!("{out}.rows.jsonl"), lines);
        let own = 4321;
        let scores: Vec<f64> = (matrix.iter().enumerate())
            .map(|(row, numbers)| {
                if row == own {
                    -2.0
                } else {
                    cosine(&matrix[own], numbers)
                }
            })
            .collect();
        let found = hits(&sandbox, &format!("{out} -k 50 --like-row b{own}"));
        exact(&found, &scores, 50, out);
        for hit in &found {
            assert_eq!(hit["id"], format!("b{}", hit["row"]), "{out}");
        }
        let whole = fs::read(sandbox.path(out)).unwrap();
        for (bytes, why) in [
            ([&whole[..], b"x"].concat(), "bytes follow its last row"),
            (
                whole[..whole.len() - 1].to_vec(),
                "it ends in the middle of a vector",
            ),
        ] {
            fs::write(sandbox.path(out), bytes).unwrap();
            let run = search(&sandbox, &format!("{out} --like-row b0"));
            assert_eq!(run.code, Some(1), "{run}");
            assert!(run.stderr.contains(why), "{run}");
        }
    }
}

/// Ids are numbers, texts, or missing, whether the text is kept or not.
#[test]
fn ids_of_every_type_name_rows() {
    let sandbox = Sandbox::new();
    let ids = [
        ["7", "8", "9"],
        ["\"7\"", "\"8\"", "\"9\""],
        ["7", "8", "null"],
    ];
    for (number, ids) in ids.into_iter().enumerate() {
        let lines = ids.iter().zip(["a cat", "a rug", "interest"]);
        let lines: String = lines
            .map(|(id, text)| format!("{{\"id\":{id},\"text\":\"{text}\"}}\n"))
            .collect();
        sandbox.write("in.jsonl", lines);
        let endings = ["parquet", "arrow", "arrows", "jsonl", "jsonl.gz", "npy"].into_iter();
        for ending in endings.skip(number % stride(3)).step_by(stride(3)) {
            for keep in ["", "--keep text"] {
                let out = format!("out.{ending}");
                code(
                    &sandbox.embed(&format!("in.jsonl -o {out} --force {keep}")),
                    0,
                );
                let found = hits(&sandbox, &format!("{out} --like-row 8"));
                let mut rows: Vec<(u64, &Value)> = found
                    .iter()
                    .map(|hit| (hit["row"].as_u64().unwrap(), &hit["id"]))
                    .collect();
                rows.sort_by_key(|(row, _)| *row);
                let id = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                let (first, last) = (id(ids[0]), id(ids[2]));
                assert_eq!(rows, [(0, &first), (2, &last)], "{out} {keep} {ids:?}");
            }
        }
    }
}

/// The column of ids has another name where a field `id` is kept beside it.
#[test]
fn ids_of_another_field_name_rows() {
    let sandbox = Sandbox::new();
    let lines = [(7, "x", "a cat"), (8, "y", "a rug"), (9, "z", "interest")];
    let lines = lines.map(|(k, id, text)| format!("{}\n", json!({"k": k, "id": id, "text": text})));
    sandbox.write("in.jsonl", lines.concat());
    let endings = ["parquet", "arrow", "arrows", "jsonl", "npy"].into_iter();
    for ending in endings.step_by(stride(3)) {
        for keep in [
            "",
            "--keep text",
            "--keep id",
            "--keep id,text",
            "--keep k,id,text",
            "--keep *",
        ] {
            let out = format!("out.{ending}");
            let line = format!("in.jsonl -o {out} --force --id-field k {keep}");
            code(&sandbox.embed(&line), 0);
            let found = hits(&sandbox, &format!("{out} --like-row 8"));
            let mut ids: Vec<i64> = found
                .iter()
                .map(|hit| hit["id"].as_i64().unwrap())
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, [7, 9], "{out} {keep}");
            let has_text = keep.contains("text") || keep.contains('*');
            assert!(
                found.iter().all(|hit| hit["text"].is_string() == has_text),
                "{out} {keep}"
            );
        }
    }
}

#[test]
fn people_see_scores_ids_and_texts() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(12));
    code(&sandbox.embed("in.jsonl -o out.parquet --keep text"), 0);
    assert_snapshot!(search(&sandbox, "out.parquet -k 3 a cat"));
    code(&sandbox.embed("in.jsonl -o without.parquet"), 0);
    assert_snapshot!(search(&sandbox, "without.parquet -k 3 a cat"));
}

#[test]
fn equal_rows_come_in_their_order_and_there_are_no_more_than_all() {
    let sandbox = Sandbox::new();
    let lines = ["a cat", "rates rose", "a cat", "a mat", "a cat"];
    sandbox.write("in.txt", lines.join("\n"));
    for out in ["out.parquet", "out.npy"] {
        code(&sandbox.embed(&format!("in.txt -o {out}")), 0);
        let found = hits(&sandbox, &format!("{out} -k 99 a cat"));
        let rows: Vec<u64> = found
            .iter()
            .map(|hit| hit["row"].as_u64().unwrap())
            .collect();
        assert_eq!(rows[..3], [0, 2, 4], "{out}");
        assert_eq!(rows.len(), 5, "{out}");
        assert_eq!(found[1]["id"], "3", "{out}");
    }
}

#[test]
fn rows_without_a_vector_do_not_shift_the_others() {
    let sandbox = Sandbox::new();
    let line = |n: usize| match n % 3 {
        0 => json!({"id": n}),
        _ => json!({"id": n, "text": format!("text {}", n * 7 % 11)}),
    };
    let lines: String = (0..60).map(|n| format!("{}\n", line(n))).collect();
    sandbox.write("in.jsonl", lines);
    for out in ["out.parquet", "out.arrow", "out.jsonl", "parts/"] {
        let parts = if out == "parts/" {
            "--part-rows 7 --output-format parquet"
        } else {
            ""
        };
        let run = sandbox.embed(&format!(
            "in.jsonl -o {out} --keep text --on-error null {parts}"
        ));
        code(&run, 3);
        let found = hits(&sandbox, &format!("{out} -k 100 text 5"));
        assert_eq!(found.len(), 40, "{out}");
        for hit in &found {
            let id = hit["id"].as_u64().unwrap();
            assert_eq!(hit["row"], id, "{out}");
            assert_eq!(hit["text"], format!("text {}", id * 7 % 11), "{out}");
        }
        assert_eq!(found[0]["text"], "text 5", "{out}");
    }
}

#[test]
fn files_of_queries_give_tables_and_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(40));
    code(&sandbox.embed("in.jsonl -o out.npy --keep text"), 0);
    sandbox.write("queries.txt", "a cat\ninterest rates\n");
    let found = hits(&sandbox, "out.npy -k 4 --queries queries.txt");
    assert_eq!(found.len(), 8);
    for (place, hit) in found.iter().enumerate() {
        assert_eq!(hit["query_id"], (place / 4 + 1).to_string());
        assert_eq!(hit["query"], ["a cat", "interest rates"][place / 4]);
    }
    // One query alone gives the same.
    let alone = hits(&sandbox, "out.npy -k 4 interest rates");
    let ids = |hits: &[Value]| hits.iter().map(|hit| hit["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&found[4..]), ids(&alone));
    for out in ["hits.jsonl", "hits.parquet", "hits.arrow", "hits.trec"] {
        let line = format!("out.npy -k 4 --queries queries.txt -o {out}");
        code(&search(&sandbox, &line), 0);
        let run = search(&sandbox, &line);
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains("exists"), "{run}");
        code(&search(&sandbox, &format!("{line} --force")), 0);
    }
    assert_eq!(ids(&rows(&sandbox, "hits.jsonl")), ids(&found));
    let run = fs::read_to_string(sandbox.path("hits.trec")).unwrap();
    for (line, hit) in run.lines().zip(&found) {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(
            fields[..4],
            [
                hit["query_id"].as_str().unwrap(),
                "Q0",
                hit["id"].as_str().unwrap(),
                &hit["rank"].to_string(),
            ]
        );
        assert_eq!(fields[5], "embedctl");
    }
    assert_eq!(run.lines().count(), 8);
    // Tables are read back as records: each hit's query is a text.
    for table in ["hits.parquet", "hits.arrow"] {
        let line =
            format!("{table} --text-field query --keep rank,score,row -o again.jsonl --force");
        code(&sandbox.embed(&line), 0);
        let again = rows(&sandbox, "again.jsonl");
        assert_eq!(ids(&again), ids(&found), "{table}");
        let score = |hit: &Value| hit["score"].as_f64().unwrap();
        for (one, other) in again.iter().zip(&found) {
            assert!((score(one) - score(other)).abs() < 1e-6, "{table}");
            assert_eq!([&one["rank"], &one["row"]], [&other["rank"], &other["row"]]);
        }
    }
    sandbox.write("ids.jsonl", "{\"id\": \"q7\", \"text\": \"a cat\"}\n");
    let found = hits(&sandbox, "out.npy -k 1 --queries ids.jsonl");
    assert_eq!(found[0]["query_id"], "q7");
}

#[test]
fn the_nearest_of_a_row_need_no_model() {
    let sandbox = Sandbox::new();
    copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("model"));
    sandbox.write("in.jsonl", texts(50));
    for (out, more) in [("out.parquet", ""), ("bits.npy", "--dtype ubinary")] {
        let line = format!("in.jsonl -m ./model -o {out} {more}");
        code(&sandbox.embed(&line), 0);
    }
    code(&sandbox.embed("in.jsonl -o plain.jsonl"), 0);
    fs::rename(sandbox.path("model"), sandbox.path("moved")).unwrap();
    let plain = rows(&sandbox, "plain.jsonl");
    let own = numbers(&plain[17]["embedding"]);
    let signs = |row: &[f64]| {
        row.iter()
            .map(|it| if *it > 0.0 { 1.0 } else { -1.0 })
            .collect()
    };
    for (out, is_bits) in [("out.parquet", false), ("bits.npy", true)] {
        let form = |row: &[f64]| -> Vec<f64> { if is_bits { signs(row) } else { row.to_vec() } };
        let scores = plain.iter().enumerate().map(|(number, row)| match number {
            17 => -2.0,
            _ => cosine(&form(&own), &form(&numbers(&row["embedding"]))),
        });
        let found = hits(&sandbox, &format!("{out} -k 8 --like-row a17"));
        exact(&found, &scores.collect::<Vec<_>>(), 8, out);
    }
    let run = search(&sandbox, "out.parquet a cat");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("is not here; say where it is with --model"),
        "{run}"
    );
    code(&search(&sandbox, "out.parquet --model ./moved a cat"), 0);
    let run = search(&sandbox, "out.parquet --like-row none");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("no row has the id \"none\""), "{run}");
}

#[test]
fn queries_get_the_models_prompt_for_them() {
    let sandbox = Sandbox::new();
    copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("model"));
    let prompts = json!({"prompts": {"query": "query: ", "document": "passage: "}});
    sandbox.write(
        "model/config_sentence_transformers.json",
        prompts.to_string(),
    );
    sandbox.write("in.jsonl", texts(30));
    sandbox.write("query.txt", QUERY);
    for (out, named) in [
        ("with.jsonl", "--prompt-name document"),
        ("without.jsonl", ""),
    ] {
        code(
            &sandbox.embed(&format!("in.jsonl -m ./model {named} -o {out}")),
            0,
        );
        let plain = rows(&sandbox, out);
        for (more, option) in [
            ("--prompt-name query", ""),
            ("--prompt other:", "--prompt other:"),
            ("--prompt-name document", "--prompt-name document"),
        ] {
            let line = format!("query.txt -m ./model {more} -o query.jsonl --force");
            code(&sandbox.embed(&line), 0);
            let query = numbers(&rows(&sandbox, "query.jsonl")[0]["embedding"]);
            let scores = plain
                .iter()
                .map(|row| cosine(&query, &numbers(&row["embedding"])));
            let found = hits(&sandbox, &format!("{out} {option} {QUERY}"));
            exact(&found, &scores.collect::<Vec<_>>(), 10, more);
        }
    }
    // A prompt of the texts is not taken for queries without a word.
    sandbox.write("model/config_sentence_transformers.json", "{}");
    code(
        &sandbox.embed("in.jsonl -m ./model --prompt passage: -o other.jsonl"),
        0,
    );
    let run = search(&sandbox, "other.jsonl a cat");
    code(&run, 0);
    assert!(
        run.stderr
            .contains("queries get the prompt of the output's texts"),
        "{run}"
    );
}

#[test]
fn one_of_several_widths_is_compared() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(30));
    code(
        &sandbox.embed("in.jsonl -o out.parquet --dimensions 16,48"),
        0,
    );
    code(&sandbox.embed("in.jsonl -o plain.jsonl --dimensions 16"), 0);
    let query = numbers(&query(&sandbox, SMALL_MODEL, "--dimensions 16")["embedding"]);
    let plain = rows(&sandbox, "plain.jsonl");
    let scores = plain
        .iter()
        .map(|row| cosine(&query, &numbers(&row["embedding"])));
    let found = hits(&sandbox, &format!("out.parquet {QUERY}"));
    exact(&found, &scores.collect::<Vec<_>>(), 10, "16 of 48");
}

/// A sparse vector in full.
fn in_full(row: &Value, width: usize) -> Vec<f64> {
    let mut full = vec![0.0; width];
    let (indices, values) = (numbers(&row["indices"]), numbers(&row["values"]));
    for (index, value) in indices.iter().zip(values) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let place = *index as usize;
        full[place] = value;
    }
    full
}

/// The sum, over the query's tokens, of the greatest product with one of the row's.
fn max_sim(query: &Value, row: &Value) -> f64 {
    let vectors = |value: &Value| {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(numbers)
            .collect::<Vec<_>>()
    };
    let (query, row) = (vectors(query), vectors(row));
    let greatest = |token: &Vec<f64>| {
        row.iter()
            .map(|own| dot(token, own))
            .fold(f64::MIN, f64::max)
    };
    query.iter().map(greatest).sum()
}

#[test]
fn sparse_vectors_are_compared_by_their_product() {
    let model = "fixtures/sparse/bert/model";
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(40));
    code(
        &embed_with(&sandbox, model, "in.jsonl -o plain.jsonl --vectors sparse"),
        0,
    );
    let query = query(&sandbox, model, "--vectors sparse --task query");
    let query = in_full(&query["embedding"], 40_000);
    let plain = rows(&sandbox, "plain.jsonl");
    let scores: Vec<f64> = plain
        .iter()
        .map(|row| dot(&query, &in_full(&row["embedding"], 40_000)))
        .collect();
    for out in [
        "out.parquet",
        "out.npz",
        "plain.jsonl",
        "out.arrow",
        "out.pgcopy",
    ] {
        let line = format!("in.jsonl -o {out} --vectors sparse --force");
        code(&embed_with(&sandbox, model, &line), 0);
        exact(&hits(&sandbox, &format!("{out} {QUERY}")), &scores, 10, out);
    }
}

#[test]
fn vectors_of_tokens_are_compared_by_their_greatest_products() {
    let model = "fixtures/multi/bert-document/model";
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(40));
    let embed = "--vectors multi --task document --force";
    code(
        &embed_with(&sandbox, model, &format!("in.jsonl -o plain.jsonl {embed}")),
        0,
    );
    let query = query(&sandbox, model, "--vectors multi --task query");
    let plain = rows(&sandbox, "plain.jsonl");
    let scores: Vec<f64> = plain
        .iter()
        .map(|row| max_sim(&query["embedding"], &row["embedding"]))
        .collect();
    for out in ["out.parquet", "out.npy", "plain.jsonl", "out.arrow"] {
        code(
            &embed_with(&sandbox, model, &format!("in.jsonl -o {out} {embed}")),
            0,
        );
        exact(&hits(&sandbox, &format!("{out} {QUERY}")), &scores, 10, out);
    }
}

/// A matrix beside which the lengths of its rows stand has bytes of any type, as other formats do.
#[test]
fn vectors_of_tokens_in_bytes_are_those_of_every_format() {
    let model = "fixtures/multi/bert-document/model";
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(40));
    let run = |line: &str| {
        code(&embed_with(&sandbox, model, line), 0);
    };
    run("in.jsonl -o calibration.npy");
    for dtype in [
        "int8 --calibration calibration.npy",
        "uint8 --calibration calibration.npy",
        "binary",
        "ubinary",
    ] {
        let line = |out: &str| format!("in.jsonl -o {out} --force --dtype {dtype}");
        run(&line("out.arrow"));
        run(&line("out.npy"));
        fs::remove_dir_all(sandbox.path("parts")).ok();
        run(&format!("{} -f npy --part-rows 7", line("parts/")));
        let expected = hits(&sandbox, "out.arrow --like-row a3 -k 40");
        assert_eq!(expected.len(), 39, "{dtype}");
        for out in ["out.npy", "parts"] {
            let found = hits(&sandbox, &format!("{out} --like-row a3 -k 40"));
            assert_eq!(found, expected, "{dtype} in {out}");
        }
    }
}

#[test]
fn one_of_several_kinds_is_compared() {
    let model = "fixtures/heads/bert/model";
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(40));
    let kinds = "--vectors dense,sparse,multi";
    code(
        &embed_with(&sandbox, model, &format!("in.jsonl -o plain.jsonl {kinds}")),
        0,
    );
    code(
        &embed_with(&sandbox, model, &format!("in.jsonl -o out.parquet {kinds}")),
        0,
    );
    let query = query(&sandbox, model, kinds);
    let plain = rows(&sandbox, "plain.jsonl");
    let (mut dense, mut sparse, mut multi) = (Vec::new(), Vec::new(), Vec::new());
    let column = |kind: &str| {
        let names = query.as_object().unwrap().keys();
        let found = names.into_iter().find(|name| match kind {
            "dense" => *name == "embedding",
            kind => name.contains(kind),
        });
        found.unwrap_or_else(|| panic!("{query}")).clone()
    };
    let names = ["dense", "sparse", "multi"].map(column);
    for row in &plain {
        dense.push(cosine(
            &numbers(&query[&names[0]]),
            &numbers(&row[&names[0]]),
        ));
        let full = |row: &Value| in_full(&row[&names[1]], 40_000);
        sparse.push(dot(&full(&query), &full(row)));
        multi.push(max_sim(&query[&names[2]], &row[&names[2]]));
    }
    for out in ["out.parquet", "plain.jsonl"] {
        for (kind, scores) in [("dense", &dense), ("sparse", &sparse), ("multi", &multi)] {
            let found = hits(&sandbox, &format!("{out} --vectors {kind} {QUERY}"));
            exact(&found, scores, 10, &format!("{out} {kind}"));
        }
    }
    let run = search(&sandbox, "out.parquet a cat");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("(dense, sparse, multi); choose one of its kinds with --vectors"),
        "{run}"
    );
}

#[test]
fn what_cannot_be_searched_says_why() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", texts(8));
    code(&sandbox.embed("in.jsonl -o out.parquet"), 0);
    code(&sandbox.embed("in.jsonl -o out.npy"), 0);
    fs::remove_file(sandbox.path("out.npy.provenance.json"))
        .or_else(|_| fs::remove_file(sandbox.path("out.npy.json")))
        .unwrap();
    sandbox.write("empty.jsonl", "");
    code(&sandbox.embed("empty.jsonl -o empty.parquet"), 0);
    sandbox.write("blank.txt", "a cat\n\nb\n");
    for (line, words) in [
        ("out.npy a cat", "it has no provenance"),
        ("none.parquet a cat", "none.parquet"),
        ("in.txt a cat", "in.txt"),
        ("empty.parquet a cat", "it holds no vector"),
        (
            "out.parquet --vectors sparse a cat",
            "it has no sparse vectors (dense)",
        ),
        ("out.parquet --where year>1999", "DuckDB"),
        ("out.parquet --where year>1999 a cat", "DuckDB"),
        ("out.parquet --queries empty.jsonl", "it holds no query"),
        (
            "out.parquet --queries blank.txt",
            "blank.txt: line 2 is empty",
        ),
        ("out.parquet -f parquet a cat", "name one with --output"),
        ("out.parquet -o hits.csv a cat", "names no format of hits"),
        ("out.parquet", "QUERY"),
        ("out.parquet -k 0 a cat", "0"),
    ] {
        let run = search(&sandbox, line);
        assert!(matches!(run.code, Some(1 | 2)), "{line}: {run}");
        assert!(run.stderr.contains(words), "{line}: {run}");
        assert_eq!(run.stdout, "", "{line}");
    }
    // Another model's files.
    let other = in_repository("fixtures/parity/bert-cls/model");
    let mut command = sandbox.command(["search", "-p", "rten", "out.parquet", "-m"]);
    let run = sandbox.finish(command.arg(other).arg("a cat"));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("is not the one that made the vectors"),
        "{run}"
    );
}

#[test]
fn a_file_of_vectors_is_known_by_its_content() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("texts.jsonl"), texts(30)).unwrap();
    let embed = |more: &str| {
        let run = embed_with(
            &sandbox,
            SMALL_MODEL,
            &format!("texts.jsonl --force {more}"),
        );
        code(&run, 0);
    };
    embed("-o plain.parquet");
    let hits_of = |file: &str| -> Vec<Value> {
        let found = hits(&sandbox, &format!("{file} {QUERY}")).into_iter();
        found.map(|hit| json!([hit["row"], hit["id"]])).collect()
    };
    let expected = hits_of("plain.parquet");
    // A name without an ending, and one that promises another format.
    for (number, name) in ["vectors", "vectors.npy"].into_iter().enumerate() {
        let formats = [
            "parquet",
            "arrow",
            "arrows",
            "npy",
            "jsonl",
            "jsonl.gz",
            "jsonl.zst",
            "fbin",
        ];
        let formats = formats.into_iter().skip(number % stride(3));
        for format in formats.step_by(stride(3)) {
            if format == "fbin" && name == "vectors.npy" {
                continue; // nothing in it tells that it is none
            }
            embed(&format!("-f {format} --keep text -o {name}"));
            assert_eq!(hits_of(name), expected, "{format} in {name}");
            code(&sandbox.run(&format!("inspect {name}")), 0);
            code(&sandbox.run(&format!("compare {name} plain.parquet")), 0);
            embed(&format!("--reuse {name} -o again.parquet"));
        }
        for (format, dtype) in [("i8bin", "int8"), ("u8bin", "uint8")] {
            if name == "vectors.npy" {
                continue;
            }
            embed(&format!(
                "-f {format} --dtype {dtype} --calibration plain.parquet -o {name}"
            ));
            assert_eq!(hits_of(name).len(), 10, "{format} in {name}");
        }
    }
    fs::write(sandbox.path("notes.txt"), "no vectors\n").unwrap();
    let run = search(&sandbox, &format!("notes.txt {QUERY}"));
    code(&run, 1);
    assert!(
        run.stderr
            .contains("neither its first bytes nor its ending"),
        "{}",
        run.stderr
    );
}
