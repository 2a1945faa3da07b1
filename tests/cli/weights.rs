//! A model's weights while a run uses them: files that change under it, and memory that they take.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, Sandbox, copy_folder, in_repository};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Float32Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use embedctl_testing::stride;

const TEXTS: [&str; 6] = [
    "a cat sits on a mat",
    "interest rates rose again this year",
    "one two three four five",
    "the river was wide and cold",
    "nobody reads the last line",
    "words that no other line has",
];

/// The numbers of a batch's vectors.
fn numbers(batch: &RecordBatch) -> Vec<u32> {
    let vectors = batch.column_by_name("embedding").unwrap();
    let values = vectors.as_fixed_size_list().values();
    let values = values.as_primitive::<Float32Type>().values();
    values.iter().map(|value| value.to_bits()).collect()
}

/// A run whose records are sent one at a time, once the one before was answered.
struct Answered {
    rows: Vec<Vec<u32>>,
    code: Option<i32>,
    said: String,
    /// The stream's schema on the model.
    made: Value,
}

/// Answers by the stream format, whose schema comes once the files are hashed; `meanwhile` is called after the first row.
fn answered(command: &mut Command, meanwhile: impl FnOnce()) -> Answered {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut say = |text: &str| writeln!(stdin, "{text}");
    say(TEXTS[0]).unwrap();
    let mut rows = Vec::new();
    let mut made = Value::Null;
    let mut meanwhile = Some(meanwhile);
    if let Ok(mut stream) = StreamReader::try_new(child.stdout.take().unwrap(), None) {
        let schema = stream.schema();
        made = serde_json::from_str(&schema.metadata()["embedctl"]).unwrap();
        while let Some(Ok(batch)) = stream.next() {
            rows.push(numbers(&batch));
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile();
            }
            match TEXTS.get(rows.len()) {
                Some(text) => say(text).unwrap(),
                None => break,
            }
        }
    }
    drop(stdin);
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    Answered {
        rows,
        code: child.wait().unwrap().code(),
        said,
        made,
    }
}

fn weights_of(model: &Path) -> PathBuf {
    let own = model.join("0_StaticEmbedding");
    let folder = if own.exists() { own } else { model.into() };
    folder.join("model.safetensors")
}

/// A change of a file, and its name.
type Change<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn weights_that_are_overwritten_or_cut_during_a_run_change_no_row() {
    let other = |path: &Path| {
        // Other weights of the same shapes, all of them finite.
        let bytes = fs::read(path).unwrap();
        let header =
            8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        let mut bytes = bytes;
        bytes[header..].rotate_left(96);
        fs::write(path, bytes).unwrap();
    };
    let cut = |path: &Path| File::create(path).map(drop).unwrap();
    let half = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    };
    let replaced = |path: &Path| {
        let new = path.with_extension("new");
        fs::write(&new, "nothing of the kind").unwrap();
        fs::rename(new, path).unwrap();
    };
    let changes: [Change<'_>; 4] = [
        ("overwritten", &other),
        ("emptied", &cut),
        ("halved", &half),
        ("replaced", &replaced),
    ];
    for model in [
        "bare-encoder",
        "family-modernbert",
        "family-qwen3",
        "dense-two-layers",
        "model2vec-half",
        "static-own-folder",
    ] {
        let sandbox = Sandbox::new();
        let original = in_repository(&format!("fixtures/parity/{model}/model"));
        let line = "embed --provider native --threads 1 -m model -i text -f arrow -o -";
        let fresh = || {
            let _ = fs::remove_dir_all(sandbox.path("model"));
            copy_folder(&original, &sandbox.path("model"));
        };
        fresh();
        let command = || sandbox.command(line.split(' '));
        let expected = answered(&mut command(), || {});
        assert_eq!(
            expected.rows.len(),
            TEXTS.len(),
            "{model}: {}",
            expected.said
        );
        for (name, change) in changes {
            fresh();
            let run = answered(&mut command(), || {
                change(&weights_of(&sandbox.path("model")));
            });
            assert_eq!(run.code, Some(0), "{model}, {name}: {}", run.said);
            assert!(run.rows == expected.rows, "{model}, {name}: other rows");
            assert_eq!(run.made["model"]["files"], expected.made["model"]["files"]);
        }
    }
}

