//! `embedctl embed`: options that cannot be meant, inputs and outputs that cannot be had, and runs.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{ONNX_MODEL, REAL_MODEL, SMALL_MODEL, Sandbox, copy_folder, in_repository};

fn sandbox_with_texts() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo words\n\nfour, after an empty line\n");
    sandbox
}

fn jsonl(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// Options.

#[test]
fn no_output() {
    assert_snapshot!(Sandbox::new().run("embed texts.txt"));
}

#[test]
fn rejects_without_skipping() {
    assert_snapshot!(sandbox_with_texts().embed("texts.txt -o out.npy --rejects rejects.jsonl"));
}

#[test]
fn rejects_to_standard_output() {
    let sandbox = sandbox_with_texts();
    assert_snapshot!(sandbox.embed("texts.txt -o out.npy --on-error skip --rejects -"));
    assert_eq!(sandbox.files(), ["texts.txt"]);
}

#[test]
fn two_prompts() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --prompt a --prompt-name query"));
}

#[test]
fn a_kept_field_of_no_known_type() {
    assert_snapshot!(Sandbox::new().run("embed t.jsonl -o out.npy --keep title,year:integer"));
}

#[test]
fn a_kept_field_twice() {
    assert_snapshot!(Sandbox::new().run("embed t.jsonl -o out.npy --keep year:int --keep year"));
}

#[test]
fn a_size_of_no_known_unit() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --max-record-bytes 4XB"));
}

#[test]
fn no_threads() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --threads 0"));
}

#[test]
fn an_unknown_provider() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --provider cpu,npu"));
}

#[test]
fn an_unknown_pooling_mode() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --pooling cls,median"));
}

#[test]
fn an_unknown_precision() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --precision fp8"));
}

#[test]
fn a_second_device_of_the_processor() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy --provider cpu --device 0,1"));
}

#[test]
fn standard_input_twice() {
    assert_snapshot!(Sandbox::new().run("embed - t.txt - -o out.npy"));
}

#[test]
fn quiet_and_verbose() {
    assert_snapshot!(Sandbox::new().run("embed t.txt -o out.npy -qv"));
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let sandbox = sandbox_with_texts();
    let mut command = sandbox.embed_command("texts.txt -o out.npy");
    command
        .env("EMBEDCTL_DEVICE", "")
        .env("EMBEDCTL_ORT_LIB", "");
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn a_variable_is_checked_like_an_option() {
    let sandbox = sandbox_with_texts();
    let mut command = sandbox.embed_command("texts.txt -o out.npy");
    assert_snapshot!(sandbox.finish(command.env("EMBEDCTL_DEVICE", "gpu0")));
    // The option goes before it, and is at fault alone.
    let run = sandbox.finish(command.args(["--device", "gpu1"]));
    assert!(!run.stderr.contains("EMBEDCTL_DEVICE"), "{run}");
}

#[test]
fn seconds_of_an_interrupted_run_have_bounds() {
    let sandbox = sandbox_with_texts();
    for wrong in ["0", "3601", "18446744073709551616", "soon"] {
        let mut command = sandbox.embed_command("texts.txt -o out.npy");
        let run = sandbox.finish(command.env("EMBEDCTL_LAST_SECONDS", wrong));
        assert_eq!(run.code, Some(2), "{run}");
        let said =
            format!("EMBEDCTL_LAST_SECONDS={wrong}; give a number of seconds from 1 to 3600");
        assert!(run.stderr.contains(&said), "{run}");
    }
    assert_eq!(sandbox.files(), ["texts.txt"]);
}

#[test]
fn a_variable_that_leads_nowhere_is_named() {
    let sandbox = sandbox_with_texts();
    let mut command = sandbox.embed_command("texts.txt -o out.npy");
    let run = sandbox.finish(command.env("EMBEDCTL_MODEL", "./model"));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr
            .ends_with("hint: the environment sets EMBEDCTL_MODEL=./model\n"),
        "{run}"
    );
    let run = sandbox.embed("texts.txt -o out.npy --model ./model");
    assert!(!run.stderr.contains("EMBEDCTL_MODEL"), "{run}");
}

