//! An object that is replaced between two requests, by one of the same size: what is read is of one version, or the run
//! fails, whatever the server gives by which versions can be told apart.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use embedctl::cancel::CancelToken;
use embedctl::storage::{Address, StoredObject};
use embedctl_testing::stride;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::hub::http::{Reply, Request, Server, Step};
use crate::sandbox::{Run, Sandbox};
use crate::servers::storage;

/// A server's words on a file's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validators {
    Strong,
    Weak,
    /// A weak ETag that stays, and a time that does not.
    WeakWithTime,
    Time,
    /// The time of the answer, whatever the file is.
    TimeOfNow,
    Nothing,
}

const ALL: [Validators; 6] = [
    Validators::Strong,
    Validators::Weak,
    Validators::WeakWithTime,
    Validators::Time,
    Validators::TimeOfNow,
    Validators::Nothing,
];

impl Validators {
    /// Whether two versions of one size can be told apart.
    fn tell(self) -> bool {
        !matches!(self, Self::TimeOfNow | Self::Nothing)
    }

    fn put(self, reply: Reply, version: usize, answer: usize) -> Reply {
        let time =
            |minute: usize| format!("Sat, 21 Nov 2026 12:{:02}:{:02} GMT", minute, answer % 60);
        let reply = reply.with("Date", time(30));
        let modified = format!("Sat, 21 Nov 2026 12:00:0{version} GMT");
        match self {
            Self::Strong => reply.with("ETag", format!("\"{version}\"")),
            Self::Weak => reply.with("ETag", format!("W/\"{version}\"")),
            Self::WeakWithTime => reply
                .with("ETag", "W/\"x\"")
                .with("Last-Modified", modified),
            Self::Time => reply.with("Last-Modified", modified),
            Self::TimeOfNow => reply.with("Last-Modified", time(30)),
            Self::Nothing => reply,
        }
    }
}

/// A web server whose file is the first version for so many answers with content, then the second.
fn server(
    validators: Validators,
    versions: [Vec<u8>; 2],
    first_for: usize,
    spoil: impl Fn(usize, &Request, Reply) -> Reply + Send + Sync + 'static,
) -> Server {
    let (answers, contents) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let versions = Arc::new(versions);
    Server::start(None, move |request| {
        let is_content = request.method == "GET";
        let count = contents.fetch_add(usize::from(is_content), Ordering::SeqCst);
        let version = usize::from(count >= first_for);
        let reply = Reply::ranged(request, &versions[version]);
        let answer = answers.fetch_add(1, Ordering::SeqCst);
        let reply = validators.put(reply, version, answer);
        match is_content {
            true => spoil(count, request, reply),
            false => reply,
        }
    })
}

fn cut(mut reply: Reply, after: usize) -> Reply {
    reply.steps.push((after, Step::Cut));
    reply
}

/// Tests all cases at once: most of each is a pause before another try.
fn at_once<T: Send>(cases: impl Iterator<Item = T>, test: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| test(case));
        }
    });
}

fn look(server: &Server) -> StoredObject {
    let url = format!("http://{}/k.bin", server.host());
    storage([], &CancelToken::new())
        .look(&Address::parse(&url).unwrap())
        .unwrap()
}

const SIZE: usize = 5 << 20;

fn versions() -> [Vec<u8>; 2] {
    [0, 1].map(|version| {
        (0..SIZE)
            .map(|at| (at % 251) as u8 ^ (version * 255))
            .collect()
    })
}

/// Parts of it in a wild order, put together.
fn in_parts(object: &StoredObject) -> embedctl::Result<Vec<u8>> {
    const PART: usize = 64 << 10;
    let mut whole = vec![0; SIZE];
    for number in 0..SIZE / PART {
        let at = (number * 37 % (SIZE / PART)) * PART;
        (object.bytes().read_at(at as u64, &mut whole[at..at + PART])).map_err(own)?;
    }
    Ok(whole)
}

/// Two readers that begin in the middle.
fn in_halves(object: &StoredObject) -> embedctl::Result<Vec<u8>> {
    let mut whole = Vec::new();
    let half = SIZE as u64 / 2;
    let mut read = |from| {
        let mut rest = object.bytes().reader_from(from)?.take(half);
        rest.read_to_end(&mut whole)
    };
    read(0).and_then(|_| read(half)).map_err(own)?;
    Ok(whole)
}

/// The library's error behind one of reading.
fn own(error: io::Error) -> embedctl::Error {
    error.downcast().unwrap()
}

#[test]
fn an_object_without_changes_is_read_in_any_order_over_cut_connections() {
    let [first, _] = versions();
    for validators in ALL {
        let server = server(
            validators,
            versions(),
            usize::MAX,
            |count, _, reply| match count % 3 {
                1 => cut(reply, 3 << 20),
                _ => reply,
            },
        );
        let object = look(&server);
        assert!(
            object.read_whole(u64::MAX).unwrap() == first,
            "{validators:?}"
        );
        assert!(in_parts(&object).unwrap() == first, "{validators:?}");
        assert!(in_halves(&object).unwrap() == first, "{validators:?}");
    }
}

