//! The library's calls on objects, each against a real server, and the outcomes that must never be.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use embedctl::cancel::CancelToken;
use embedctl::storage::{Address, Content, ObjectFolder, SharedFolder as _, Storage, StoredObject};

use crate::hub::http::{Reply, Request, Server, Step};
use crate::servers::{azurite, google, moto, storage};

fn at(url: &str) -> Address {
    Address::parse(url).unwrap()
}

fn write(storage: &Storage, url: &str, bytes: &[u8], replace: bool) -> embedctl::Result<()> {
    let mut writer = storage.create(&at(url), replace)?;
    writer.write_all(bytes).unwrap();
    writer.finish()
}

fn read(object: &StoredObject) -> Vec<u8> {
    object.read_whole(u64::MAX).unwrap()
}

fn part(object: &StoredObject, from: usize, length: usize) -> Vec<u8> {
    let mut part = vec![0; length];
    object.bytes().read_at(from as u64, &mut part).unwrap();
    part
}

/// Bytes that nothing repeats.
fn content(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect()
}

/// Everything that a store must do, whichever it is; `base` is an empty bucket with a slash.
fn does_everything(storage: &Storage, base: &str) {
    let url = |name: &str| format!("{base}{name}");
    let long = content(40 << 20);
    for (name, bytes) in [
        ("a/empty.txt", &[][..]),
        ("a/short name.txt", b"short"),
        ("a/b/long.bin", &long),
        ("c.txt", b"top"),
    ] {
        write(storage, &url(name), bytes, false).unwrap();
        let object = storage.look(&at(&url(name))).unwrap();
        assert_eq!(object.size(), bytes.len() as u64, "{name}");
        assert!(object.etag().is_some());
        assert!(read(&object) == bytes, "{name}");
    }

    let names = |url: &str| -> Vec<String> {
        let listed = storage.list(&at(url)).unwrap();
        let name = |object: &StoredObject| object.address().key().to_owned();
        listed.iter().map(name).collect()
    };
    assert_eq!(
        names(base),
        ["a/b/long.bin", "a/empty.txt", "a/short name.txt", "c.txt"]
    );
    assert_eq!(
        names(&url("a/")),
        ["a/b/long.bin", "a/empty.txt", "a/short name.txt"]
    );
    assert_eq!(names(&url("a/*.txt")), ["a/empty.txt", "a/short name.txt"]);
    assert_eq!(names(&url("**/*.{bin,txt}")).len(), 4);
    assert_eq!(names(&url("*.txt")), ["c.txt"]);
    for (wrong, said) in [
        ("a/*.csv", "no object fits the pattern"),
        ("nothing/", "no object below it"),
        ("a", "write "),
        ("a/shor", "there is no object "),
    ] {
        let error = storage.list(&at(&url(wrong))).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(said) && text.contains(wrong), "{text}");
        assert_eq!(error.kind(), embedctl::ErrorKind::Usage);
    }

    let object = storage.look(&at(&url("a/b/long.bin"))).unwrap();
    let mut rest = Vec::new();
    let from = (17 << 20) + 3;
    let mut reader = object.bytes().reader_from(from as u64).unwrap();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest == long[from..]);
    for (from, length) in [
        (0, 4),
        (39 << 20, 1 << 20),
        (5, 3 << 20),
        (100, 1),
        (12 << 20, 9 << 20),
    ] {
        let part = part(&object, from, length);
        assert!(part == long[from..from + length], "{from} {length}");
    }
    let part = part(&object, from, long.len() - from);
    assert!(part == long[from..]);

    // An existing object is only replaced if asked to.
    for bytes in [&b"new"[..], &long] {
        let error = write(storage, &url("c.txt"), bytes, false).unwrap_err();
        assert!(error.to_string().contains("pass --force"), "{error}");
    }
    assert_eq!(read(&storage.look(&at(&url("c.txt"))).unwrap()), b"top");
    write(storage, &url("c.txt"), b"new", true).unwrap();
    assert_eq!(read(&storage.look(&at(&url("c.txt"))).unwrap()), b"new");

    // Of several that put a new object, one does.
    let once = |text: &str| storage.put_new(&at(&url("once")), text.into()).unwrap();
    assert!(once("one").is_some());
    assert!(once("two").is_none());
    assert_eq!(read(&storage.look(&at(&url("once"))).unwrap()), b"one");
    storage.put_over(&at(&url("once")), "three".into()).unwrap();
    assert_eq!(read(&storage.look(&at(&url("once"))).unwrap()), b"three");
    assert!(storage.exists(&at(&url("once"))).unwrap());
    storage.remove(&at(&url("once"))).unwrap();
    storage.remove(&at(&url("once"))).unwrap();
    assert!(!storage.exists(&at(&url("once"))).unwrap());

    // An object that appears while another is written stays.
    for length in [10, 20 << 20] {
        let name = format!("race-{length}");
        let mut writer = storage.create(&at(&url(&name)), false).unwrap();
        writer.write_all(&long[..length]).unwrap();
        storage.put_over(&at(&url(&name)), "first".into()).unwrap();
        let error = writer.finish().unwrap_err();
        assert!(error.to_string().contains("the object exists"), "{error}");
        assert_eq!(read(&storage.look(&at(&url(&name))).unwrap()), b"first");
    }

    // A dropped write leaves nothing.
    let mut writer = storage.create(&at(&url("dropped")), false).unwrap();
    writer.write_all(&long).unwrap();
    drop(writer);
    assert!(!storage.exists(&at(&url("dropped"))).unwrap());
}