#[test]
fn other_tools_names_of_options_are_understood() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"body\": \"one\"}\n");
    sandbox.write("out", "worthless");
    let line = "a.jsonl --text-column body -o out --format jsonl --overwrite --truncate-dim 8";
    let run = sandbox.embed(line);
    assert_eq!(run.code, Some(0), "{run}");
    let rows = jsonl(&fs::read_to_string(sandbox.path("out")).unwrap());
    assert_eq!(rows[0]["embedding"].as_array().map(Vec::len), Some(8));
}

/// The reference has these names for every model; that they do nothing here should not go unnoticed.
#[test]
fn a_prompt_without_effect_is_told() {
    let run = sandbox_with_texts().embed("texts.txt -o out.npy --prompt-name query");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr
            .contains("note: --prompt-name query has no effect"),
        "{run}"
    );
}

#[test]
fn dimensions_are_scaled_again_where_that_is_asked_for() {
    let sandbox = sandbox_with_texts();
    let norm = |options: &str| -> f64 {
        let run = sandbox.embed(&format!("texts.txt -o - --dimensions 8 {options}"));
        let row = &jsonl(&run.stdout)[0]["embedding"];
        let components = row.as_array().unwrap().iter().filter_map(Value::as_f64);
        components.map(|one| one * one).sum::<f64>().sqrt()
    };
    assert!((norm("--normalize true") - 1.0).abs() < 1e-5);
    assert!((norm("") - 1.0).abs() > 1e-3);
}

#[test]
fn pooling_modes_have_the_names_of_the_files_and_of_the_help() {
    let sandbox = sandbox_with_texts();
    for mode in ["mean_sqrt_len", "mean_sqrt_len_tokens"] {
        let run = sandbox.embed(&format!("texts.txt -o out.npy --force --pooling {mode}"));
        assert_eq!(run.code, Some(0), "{run}");
    }
    let help = sandbox.run("embed --help").stdout;
    let error = sandbox
        .run("embed texts.txt -o out.npy --pooling median")
        .stderr;
    for mode in [
        "cls",
        "max",
        "mean",
        "mean_sqrt_len_tokens",
        "weightedmean",
        "lasttoken",
    ] {
        assert!(help.contains(mode) && error.contains(mode), "{mode}");
    }
}

// Inputs, models and outputs that cannot be had.

#[test]
fn a_model_that_is_not_here() {
    assert_snapshot!(sandbox_with_texts().embed("texts.txt -o out.npy --model nobody/nothing"));
}

#[test]
fn a_model_folder_that_is_not_here() {
    assert_snapshot!(sandbox_with_texts().embed("texts.txt -o out.npy --model ./model"));
}

#[test]
fn what_is_no_models_name_is_told_how_to_name_it() {
    let sandbox = sandbox_with_texts();
    copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("small"));
    for (given, words) in [
        ("https://huggingface.co/org/name", "--model org/name"),
        ("https://huggingface.co/org/name/", "--model org/name"),
        ("huggingface.co/org/name/tree/v1", "--model org/name@v1"),
        ("hf.co/org/name", "--model org/name"),
        ("https://example.com", "--model org/name"),
        (
            "small/onnx/model.onnx",
            "--model small --model-file onnx/model.onnx",
        ),
        ("onnx/model.onnx", "--model . --model-file onnx/model.onnx"),
        ("model.onnx", "--model . --model-file model.onnx"),
        ("small/config.json", "--model small"),
    ] {
        let run = sandbox.embed(&format!("texts.txt -o out.npy --model {given}"));
        assert_eq!(run.code, Some(1), "{run}");
        assert!(
            run.stderr.contains(&format!(": {words}\n")),
            "{given}: {run}"
        );
    }
    let run =
        sandbox.embed("texts.txt -o out.npy --model small --model-file onnx/model.onnx -p rten");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn an_input_that_is_not_here() {
    let sandbox = sandbox_with_texts();
    assert_snapshot!(sandbox.embed("texts.txt missing.txt -o out.npy"));
    assert_eq!(sandbox.files(), ["texts.txt"]);
}