#[test]
fn two_versions_of_an_object_are_never_mixed_whatever_the_server_tells() {
    let versions_of = versions();
    at_once(
        ALL.into_iter()
            .flat_map(|it| (0..4).map(move |first_for| (it, first_for))),
        |(validators, first_for)| {
            let spoil = |count, _: &Request, reply| match count {
                0 => cut(reply, 2 << 20),
                _ => reply,
            };
            let whole = |read: fn(&StoredObject) -> embedctl::Result<Vec<u8>>| {
                let server = server(validators, versions(), first_for, spoil);
                let case = format!("{validators:?}, {first_for}");
                match read(&look(&server)) {
                    Ok(bytes) => assert!(versions_of.contains(&bytes), "{case}: mixed"),
                    Err(error) => {
                        let said = error.to_string();
                        assert!(
                            said.contains("replaced by another object"),
                            "{case}: {said}"
                        );
                    }
                }
            };
            whole(|object| object.read_whole(u64::MAX));
            whole(in_parts);
            // Without validators, two readers are two requests. Each is whole.
            if validators.tell() {
                whole(in_halves);
            }
        },
    );
}

const ROWS: usize = 300;

/// Rows of one version, each long.
fn texts(version: &str) -> Vec<String> {
    let padding = "word ".repeat(3000);
    (0..ROWS)
        .map(|row| format!("{version} {row:05} {padding}"))
        .collect()
}

fn jsonl(version: &str) -> Vec<u8> {
    let line = |text: &String| format!("{{\"text\": \"{text}\"}}\n");
    texts(version)
        .iter()
        .map(line)
        .collect::<String>()
        .into_bytes()
}

/// Stored, so that both versions have one size.
fn gz(version: &str) -> Vec<u8> {
    let mut file = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    file.write_all(&jsonl(version)).unwrap();
    file.finish().unwrap()
}

fn parquet(version: &str) -> Vec<u8> {
    let texts = texts(version);
    let column: ArrayRef = Arc::new(StringArray::from(texts));
    let table = RecordBatch::try_from_iter([("text", column)]).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(30))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.into_inner().unwrap()
}

/// The file of a version.
type Content = fn(&str) -> Vec<u8>;

/// A run over the server's file, whose rows are of one version; or which fails, and leaves nothing.
fn run(server: &Server, name: &str, sandbox: &Sandbox, options: &str) -> Run {
    let url = format!("http://{}/{name}", server.host());
    sandbox.embed(&format!("{url} --keep text --max-length 8 {options}"))
}

/// The first words of all rows of the files here.
fn rows(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let files = std::fs::read_dir(sandbox.path(folder))
        .into_iter()
        .flatten();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            found.push(row["text"].as_str().unwrap()[..9].to_owned());
        }
    }
    found
}

fn is_one_version(rows: &[String]) -> bool {
    let whole = |version: &str| (0..ROWS).map(|row| format!("{version} {row:05}")).collect();
    [whole("old"), whole("new")].contains(&rows.to_vec())
}

#[test]
fn a_run_embeds_rows_of_one_version() {
    let formats: [(&str, Content); 3] = [
        ("in.parquet", parquet),
        ("in.jsonl", jsonl),
        ("in.jsonl.gz", gz),
    ];
    for (number, (name, content)) in formats.into_iter().enumerate() {
        let versions = ["old", "new"].map(content);
        assert_eq!(versions[0].len(), versions[1].len(), "{name}");
        let cases = ALL
            .into_iter()
            .flat_map(|it| [1, 3].map(|first_for| (it, first_for)));
        let stride = stride(3);
        at_once(
            cases.skip(number % stride).step_by(stride),
            |(validators, first_for)| {
                let server = server(
                    validators,
                    versions.clone(),
                    first_for,
                    |count, _, reply| match count {
                        0 => cut(reply, 1 << 20),
                        _ => reply,
                    },
                );
                let sandbox = Sandbox::new();
                let run = run(&server, name, &sandbox, "-o out.jsonl");
                let case = format!("{name}, {validators:?}, {first_for}: {run}");
                match run.code {
                    Some(0) => assert!(is_one_version(&rows(&sandbox, "")), "{case}"),
                    code => {
                        assert_eq!(code, Some(1), "{case}");
                        assert!(run.stderr.contains("replaced by another object"), "{case}");
                        assert_eq!(sandbox.files(), Vec::<String>::new(), "{case}");
                    }
                }
            },
        );
    }
}

#[test]
fn a_run_that_goes_on_takes_no_rows_of_another_version() {
    for validators in ALL {
        // The first run reads the first version until the server has nothing more of it.
        let versions = ["old", "new"].map(jsonl);
        let half = versions[0].len() / 2;
        let server = server(
            validators,
            versions,
            2,
            move |count, _, reply| match count {
                0 => cut(reply, half),
                1 => Reply::new(404),
                _ => reply,
            },
        );
        let sandbox = Sandbox::new();
        let options = "-o out/ -f jsonl --part-rows 40 --window 20";
        let first = run(&server, "in.jsonl", &sandbox, options);
        assert_eq!(first.code, Some(1), "{first}");
        let before = rows(&sandbox, "out");
        assert!(
            !before.is_empty() && before.iter().all(|row| row.starts_with("old")),
            "{first}"
        );
        let second = run(
            &server,
            "in.jsonl",
            &sandbox,
            &format!("{options} --resume"),
        );
        assert_ne!(second.code, Some(0), "{validators:?}: {second}");
        assert_eq!(rows(&sandbox, "out"), before, "{validators:?}: {second}");
    }
}

#[test]
fn a_shard_reads_one_version() {
    for validators in ALL {
        for first_for in 0..3 {
            let versions = ["old", "new"].map(jsonl);
            let server = server(validators, versions, first_for, |_, _, reply| reply);
            let sandbox = Sandbox::new();
            let options = "-o out/ -f jsonl --shard 2/2";
            let run = run(&server, "in.jsonl", &sandbox, options);
            let rows = rows(&sandbox, "out");
            let is_one = ["old", "new"]
                .iter()
                .any(|version| rows.iter().all(|row| row.starts_with(version)));
            assert!(is_one, "{validators:?}, {first_for}: {run}");
        }
    }
}
