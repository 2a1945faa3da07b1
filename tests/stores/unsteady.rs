//! Stores that ignore conditions, and connections that are cut after the request was carried out.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use embedctl::cancel::CancelToken;
use embedctl::storage::{Address, Location, Storage};

use crate::servers;

/// How a store misbehaves.
#[derive(Debug, Clone, Copy, Default)]
struct StoreFaults {
    /// Whether it writes over an object that must not be there.
    ignores_conditions: bool,
    /// So many first writes are cut before the answer.
    cuts: usize,
    /// Whether these writes are carried out.
    carries_out: bool,
}

/// A small S3 in memory.
struct Small {
    port: u16,
    objects: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Small {
    fn start(mut faults: StoreFaults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let objects: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let kept = Arc::clone(&objects);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // One request a connection.
                let _ = answer(stream, &kept, &mut faults);
            }
        });
        Self { port, objects }
    }

    fn storage(&self) -> Storage {
        let host = format!("127.0.0.1:{}", self.port);
        servers::storage_at(&host, &CancelToken::new())
    }
}

fn answer(
    stream: TcpStream,
    objects: &Mutex<HashMap<String, Vec<u8>>>,
    faults: &mut StoreFaults,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut head)? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let length = header("content-length:").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut objects = objects.lock().unwrap();
    let (status, content) = match method {
        "put" => {
            if faults.cuts > 0 {
                faults.cuts -= 1;
                if faults.carries_out {
                    objects.insert(path.to_owned(), body);
                }
                return Ok(());
            }
            let is_new = header("if-none-match:").is_some() && !faults.ignores_conditions;
            if is_new && objects.contains_key(path) {
                ("412 Precondition Failed", Vec::new())
            } else {
                objects.insert(path.to_owned(), body);
                ("200 OK", Vec::new())
            }
        }
        // Objects are removed by a list.
        "post" => {
            let list = String::from_utf8_lossy(&body).into_owned();
            let keys = list.split("<Key>").skip(1);
            let keys: Vec<&str> = keys.filter_map(|rest| rest.split('<').next()).collect();
            let removed = keys.iter().map(|key| {
                objects.remove(&format!("/bucket/{key}"));
                format!("<Deleted><Key>{key}</Key></Deleted>")
            });
            let removed: String = removed.collect();
            let answer = format!("<DeleteResult>{removed}</DeleteResult>");
            ("200 OK", answer.into_bytes())
        }
        _ => match objects.get(path) {
            Some(object) => ("200 OK", object.clone()),
            None => ("404 Not Found", Vec::new()),
        },
    };
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nETag: \"e\"\r\nLast-Modified: Tue, 01 Jan 2030 00:00:00 GMT\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    )?;
    if method != "head" {
        stream.write_all(&content)?;
    }
    stream.flush()
}

fn address(text: &str) -> Address {
    match Location::of(text.as_ref()).unwrap() {
        Location::Remote(address) => address,
        Location::Local(_) => unreachable!("an address"),
    }
}

#[test]
fn a_store_that_writes_a_name_twice_is_found_out() {
    let at = address("s3://bucket/_out.embedctl/job.json");
    for ignores_conditions in [false, true] {
        let store = Small::start(StoreFaults {
            ignores_conditions,
            ..StoreFaults::default()
        });
        let storage = store.storage();
        assert!(storage.put_new(&at, b"job".to_vec()).unwrap().is_some());
        let before = store.objects.lock().unwrap().clone();
        let proven = storage.prove_conditional_writes(&at, &at, b"job".to_vec());
        assert_eq!(proven.is_err(), ignores_conditions);
        if let Err(error) = proven {
            assert!(error.to_string().contains("If-None-Match"), "{error}");
        }
        assert_eq!(*store.objects.lock().unwrap(), before);
    }
}

#[test]
fn a_cut_write_is_repeated_and_its_object_is_known_again() {
    let at = address("s3://bucket/out/part");
    for (cuts, carries_out) in [(0, false), (1, true), (1, false), (3, false), (4, false)] {
        let store = Small::start(StoreFaults {
            cuts,
            carries_out,
            ..StoreFaults::default()
        });
        let storage = store.storage();
        let written = storage.put_new(&at, b"content".to_vec());
        if cuts == 4 {
            written.unwrap_err();
            continue;
        }
        assert!(written.unwrap().is_some(), "{cuts} {carries_out}");
        // Later connections are refused.
        assert!(storage.put_new(&at, b"content".to_vec()).unwrap().is_none());
    }
    // Another run's object is not taken for one's own.
    let store = Small::start(StoreFaults {
        cuts: 1,
        ..StoreFaults::default()
    });
    let path = "/bucket/out/part".to_owned();
    store
        .objects
        .lock()
        .unwrap()
        .insert(path, b"another".to_vec());
    assert!(
        store
            .storage()
            .put_new(&at, b"content".to_vec())
            .unwrap()
            .is_none()
    );
}