/// A named file that is missing, or in the way, is a wrong option, as the help says.
#[test]
fn names_that_cannot_be_meant_have_one_exit_code() {
    let sandbox = sandbox_with_texts();
    sandbox.write("out.npy", "precious");
    for line in [
        "missing.txt -o new.npy",
        "texts.txt -o out.npy",
        "texts.txt -o .",
        "texts.txt -o nowhere/new.npy",
        "texts.txt -o new.npy --dtype int8 --calibration missing.npy",
    ] {
        let run = sandbox.embed(line);
        assert_eq!(run.code, Some(2), "{line}: {run}");
    }
    let run = sandbox.run("inspect missing.npy");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("check its name and folder"), "{run}");
}

/// Ranges may be all of a large output, far away: what they are of no use for is refused before.
#[test]
fn ranges_are_read_after_all_that_can_be_refused() {
    let sandbox = sandbox_with_texts();
    sandbox.write("out.npy", "precious");
    sandbox.write("ranges.json", "no JSON");
    let of_no_use = "--calibration is for --dtype int8 and uint8, but this is f32";
    for (line, said) in [
        ("-o new.npy", of_no_use),
        ("-o new/", of_no_use),
        ("-o out.npy --dtype int8", "out.npy"),
        ("-o nowhere/new.npy --dtype int8", "nowhere"),
        ("-o new.npy --dtype int8", "ranges.json"),
    ] {
        let run = sandbox.embed(&format!("texts.txt {line} --calibration ranges.json"));
        assert!(run.stderr.contains(said), "{line}: {run}");
        let is_read = said == "ranges.json";
        assert_eq!(run.stderr.contains("ranges.json"), is_read, "{line}: {run}");
    }
}

#[test]
fn an_input_ending_that_says_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.data", "one\n");
    assert_snapshot!(sandbox.embed("texts.data -o out.npy"));
}

#[test]
fn an_output_ending_that_says_nothing() {
    assert_snapshot!(sandbox_with_texts().embed("texts.txt -o out.vectors"));
    // A new folder is told by its slash.
    let run = sandbox_with_texts().embed("texts.txt -o job");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("for a folder of parts write -o job/"),
        "{run}"
    );
}

#[test]
fn an_output_that_exists() {
    let sandbox = sandbox_with_texts();
    sandbox.write("out.npy", "precious");
    assert_snapshot!(sandbox.embed("texts.txt -o out.npy"));
    assert_eq!(fs::read(sandbox.path("out.npy")).unwrap(), b"precious");
}

#[test]
fn an_output_that_exists_and_may_be_replaced() {
    let sandbox = sandbox_with_texts();
    sandbox.write("out.npy", "worthless");
    let run = sandbox.embed("texts.txt -o out.npy --force");
    assert_eq!(run.code, Some(0), "{run}");
    assert_ne!(fs::read(sandbox.path("out.npy")).unwrap(), b"worthless");
}

#[test]
fn an_output_folder_that_is_not_here() {
    assert_snapshot!(sandbox_with_texts().embed("texts.txt -o nowhere/out.npy"));
}

#[test]
fn a_library_that_is_not_one() {
    let sandbox = sandbox_with_texts();
    sandbox.write("libonnxruntime.so", "not a library");
    let mut command = sandbox.command(["embed", "-p", "cpu", "texts.txt", "-o", "out.npy"]);
    command.arg("--model").arg(in_repository(SMALL_MODEL));
    command.args(["--ort-lib", "libonnxruntime.so"]);
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("libonnxruntime.so"), "{run}");
    assert_eq!(sandbox.files(), ["libonnxruntime.so", "texts.txt"]);
}