#[test]
fn s3_by_moto() {
    let Some(store) = moto("s3_by_moto") else {
        return;
    };
    store.bucket("everything");
    does_everything(&store.storage(&CancelToken::new()), "s3://everything/");
    assert_eq!(store.contents("everything").1, 0, "parts were left behind");
}

#[test]
fn google_by_moto_behind_a_front() {
    let Some(store) = google("google_by_moto_behind_a_front") else {
        return;
    };
    store.bucket("everything");
    does_everything(&store.storage(&CancelToken::new()), "gs://everything/");
    assert_eq!(store.contents("everything").1, 0, "parts were left behind");
}

#[test]
fn azure_by_azurite() {
    let Some(store) = azurite("azure_by_azurite") else {
        return;
    };
    let storage = store.storage(&CancelToken::new());
    store.bucket("everything");
    does_everything(&storage, "az://everything/");
}

/// An S3 with one object, which goes wrong.
struct Faulty {
    server: Server,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Faulty {
    /// `answer` gets the number of the request for content, from 0, and the bytes from where it asked on.
    fn start(
        size: usize,
        answer: impl Fn(usize, &Request, Reply) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (log, count) = (Arc::clone(&asked), AtomicUsize::new(0));
        let server = Server::start(None, move |request| {
            log.lock().unwrap().push(request.clone());
            let reply = Reply::ranged(request, &content(size));
            let reply = reply.with("ETag", "\"1\"").with("Last-Modified", TIME);
            if request.method == "HEAD" {
                return reply;
            }
            answer(count.fetch_add(1, Ordering::SeqCst), request, reply)
        });
        Self { server, asked }
    }

    fn storage(&self) -> Storage {
        let url = format!("http://{}", self.server.host());
        let settings = [
            ("aws_endpoint_url", url.as_str()),
            ("aws_access_key_id", "testkey"),
            ("aws_secret_access_key", "5ecretkey5"),
        ];
        storage(settings, &CancelToken::new())
    }

    fn http(&self) -> String {
        format!("http://{}/b/k?signature=5ecret", self.server.host())
    }

    /// From where content was asked for.
    fn ranges(&self) -> Vec<usize> {
        let asked = self.asked.lock().unwrap();
        let content = asked.iter().filter(|request| request.method == "GET");
        content
            .map(|request| request.part(SIZE).map_or(0, |part| part.start))
            .collect()
    }
}

const TIME: &str = "Sat, 21 Nov 2026 12:00:00 GMT";

fn cut(mut reply: Reply, after: usize) -> Reply {
    reply.steps.push((after, Step::Cut));
    reply
}

fn with_etag(mut reply: Reply, etag: &str) -> Reply {
    reply.headers.retain(|(name, _)| name != "ETag");
    reply.with("ETag", etag)
}

const SIZE: usize = 3 << 20;

#[test]
fn what_is_kept_of_an_object_is_not_fetched_again() {
    let store = Faulty::start(SIZE, |_, _, reply| reply);
    let object = store.storage().look(&at("s3://b/k")).unwrap();
    for (from, length) in [(0, 10), (5, 2 << 20), (1 << 20, 100), ((2 << 20) + 5, 7)] {
        let part = part(&object, from, length);
        assert!(part == content(SIZE)[from..from + length], "{from}");
    }
    assert_eq!(store.ranges(), [0, 1 << 20]);
}

#[test]
fn a_cut_connection_is_resumed_where_it_was_cut() {
    for url in ["s3://b/k", "http"] {
        let store = Faulty::start(SIZE, |count, _, reply| match count {
            0 => cut(reply, 1 << 20),
            1 => cut(reply, 7),
            _ => reply,
        });
        let url = if url == "http" {
            store.http()
        } else {
            url.to_owned()
        };
        let object = store.storage().look(&at(&url)).unwrap();
        assert!(read(&object) == content(SIZE), "{url}");
        let ranges = store.ranges();
        assert_eq!(ranges[0], 0);
        assert!(ranges.iter().skip(1).all(|&from| from > 0), "{ranges:?}");
    }
}

#[test]
fn a_server_without_etags_and_ranges_is_read_all_the_same() {
    let store = Faulty::start(SIZE, |count, request, reply| {
        assert!(request.header("if-match").is_none());
        let mut whole = Reply::new(200).body(content(SIZE));
        whole.headers.retain(|(name, _)| name != "ETag");
        drop(reply);
        if count == 0 {
            cut(whole, 1 << 20)
        } else {
            whole
        }
    });
    let mut address = store.http();
    address.push_str("&x=1");
    // `HEAD` tells an etag, and the content comes without: that is no proof of a change only where none was told.
    let error = store
        .storage()
        .look(&at(&address))
        .unwrap()
        .read_whole(u64::MAX);
    assert!(error.is_err());
    // Where none is told at all, only a whole answer can be compared with what was read before a cut.
    let count = AtomicUsize::new(0);
    let silent = Server::start(None, move |request| {
        let reply = Reply::new(200).body(content(SIZE));
        assert_eq!(request.range(), None);
        match request.method.as_str() {
            "GET" if count.fetch_add(1, Ordering::SeqCst) == 0 => cut(reply, 1 << 20),
            _ => reply,
        }
    });
    let url = format!("http://{}/k.txt", silent.host());
    let object = store.storage().look(&at(&url)).unwrap();
    assert_eq!(object.etag(), None);
    assert!(read(&object) == content(SIZE));
}

#[test]
fn an_object_that_changes_is_never_mixed() {
    for at_once in [true, false] {
        let store = Faulty::start(SIZE, move |count, _, reply| match count {
            0 if !at_once => cut(reply, 1 << 20),
            _ => with_etag(reply, "\"2\""),
        });
        for url in ["s3://b/k".to_owned(), store.http()] {
            let object = store.storage().look(&at(&url)).unwrap();
            let error = object.read_whole(u64::MAX).unwrap_err().to_string();
            assert!(error.contains("replaced by another object"), "{error}");
            assert!(!error.contains("5ecret"), "{error}");
        }
        let object = store.storage().look(&at("s3://b/k")).unwrap();
        assert!(object.bytes().read_at(0, &mut [0; 5]).is_err());
    }
}

#[test]
fn an_object_that_vanishes_says_so() {
    let store = Faulty::start(SIZE, |_, _, _| {
        Reply::new(404).body("<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>")
    });
    let object = store.storage().look(&at("s3://b/k")).unwrap();
    let error = object.read_whole(u64::MAX).unwrap_err().to_string();
    assert!(
        error.contains("s3://b/k: there is no such object (any more)"),
        "{error}"
    );
}

#[test]
fn a_server_that_always_cuts_is_given_up() {
    let store = Faulty::start(SIZE, |_, _, reply| cut(reply, 100));
    let object = store.storage().look(&at("s3://b/k")).unwrap();
    let error = object.read_whole(u64::MAX).unwrap_err().to_string();
    assert!(error.starts_with("s3://b/k: "), "{error}");
    assert!(store.ranges().len() < 40, "{:?}", store.ranges());
}

#[test]
fn a_server_that_can_do_nothing_for_now_is_asked_four_times() {
    let store = Faulty::start(SIZE, |_, _, _| Reply::new(503));
    let object = store.storage().look(&at("s3://b/k")).unwrap();
    let error = object.read_whole(u64::MAX).unwrap_err().to_string();
    assert!(error.contains("try again later"), "{error}");
    assert_eq!(store.ranges().len(), 4);
}

#[test]
fn a_cancelled_run_waits_for_nobody() {
    let cancel = CancelToken::new();
    let stop = cancel.clone();
    let silent = Server::start(None, move |request| {
        let reply = Reply::new(200).body(content(SIZE)).with("ETag", "\"1\"");
        let mut reply = reply.with("Last-Modified", TIME);
        if request.method == "GET" {
            let stop = stop.clone();
            reply
                .steps
                .push((1 << 20, Step::Call(Arc::new(move || stop.cancel()))));
            reply.steps.push((1 << 20, Step::Stall));
        }
        reply
    });
    let storage = storage([], &cancel);
    let object = storage
        .look(&at(&format!("http://{}/k", silent.host())))
        .unwrap();
    let error = object.read_whole(u64::MAX).unwrap_err();
    assert!(error.is_interrupted(), "{error}");
    assert!(storage.look(&at("s3://b/k")).unwrap_err().is_interrupted());
}

#[test]
fn a_cancelled_upload_leaves_no_part() {
    let Some(store) = moto("a_cancelled_upload_leaves_no_part") else {
        return;
    };
    store.bucket("cancelled");
    let cancel = CancelToken::new();
    let storage = store.storage(&cancel);
    let mut writer = storage.create(&at("s3://cancelled/k"), false).unwrap();
    writer.write_all(&content(40 << 20)).unwrap();
    assert_eq!(store.contents("cancelled").1, 1);
    cancel.cancel();
    assert!(writer.finish().unwrap_err().is_interrupted());
    assert_eq!(store.contents("cancelled"), (vec![], 0));
}

#[test]
fn nothing_is_written_where_nothing_can_be() {
    let storage = storage([], &CancelToken::new());
    for url in ["https://host/x", "hf://datasets/org/name/x"] {
        let error = storage.create(&at(url), true).unwrap_err().to_string();
        assert!(error.contains("nothing can be written to"), "{error}");
    }
}

/// The store takes what is put, and the run is cancelled before it answers: what it holds then is this run's, unless
/// it is something else.
#[test]
fn what_was_taken_as_the_run_was_cancelled_is_known_again() {
    const PART: &[u8] = b"rows of a part";
    for (held, is_ours) in [(PART, true), (&b"rows of another"[..], false)] {
        let cancel = CancelToken::new();
        let (stop, puts) = (cancel.clone(), AtomicUsize::new(0));
        let store = Server::start(None, move |request| match request.method.as_str() {
            "PUT" if puts.fetch_add(1, Ordering::SeqCst) == 0 => {
                stop.cancel();
                Reply {
                    instead: Some(Step::Stall),
                    ..Reply::default()
                }
            }
            "PUT" => Reply::new(412).body("<Error><Code>PreconditionFailed</Code></Error>"),
            _ => Reply::ranged(request, held)
                .with("ETag", "\"1\"")
                .with("Last-Modified", TIME),
        });
        let url = format!("http://{}", store.host());
        let settings = [
            ("aws_endpoint_url", url.as_str()),
            ("aws_access_key_id", "testkey"),
            ("aws_secret_access_key", "5ecretkey5"),
        ];
        let objects = ObjectFolder::new(storage(settings, &cancel), &at("s3://b/out/"));
        let put = objects.put("part-00001-00000.jsonl", Content::Bytes(PART));
        assert_eq!(put.unwrap(), is_ours);
    }
}