/// Vectors of reduced precision are compared with those of fp32 once the first window is here, for which weights are
/// read again.
#[test]
fn weights_that_change_before_precision_is_measured_end_the_run() {
    let sandbox = Sandbox::new();
    copy_folder(
        &in_repository("fixtures/parity/bare-encoder/model"),
        &sandbox.path("model"),
    );
    let path = weights_of(&sandbox.path("model"));
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    for precision in ["int16", "int8"] {
        let line = format!(
            "embed --provider native --precision {precision} --min-cosine 0.5 --threads 1 -m model -i arrow -f arrow -o -"
        );
        let mut command = sandbox.command(line.split(' '));
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8, false)]);
        let stdin = child.stdin.take().unwrap();
        let mut writer = StreamWriter::try_new(stdin, &schema).unwrap();
        writer.flush().unwrap();
        // The output's stream begins once the engine is open and the files are hashed; no text has come.
        let mut stdout = child.stdout.take().unwrap();
        let mut begun = [0; 8];
        stdout.read_exact(&mut begun).unwrap();
        // One bit, in place.
        let last = file.metadata().unwrap().len() - 4;
        let mut byte = [0];
        let reader = File::open(&path).unwrap();
        reader.read_exact_at(&mut byte, last).unwrap();
        file.write_all_at(&[byte[0] ^ 1], last).unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec![TEXTS[0]]));
        let batch = RecordBatch::try_new(Arc::new(schema), vec![texts]).unwrap();
        let _ = writer.write(&batch);
        let _ = writer.finish();
        drop(writer);
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{precision}: {said}");
        assert!(said.contains("was changed while"), "{precision}: {said}");
        assert!(said.contains("model.safetensors"), "{precision}: {said}");
    }
}

/// A BERT of `layers` layers with random weights in bfloat16, in the folder `model` of the sandbox; how many weights its
/// layers have. `sparse`: all of them are zero, and take no room on the disk.
fn wide(sandbox: &Sandbox, hidden: u64, inner: u64, layers: u64, sparse: bool) -> u64 {
    let folder = sandbox.path("model");
    let _ = fs::remove_dir_all(&folder);
    copy_folder(
        &in_repository("fixtures/parity/dense-identity-no-bias/model"),
        &folder,
    );
    for name in ["onnx", "2_Dense"] {
        fs::remove_dir_all(folder.join(name)).unwrap();
    }
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
    };
    let modules = read("modules.json");
    let kept: Vec<Value> = (modules.as_array().unwrap().iter())
        .filter(|module| module["path"] != "2_Dense")
        .cloned()
        .collect();
    let mut config = read("config.json");
    config["hidden_size"] = hidden.into();
    config["intermediate_size"] = inner.into();
    config["num_hidden_layers"] = layers.into();
    config["num_attention_heads"] = (hidden / 64).into();
    let mut pooling = read("1_Pooling/config.json");
    pooling["embedding_dimension"] = hidden.into();
    for (name, value) in [
        ("modules.json", json!(kept)),
        ("config.json", config),
        ("1_Pooling/config.json", pooling),
    ] {
        fs::write(folder.join(name), value.to_string()).unwrap();
    }
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        (
            "embeddings.word_embeddings.weight".into(),
            vec![320, hidden],
        ),
        (
            "embeddings.position_embeddings.weight".into(),
            vec![64, hidden],
        ),
        (
            "embeddings.token_type_embeddings.weight".into(),
            vec![2, hidden],
        ),
    ];
    let norm = |name: &str, tensors: &mut Vec<(String, Vec<u64>)>| {
        for part in ["weight", "bias"] {
            tensors.push((format!("{name}.LayerNorm.{part}"), vec![hidden]));
        }
    };
    norm("embeddings", &mut tensors);
    for layer in 0..layers {
        let of = |name: &str| format!("encoder.layer.{layer}.{name}");
        for (name, outputs, inputs) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", inner, hidden),
            ("output.dense", hidden, inner),
        ] {
            tensors.push((of(&format!("{name}.weight")), vec![outputs, inputs]));
            tensors.push((of(&format!("{name}.bias")), vec![outputs]));
        }
        norm(&of("attention.output"), &mut tensors);
        norm(&of("output"), &mut tensors);
    }
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, shape) in &tensors {
        let begin = end;
        end += 2 * shape.iter().product::<u64>();
        header.insert(
            name.clone(),
            json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}),
        );
    }
    let header = Value::Object(header).to_string();
    let mut file = File::create(folder.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    if sparse {
        file.set_len(8 + header.len() as u64 + end).unwrap();
    } else {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        // They come again after a prime number of them, so that no two rows are alike.
        let mut bytes = Vec::with_capacity(2 * 500_009);
        for _ in 0..500_009 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Signs and fractions of 1/64 to 1/32.
            let bits = 0x3c80 | ((state >> 40) as u16 & 0x807f);
            bytes.extend_from_slice(&bits.to_le_bytes());
        }
        let mut left = usize::try_from(end).unwrap();
        while left > 0 {
            let count = left.min(bytes.len());
            file.write_all(&bytes[..count]).unwrap();
            left -= count;
        }
    }
    layers * (4 * hidden * hidden + 2 * hidden * inner)
}