// Runs.

#[test]
fn text_to_jsonl_on_standard_output() {
    let run = sandbox_with_texts().embed("texts.txt -o -");
    assert_eq!(run.code, Some(0), "{run}");
    let rows = jsonl(&run.stdout);
    let ids: Vec<&Value> = rows.iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["1", "2", "3", "4"]);
    assert!(
        rows.iter()
            .all(|row| row["embedding"].as_array().unwrap().len() == 48)
    );
    assert_snapshot!(run.stderr);
}

#[test]
fn a_pipe_to_parquet() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("-o out.parquet");
    let run = sandbox.run_with_input(&mut command, b"one\ntwo\n");
    assert_snapshot!(run);
    assert_eq!(sandbox.files(), ["out.parquet"]);
}

#[test]
fn jsonl_with_kept_fields() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "records.jsonl",
        concat!(
            "{\"key\": 7, \"body\": {\"en\": \"seven\"}, \"year\": 1999}\n",
            "{\"key\": 8, \"body\": {\"en\": \"eight\"}, \"year\": null}\n",
        ),
    );
    let run = sandbox.embed(
        "records.jsonl -o - --text-field body.en --id-field key --id-type int --keep year:int -q",
    );
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    let rows = jsonl(&run.stdout);
    assert_eq!(
        (&rows[0]["id"], &rows[0]["year"]),
        (&7.into(), &1999.into())
    );
    assert_eq!(
        (&rows[1]["id"], &rows[1]["year"]),
        (&8.into(), &Value::Null)
    );
}

#[test]
fn nothing_to_embed() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "");
    assert_snapshot!(sandbox.embed("texts.txt -o out.parquet"));
    assert_eq!(sandbox.files(), ["out.parquet", "texts.txt"]);
}

#[test]
fn nothing_to_embed_can_be_a_failure() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "");
    let run = sandbox.embed("texts.txt -o out.parquet --fail-on-empty");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr
            .contains("no record to embed, which --fail-on-empty forbids"),
        "{run}"
    );
    sandbox.write("records.jsonl", "{\"text\":7}\n");
    let run = sandbox.embed("records.jsonl -o out.parquet --on-error skip --fail-on-empty");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("none of 1 records can be embedded"),
        "{run}"
    );
    assert_eq!(sandbox.files(), ["records.jsonl", "texts.txt"]);
    sandbox.write("texts.txt", "\n");
    let run = sandbox.embed("texts.txt -o out.parquet --fail-on-empty");
    assert_eq!(run.code, Some(0), "an empty text is a record: {run}");
}

#[test]
fn repeated_texts_are_told_and_are_no_speed() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n".repeat(500));
    let run = sandbox.embed("texts.txt -o out.npy");
    assert!(
        run.stderr.contains(
            ": 1 computed, [RATE] rows/s, [RATE] tokens/s; 499 duplicate texts computed once"
        ),
        "{run}"
    );
    let output = sandbox.embed_command("texts.txt -o out.npy --force --log-format json");
    let output = { output }.output().unwrap();
    let summary = jsonl(&String::from_utf8(output.stderr).unwrap())
        .pop()
        .unwrap();
    assert_eq!(summary["repeated"], 499);
    let rows =
        summary["rows_per_second"].as_f64().unwrap() * summary["run_seconds"].as_f64().unwrap();
    assert!((rows - 1.0).abs() < 1e-6, "{summary}");
}

#[test]
fn fields_that_no_record_has_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"text\": \"one\", \"title\": \"t\"}\n");
    assert_snapshot!(sandbox.embed("a.jsonl -o out.npy --keep titel --id-field key"));
    let run = sandbox_with_texts().embed("texts.txt -o out.npy --id-field key");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("`--id-field key` needs fields"),
        "{run}"
    );
}

