//! Stores whose answers have no end.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};

use super::store::Stores;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use embedctl_common::threads::locked;
use embedctl_hub::{HubOptions, HubSettings};
use embedctl_storage::{Address, StorageOption};
use embedctl_testing::assert_no_bug;
use embedctl_testing::mutation::each_content;

/// A store of this machine, which answers the request line `line` by `answer`.
struct HostileStore {
    address: String,
    /// Bytes that were taken from it.
    sent: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

type Answer = fn(&str, u64, &mut dyn Write) -> std::io::Result<()>;

impl HostileStore {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sent, requests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counts = (Arc::clone(&sent), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sent, requests) = counts.clone();
                thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let Some(Ok(line)) = lines.next() else { return };
                    while lines
                        .next()
                        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
                    {
                    }
                    let number = requests.fetch_add(1, Ordering::Relaxed);
                    let mut counted = CountedStream(stream, sent);
                    // It fails once the program has had enough.
                    let _ = answer(&line, number, &mut counted);
                });
            }
        });
        Self {
            address,
            sent,
            requests,
        }
    }

    fn storage(&self) -> Stores {
        let mut settings = HubSettings::from_environment(&HubOptions::default()).unwrap();
        settings.net.pause = Duration::ZERO;
        let options = [
            ("aws_endpoint", self.address.as_str()),
            ("aws_allow_http", "true"),
            ("aws_access_key_id", "id"),
            ("aws_secret_access_key", "key"),
            ("aws_region", "us-east-1"),
        ];
        let options = options.map(|(key, value)| StorageOption {
            key: key.to_owned(),
            value: value.to_owned(),
        });
        Stores::new(settings, options.to_vec(), &CancelToken::new()).unwrap()
    }
}

/// A writer that counts its bytes.
struct CountedStream(TcpStream, Arc<AtomicU64>);

impl Write for CountedStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn endless(status: &str, into: &mut dyn Write) -> std::io::Result<()> {
    write!(
        into,
        "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n<Error><Code>AccessDenied</Code>"
    )?;
    let spaces = vec![b' '; 1 << 16];
    // More than any limit.
    for _ in 0..1 << 16 {
        into.write_all(&spaces)?;
    }
    Ok(())
}

fn page(token: &str, keys: &str, into: &mut dyn Write) -> std::io::Result<()> {
    let body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated>{keys}\
         <NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>"
    );
    write!(
        into,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn refused<T>(result: Result<T>) -> String {
    let error = result.err().expect("this should have failed");
    assert!(!error.to_string().contains("bug"), "{error}");
    error.to_string()
}

#[test]
fn a_refusal_without_end_is_read_to_a_limit() {
    let store = HostileStore::start(|_, _, into| endless("403 Forbidden", into));
    let storage = store.storage();
    let prefix = Address::parse("s3://bucket/folder/").unwrap();
    let one = Address::parse("s3://bucket/one").unwrap();
    for said in [
        refused(storage.list(&prefix)),
        refused(storage.children(&prefix)),
        refused(storage.list(&one)),
        refused(storage.put_new(&one, b"content".to_vec().into())),
        refused(storage.remove(&one)),
    ] {
        assert!(said.contains("access is denied"), "{said}");
    }
    // The system's buffers, for each request.
    let (sent, requests) = (
        store.sent.load(Ordering::Relaxed),
        store.requests.load(Ordering::Relaxed),
    );
    assert!(
        sent < requests * (32 << 20),
        "{sent} bytes, {requests} requests"
    );
}

#[test]
fn a_listing_without_end_is_an_error() {
    let prefix = Address::parse("s3://bucket/folder/").unwrap();
    let answers: [(Answer, &str); 4] = [
        (|_, _, into| endless("200 OK", into), "longer than"),
        (|_, _, into| page("again", "", into), "again and again"),
        (
            |_, number, into| {
                // Two tokens that take turns, with objects.
                let key = "<Contents><Key>folder/a</Key><Size>1</Size>\
                           <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>";
                page(["odd", "even"][usize::from(number % 2 == 0)], key, into)
            },
            "again and again",
        ),
        (
            |_, number, into| page(&format!("token-{number}"), "", into),
            "without a name",
        ),
    ];
    for (answer, expected) in answers {
        let store = HostileStore::start(answer);
        let storage = store.storage();
        for said in [
            refused(storage.list(&prefix)),
            refused(storage.children(&prefix)),
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        let (sent, requests) = (
            store.sent.load(Ordering::Relaxed),
            store.requests.load(Ordering::Relaxed),
        );
        assert!(
            sent < 1 << 30 && requests < 5000,
            "{sent} bytes, {requests} requests"
        );
    }
}

/// A store without connections, which answers every request with the page of a listing that it holds.
#[derive(Debug, Clone, Default)]
struct PageStore(Arc<Mutex<Vec<u8>>>);

impl HttpConnector for PageStore {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for PageStore {
    fn call<'a, 'b>(
        &'a self,
        _: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let page = bytes::Bytes::from(locked(&self.0).clone());
        Box::pin(async move { Ok(HttpResponse::new(page.into())) })
    }
}

#[test]
fn damaged_listings_are_read_or_refused() {
    let page = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>bucket</Name><Prefix>folder/</Prefix>\
        <KeyCount>2</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>folder/a.jsonl</Key><Size>12</Size>\
        <ETag>&quot;0123&quot;</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents><Contents>\
        <Key>folder/b&amp;c</Key><Size>0</Size><LastModified>2026-01-01T00:00:01.000Z</LastModified></Contents>\
        <CommonPrefixes><Prefix>folder/d/</Prefix></CommonPrefixes></ListBucketResult>";
    let store = PageStore::default();
    let bucket = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_skip_signature(true)
        .with_http_connector(store.clone());
    let prefix = Address::parse("s3://bucket/folder/").unwrap();
    let settings = HubSettings::from_environment(&HubOptions::default()).unwrap();
    let storage = Stores::new(settings, Vec::new(), &CancelToken::new()).unwrap();
    storage.add_bucket(&prefix, Arc::new(bucket.build().unwrap()));
    let list = || {
        let listed = storage.list(&prefix).map(|objects| objects.len());
        (listed, storage.children(&prefix))
    };
    *locked(&store.0) = page.to_vec();
    let (objects, children) = list();
    assert_eq!((objects.unwrap(), children.unwrap().len()), (2, 3));
    each_content("listing.xml", page, 100, |damaged| {
        *locked(&store.0) = damaged.to_vec();
        let (objects, children) = list();
        assert_no_bug(objects);
        assert_no_bug(children);
    });
}