/// Runs a command to its end; its exit code, what it said, and the most memory that it had, in bytes.
fn measured(command: &mut Command) -> (Option<i32>, String, u64) {
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        said
    });
    // The system's own count at the end begins with the memory of this process.
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let code = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = kilobytes.unwrap_or(0).max(most);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        // Often enough to see its most, and seldom enough to leave it the processor.
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    (code, said.join().unwrap(), most * 1024)
}

/// The most that a run holds beside weights: the program, and where precision is measured the larger half of a layer in
/// fp32, the sample's two thousand tokens between two halves, and two batches of 256 tokens, seven widths each.
#[test]
fn the_most_memory_is_little_more_than_the_weights_in_their_precision() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", TEXTS.join("\n"));
    // The program's memory with next to no weights.
    wide(&sandbox, 64, 64, 1, false);
    let run = |precision: &str| {
        let line = format!(
            "embed texts.txt --provider native --precision {precision} --min-cosine 0.1 --threads 1 --force -m model \
             -o out.npy"
        );
        let mut command = sandbox.command(line.split(' '));
        // Threads that --threads does not count would each have their own.
        command.env("RAYON_NUM_THREADS", "16");
        let (code, said, most) = measured(&mut command);
        assert_eq!(code, Some(0), "{precision}: {said}");
        most
    };
    let program = run("int8");
    let all = &[("fp32", 4), ("int16", 2), ("int8", 1)][..];
    let sizes = [
        (768, 3072, 3, all),
        (1024, 4096, 2, all),
        // Both halves of the layer together would be too much.
        (4096, 4096, 1, &[("int8", 1)]),
    ];
    for (hidden, inner, layers, precisions) in sizes.into_iter().step_by(stride(3)) {
        let weights = wide(&sandbox, hidden, inner, layers, false);
        let half = 4 * (4 * hidden * hidden).max(2 * hidden * inner);
        for &(precision, bytes) in precisions {
            let measuring = match precision {
                "fp32" => 0,
                _ => half + (2_000 + 2 * 256 * 7) * hidden * 4,
            };
            // The system's allocator may keep freed blocks of up to 32 MiB, and returns larger ones.
            let kept = if 4 * hidden * inner < 32 << 20 {
                64
            } else {
                32
            };
            let allowed = program + weights * bytes * 12 / 10 + measuring + (kept << 20);
            // What it keeps depends on which thread frees first: the least of some runs counts.
            let most = (0..4).map(|_| run(precision)).find(|most| *most <= allowed);
            let most = most.unwrap_or_else(|| run(precision));
            let found = format!(
                "{hidden} x {inner}, {precision}: {} MB of {} MB",
                most / 1_000_000,
                allowed / 1_000_000
            );
            println!("{found}");
            assert!(most <= allowed, "{found}");
        }
    }
}

#[test]
fn a_model_that_does_not_fit_into_memory_is_refused_before_it_is_read() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", TEXTS.join("\n"));
    // Terabytes in every precision.
    wide(&sandbox, 16_384, 65_536, 1_000, true);
    for precision in ["fp32", "int16", "int8"] {
        for more in ["", " --dry-run"] {
            let line = format!(
                "embed texts.txt --provider native --precision {precision} -m model -o out.npy{more}"
            );
            let (code, said, most) = measured(&mut sandbox.command(line.split(' ')));
            assert_eq!(code, Some(1), "{line}: {said}");
            for words in ["the model needs about", "of memory", "a smaller model"] {
                assert!(said.contains(words), "{line}: {said}");
            }
            assert!(most < 1 << 30, "{line}: {most} bytes");
        }
    }
    assert_eq!(sandbox.files(), ["model", "texts.txt"]);
}