#[test]
fn text_that_is_none_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("wide.txt", b"o\0n\0e\0\n\0");
    assert_snapshot!(sandbox.embed("wide.txt -o out.npy"));
    sandbox.write("nul.txt", b"one\ntwo\0three\n");
    assert_snapshot!(sandbox.embed("nul.txt -o out.npy"));
}

#[test]
fn long_texts_are_cut_and_counted() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", format!("short\n{}\n", "long ".repeat(1000)));
    assert_snapshot!(sandbox.embed("texts.txt -o out.npy --max-length 16"));
}

#[test]
fn an_npy_file_has_company() {
    let sandbox = sandbox_with_texts();
    let run = sandbox.embed("texts.txt -o out.npy -q");
    assert_eq!(run.code, Some(0), "{run}");
    let files = ["out.npy", "out.npy.json", "out.npy.rows.jsonl", "texts.txt"];
    assert_eq!(sandbox.files(), files);
}

#[test]
fn several_inputs_in_a_row() {
    let sandbox = sandbox_with_texts();
    sandbox.write("more.jsonl", "{\"id\": \"x\", \"text\": \"more\"}\n");
    let mut command = sandbox.embed_command("texts.txt - more.jsonl -o - -q");
    let run = sandbox.run_with_input(&mut command, b"from a pipe\n");
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    let rows = jsonl(&run.stdout);
    let ids: Vec<&Value> = rows.iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "1", "x"]);
}

/// The Hub's cache: `refs/main` names the commit, `snapshots/<commit>` holds the files.
#[test]
fn a_model_in_the_cache() {
    let sandbox = sandbox_with_texts();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let repository = sandbox.path("hub/models--org--tiny");
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), commit).unwrap();
    copy_folder(
        &in_repository(SMALL_MODEL),
        &repository.join("snapshots").join(commit),
    );
    let run = sandbox.embed("texts.txt -o out.npy --model org/tiny --cache-dir hub --offline");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("model org/tiny · "), "{run}");
    let provenance = fs::read_to_string(sandbox.path("out.npy.json")).unwrap();
    let provenance: Value = serde_json::from_str(&provenance).unwrap();
    assert_eq!(provenance["model"]["revision"], commit);
}

/// Falling back to the embedded engine is said aloud.
#[test]
fn auto_says_what_it_took() {
    let sandbox = sandbox_with_texts();
    let mut command = sandbox.command(["embed", "texts.txt", "-o", "out.npy", "--threads", "1"]);
    let run = sandbox.finish(command.env("EMBEDCTL_MODEL", in_repository(ONNX_MODEL)));
    assert_eq!(run.code, Some(0), "{run}");
    // A system folder may hold ONNX Runtime, whatever the environment.
    let fell_back = run.stderr.contains("engine rten ");
    assert_eq!(
        fell_back,
        run.stderr
            .contains("note: no usable ONNX Runtime was found"),
        "{run}"
    );
    assert!(
        fell_back || run.stderr.contains("engine onnxruntime "),
        "{run}"
    );
}

#[test]
fn the_real_model() {
    let sandbox = Sandbox::new();
    let input = in_repository("fixtures/inputs/quotes.txt");
    let mut command = sandbox.embed_command("-o out.parquet");
    command
        .arg("--model")
        .arg(in_repository(REAL_MODEL))
        .arg(input);
    assert_snapshot!(sandbox.finish(&mut command));
}

// Bad records.

fn sandbox_with_bad_records() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "records.jsonl",
        concat!(
            "{\"id\": \"a\", \"text\": \"good\"}\n",
            "{\"id\": \"b\", \"text\": \n",
            "\n",
            "{\"id\": \"d\", \"title\": \"no text\"}\n",
            "{\"id\": \"e\", \"text\": 5}\n",
            "{\"id\": \"f\", \"text\": \"good too\"}\n",
        ),
    );
    sandbox
}

#[test]
fn a_bad_record_stops_the_run() {
    let sandbox = sandbox_with_bad_records();
    assert_snapshot!(sandbox.embed("records.jsonl -o out.parquet"));
    assert_eq!(sandbox.files(), ["records.jsonl"]);
}

#[test]
fn skipped_records_are_named() {
    let sandbox = sandbox_with_bad_records();
    assert_snapshot!(sandbox.embed("records.jsonl -o out.parquet --on-error skip"));
    assert_eq!(sandbox.files(), ["out.parquet", "records.jsonl"]);
}

#[test]
fn skipped_records_are_named_even_quietly() {
    let sandbox = sandbox_with_bad_records();
    assert_snapshot!(sandbox.embed("records.jsonl -o out.parquet --on-error skip -q"));
}

#[test]
fn skipped_records_go_to_a_file() {
    let sandbox = sandbox_with_bad_records();
    assert_snapshot!(
        sandbox.embed("records.jsonl -o out.parquet --on-error skip --rejects rejects.jsonl")
    );
    assert_eq!(
        sandbox.files(),
        ["out.parquet", "records.jsonl", "rejects.jsonl"]
    );
    let rejects = fs::read_to_string(sandbox.path("rejects.jsonl")).unwrap();
    let lines: Vec<u64> = jsonl(&rejects)
        .iter()
        .map(|one| one["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [2, 4, 5]);
}

#[test]
fn more_bad_records_than_are_shown() {
    let sandbox = Sandbox::new();
    sandbox.write("records.jsonl", "{\"text\":7}\n".repeat(12));
    assert_snapshot!(sandbox.embed("records.jsonl -o out.parquet --on-error skip"));
}

#[test]
fn a_record_over_the_limit() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", format!("fine\n{}\nfine\n", "x".repeat(5000)));
    assert_snapshot!(sandbox.embed("texts.txt -o out.npy --max-record-bytes 4KiB"));
}

#[test]
fn json_on_standard_input_without_a_format() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("-o out.npy");
    assert_snapshot!(sandbox.run_with_input(&mut command, b"{\"text\": \"one\"}\n"));
    // The text may stand in a field of another name: embedding the JSON itself is nobody's wish.
    let mut command = sandbox.embed_command("-o out.npy");
    assert_snapshot!(sandbox.run_with_input(&mut command, b"{\"body\": \"one\", \"id\": 1}\n"));
    assert_eq!(sandbox.files(), [""; 0]);
    let mut command = sandbox.embed_command("-o out.npy -i text");
    let run = sandbox.run_with_input(&mut command, b"{\"body\": \"one\"}\n");
    assert_eq!(run.code, Some(0), "{run}");
}

// Models that padding changes.

#[test]
fn a_model_that_padding_changes_runs_rows_of_equal_length_together() {
    let mut said = Vec::new();
    for case in [
        "padding-convolutions",
        "padding-neighbours",
        "padding-graph-without-mask",
        "bert-cls",
    ] {
        let sandbox = sandbox_with_texts();
        let mut command = sandbox.embed_command("texts.txt -o out.npy -p rten");
        command.env(
            "EMBEDCTL_MODEL",
            in_repository(&format!("fixtures/parity/{case}/model")),
        );
        let run = sandbox.finish(&mut command);
        assert_eq!(run.code, Some(0), "{run}");
        let provenance = fs::read_to_string(sandbox.path("out.npy.json")).unwrap();
        let provenance: Value = serde_json::from_str(&provenance).unwrap();
        let told = run.stderr.contains("padding changes this model's vectors");
        said.push((case, told, provenance["engine"]["equal_lengths"] == true));
    }
    let expected = [
        ("padding-convolutions", true, true),
        ("padding-neighbours", true, true),
        ("padding-graph-without-mask", true, true),
        ("bert-cls", false, false),
    ];
    assert_eq!(said, expected);
}