/// The limit is the process's own: with it the model fits in fewer bits only, which is what helps.
#[test]
fn a_limit_on_addresses_counts_and_the_precision_that_fits_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", TEXTS.join("\n"));
    // Four gigabytes in single precision.
    wide(&sandbox, 2048, 8192, 20, true);
    let line = "embed texts.txt --provider native --threads 1 -m model -o out.npy";
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 3600000; exec \"$0\" \"$@\""]);
    let mut command = sandbox.command(line.split(' '));
    // Tiles would need half of it.
    command.env("EMBEDCTL_CPU", "portable");
    shell
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(sandbox.path("."))
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = sandbox.finish(&mut shell);
    assert_eq!(run.code, Some(1), "{run}");
    for words in ["ulimit -v", "--precision int16", "the model needs about 4."] {
        assert!(run.stderr.contains(words), "{run}");
    }
}

#[test]
fn a_dry_run_says_how_much_memory_the_model_takes() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", TEXTS.join("\n"));
    let line = |precision: &str| {
        format!(
            "embed texts.txt --provider native --precision {precision} --min-cosine 0.1 --threads 1 -m model -o out.npy \
             --force --dry-run --log-format json"
        )
    };
    wide(&sandbox, 64, 64, 1, false);
    let run = |precision: &str| {
        let line = line(precision).replace(" --dry-run --log-format json", "");
        let (code, said, most) = measured(&mut sandbox.command(line.split_whitespace()));
        assert_eq!(code, Some(0), "{precision}: {said}");
        most
    };
    let program = run("int8");
    let weights = wide(&sandbox, 1024, 4096, 2, false);
    let precisions = [("fp32", 4), ("int16", 2), ("int8", 1)].into_iter();
    for (precision, mut bytes) in precisions.step_by(stride(2)) {
        let line = line(precision);
        let output = sandbox.command(line.split_whitespace()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let memory = found["memory"].as_u64().unwrap();
        // Tiles multiply these weights as they are stored, in bfloat16.
        if precision == "fp32" && found["engine"]["version"].as_str().unwrap().contains("amx") {
            bytes = 2;
        }
        assert!(memory >= weights * bytes, "{precision}: {memory}");
        assert!(found["memory_left"].as_u64() > Some(memory), "{found}");
        let taken = run(precision).saturating_sub(program);
        assert!(
            taken <= memory * 12 / 10 + (32 << 20) && memory <= 2 * taken + (32 << 20),
            "{precision}: {memory} said, {taken} taken"
        );
    }
    let run = sandbox.run("embed texts.txt --provider native -m model -o new.npy --dry-run");
    assert!(run.stdout.contains("for the model, of "), "{run}");
}

/// The fault of the model comes first, and not behind the providers that are not here.
#[test]
fn weights_that_hold_nan_are_named_as_the_cause() {
    let sandbox = Sandbox::new();
    let model = sandbox.path("model");
    copy_folder(&in_repository(REAL_MODEL), &model);
    fs::remove_dir_all(model.join("onnx")).unwrap();
    let file = model.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let tensors = header.as_object().unwrap().iter();
    let (name, tensor) = tensors
        .filter(|(name, _)| name.ends_with("LayerNorm.weight"))
        .min_by_key(|(name, _)| name.len())
        .unwrap();
    let place = start + tensor["data_offsets"][0].as_u64().unwrap() as usize;
    let width = match tensor["dtype"].as_str().unwrap() {
        "F32" => 4,
        _ => 2,
    };
    // All bits are those of a NaN in each type.
    bytes[place..place + width].fill(0xff);
    fs::write(&file, bytes).unwrap();
    sandbox.write("texts.txt", "a cat\n");
    let run = sandbox.finish(
        sandbox
            .command(["embed", "texts.txt", "-m", "model", "-o", "out.npy"])
            .current_dir(sandbox.path("")),
    );
    assert_eq!(run.code, Some(1), "{run}");
    let said = run
        .stderr
        .lines()
        .find(|line| line.starts_with("error"))
        .unwrap();
    assert!(said.contains(name) && said.contains("NaN"), "{run}");
    assert!(!said.contains("provider works here"), "{run}");
}
