//! Servers of object stores, each in a process of its own that ends with the test's.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use embedctl::cancel::CancelToken;
use embedctl::hub::{HubOptions, HubSettings};
use embedctl::storage::{Storage, StorageOption};
use embedctl_testing::stride;

use crate::support::{python, skip};

/// An external server. It ends when its standard input does.
pub struct Server {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// Settings by which it is reached, as the environment has them.
    pub settings: Vec<(&'static str, String)>,
    python: Option<PathBuf>,
    boto: Mutex<Option<Boto>>,
    is_azure: bool,
    _stdin: ChildStdin,
    _child: Child,
}

/// A Python with boto3's clients, which are costly to begin: it runs one script after another, and ends when its standard
/// input does.
struct Boto {
    scripts: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

/// A script in a line of JSON; the answer has what it prints, and the error that it ends with.
const BOTO: &str = "
import boto3, contextlib, io, json, sys, traceback
kept = {'boto3': boto3, 's3': boto3.client('s3'), 'iam': boto3.client('iam')}
for line in sys.stdin:
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(json.loads(line), dict(kept))
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), flush=True)
";

/// A server for all tests: the first that asks starts it, and each is told where there is none.
type Shared = Mutex<Option<&'static Server>>;

fn shared(shared: &Shared, start: impl FnOnce() -> Option<Server>) -> Option<&'static Server> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.is_none() {
        *shared = start().map(|server| &*Box::leak(Box::new(server)));
    }
    *shared
}

/// S3 by moto, which everybody may do anything with; one for all tests. `None` where there is none.
pub fn moto(test: &str) -> Option<&'static Server> {
    static MOTO: Shared = Mutex::new(None);
    shared(&MOTO, || Server::moto(test, &[]))
}

/// Azure Blob Storage by azurite, of Azure's own; one for all tests. `None` where there is none.
pub fn azurite(test: &str) -> Option<&'static Server> {
    static AZURITE: Shared = Mutex::new(None);
    shared(&AZURITE, || Server::azurite(test))
}

/// Google Cloud Storage: moto behind the front of `google.py`; one for all tests. `None` where there is none.
pub fn google(test: &str) -> Option<&'static Server> {
    static GOOGLE: Shared = Mutex::new(None);
    shared(&GOOGLE, || Server::google(test, &[]))
}

const MOTO: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print('port', server.get_host_and_port()[1], flush=True)
sys.stdin.read()
";

/// The account that every azurite has.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

impl Server {
    /// S3, with variables for the server.
    pub fn moto(test: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let python = moto_python(test)?;
        let mut command = Command::new(&python);
        command.args(["-c", MOTO]).envs(variables.iter().copied());
        let mut server = Self::start(command, |line| line.strip_prefix("port ")?.parse().ok());
        server.settings = vec![
            ("AWS_ENDPOINT_URL", server.url.clone()),
            ("AWS_ACCESS_KEY_ID", "testkey".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "5ecretkey5".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ];
        server.python = Some(python);
        Some(server)
    }

    /// Google Cloud Storage, with variables for the server.
    pub fn google(test: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let python = moto_python(test)?;
        let mut command = Command::new(&python);
        let front = crate::sandbox::in_repository("tests/stores/google.py");
        command.arg(front).envs(variables.iter().copied());
        let mut key = String::new();
        let mut server = Self::start(command, |line| {
            let said: serde_json::Value = serde_json::from_str(line).ok()?;
            said["key"].as_str()?.clone_into(&mut key);
            u16::try_from(said["port"].as_u64()?).ok()
        });
        let account = serde_json::json!({
            "client_email": "tests@example", "private_key_id": "1", "private_key": key,
        });
        server.settings = vec![
            ("GOOGLE_BASE_URL", server.url.clone()),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", account.to_string()),
        ];
        server.python = Some(python);
        Some(server)
    }

    fn azurite(test: &str) -> Option<Self> {
        let named = std::env::var_os("EMBEDCTL_TEST_AZURITE").map(PathBuf::from);
        let program = named.or_else(|| on_path("azurite-blob"));
        let Some(program) = program else {
            return skip(test, "stores", "azurite-blob");
        };
        // It does not look at its standard input; the shell does.
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "\"$@\" & server=$!; cat > /dev/null; kill $server",
                "sh",
            ])
            .arg(program)
            .args([
                "--inMemoryPersistence",
                "--blobHost",
                "127.0.0.1",
                "--blobPort",
                "0",
            ])
            .args(["--skipApiVersionCheck", "--disableTelemetry", "--silent"]);
        let mut server = Self::start(command, |line| {
            line.contains("listens on").then_some(())?;
            line.rsplit_once(':')?.1.parse().ok()
        });
        server.settings = vec![
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY.to_owned()),
            (
                "AZURE_STORAGE_ENDPOINT",
                format!("{}/{ACCOUNT}", server.url),
            ),
        ];
        server.is_azure = true;
        Some(server)
    }

    fn start(mut command: Command, mut port: impl FnMut(&str) -> Option<u16>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| port(&line.unwrap()))
            .expect("the server says its port");
        // Else what it says next would end it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            url: format!("http://127.0.0.1:{port}"),
            settings: Vec::new(),
            python: None,
            boto: Mutex::new(None),
            is_azure: false,
            _stdin: child.stdin.take().unwrap(),
            _child: child,
        }
    }

    /// The stores as the library opens them.
    pub fn storage(&self, cancel: &CancelToken) -> Storage {
        storage(
            self.settings
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
            cancel,
        )
    }

    /// Runs a script with boto3's client `s3`, and returns what it prints.
    pub fn boto(&self, script: &str) -> String {
        let mut boto = self.boto.lock().unwrap_or_else(PoisonError::into_inner);
        let boto = boto.get_or_insert_with(|| self.start_boto());
        let line = serde_json::Value::from(script).to_string();
        writeln!(boto.scripts, "{line}").unwrap();
        let answer = boto.answers.next().expect("an answer of boto3").unwrap();
        let (printed, error): (String, Option<String>) = serde_json::from_str(&answer).unwrap();
        assert_eq!(error, None, "{}", error.as_deref().unwrap_or_default());
        printed.trim().to_owned()
    }

    fn start_boto(&self) -> Boto {
        let mut child = Command::new(self.python.as_ref().unwrap())
            .args(["-c", BOTO])
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_ACCESS_KEY_ID", "testkey")
            .env("AWS_SECRET_ACCESS_KEY", "5ecretkey5")
            .envs(self.settings.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Boto {
            scripts: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// A bucket of that name; of Azure a container.
    pub fn bucket(&self, name: &str) {
        if self.is_azure {
            self.azure(name, "make", &[]);
        } else {
            self.boto(&format!("s3.create_bucket(Bucket='{name}')"));
        }
    }

    /// Names of a bucket's objects, and how many uploads were begun there and neither completed nor aborted.
    pub fn contents(&self, bucket: &str) -> (Vec<String>, usize) {
        let said = match self.is_azure {
            true => self.azure(bucket, "list", &[]),
            false => self.boto(&format!(
                "print(*[o['Key'] for o in s3.list_objects_v2(Bucket='{bucket}').get('Contents', [])], sep='\\n')\n\
                 print(len(s3.list_multipart_uploads(Bucket='{bucket}').get('Uploads', [])))"
            )),
        };
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        let uploads = lines.pop().unwrap().parse().unwrap();
        lines.retain(|line| !line.is_empty());
        (lines, uploads)
    }

    /// Puts a file's content into the bucket.
    pub fn upload(&self, bucket: &str, name: &str, file: &Path) {
        let file = file.display().to_string();
        if self.is_azure {
            self.azure(bucket, "put", &[name, &file]);
        } else {
            self.boto(&format!("s3.upload_file(r'{file}', '{bucket}', '{name}')"));
        }
    }

    /// Puts an object's content into a file.
    pub fn download(&self, bucket: &str, name: &str, file: &Path) {
        let file = file.display().to_string();
        if self.is_azure {
            self.azure(bucket, "get", &[name, &file]);
        } else {
            self.boto(&format!(
                "s3.download_file('{bucket}', '{name}', r'{file}')"
            ));
        }
    }

    /// Removes the objects whose names hold any of `words`.
    pub fn remove(&self, bucket: &str, words: &[&str]) {
        let (mut names, _) = self.contents(bucket);
        names.retain(|name| words.iter().any(|word| name.contains(word)));
        if self.is_azure {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            self.azure(bucket, "remove", &names);
        } else {
            self.boto(&format!(
                "for key in {names:?}: s3.delete_object(Bucket='{bucket}', Key=key)"
            ));
        }
    }

    /// Does something with a container, and returns what that prints.
    fn azure(&self, container: &str, act: &str, rest: &[&str]) -> String {
        let python = python("azure", &[]).expect("a Python");
        let script = crate::sandbox::in_repository("tests/stores/azure.py");
        let output = Command::new(python)
            .arg(script)
            .args([&self.url, ACCOUNT, ACCOUNT_KEY, container, act])
            .args(rest)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// Every store that there is, with the scheme of its addresses.
pub fn every_store(test: &str) -> Vec<(&'static Server, &'static str)> {
    let stores = [
        (moto(test), "s3"),
        (google(test), "gs"),
        (azurite(test), "az"),
    ];
    let there = stores.into_iter();
    let there = there.filter_map(|(store, scheme)| Some((store?, scheme)));
    let there: Vec<_> = there.collect();
    // Outside of CI one store for each test, another one for the next.
    let stride = stride(there.len().max(1));
    there
        .into_iter()
        .skip(test.len() % stride)
        .step_by(stride)
        .collect()
}

/// Stores with settings of the test's alone.
pub fn storage<'a>(
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    cancel: &CancelToken,
) -> Storage {
    storage_with(
        HubSettings::from_environment(&HubOptions::default()).unwrap(),
        settings,
        cancel,
    )
}

/// The same with settings of the Hub.
pub fn storage_with<'a>(
    mut hub: HubSettings,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    cancel: &CancelToken,
) -> Storage {
    hub.net.pause = std::time::Duration::from_millis(1);
    let option = |(key, value): (&str, &str)| StorageOption {
        key: key.to_ascii_lowercase(),
        value: value.to_owned(),
    };
    let options = settings.into_iter().map(option).collect();
    embedctl::storage::open(hub, options, cancel).unwrap()
}

/// Of a test's own server at `host`, which speaks S3's protocol.
pub fn storage_at(host: &str, cancel: &CancelToken) -> Storage {
    let endpoint = format!("http://{host}");
    let settings = [
        ("aws_endpoint", endpoint.as_str()),
        ("aws_allow_http", "true"),
        ("aws_region", "us-east-1"),
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
    ];
    storage(settings, cancel)
}

/// A Python with moto; `None` where the test is to be skipped.
fn moto_python(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("EMBEDCTL_TEST_MOTO").map(PathBuf::from);
    let found = named.or_else(|| python_with_moto(test));
    found.or_else(|| skip(test, "stores", "a Python with moto[server]"))
}

fn python_with_moto(test: &str) -> Option<PathBuf> {
    // Skipping is said once, with the name of what is missing.
    static LOOKING: Mutex<()> = Mutex::new(());
    let _one: MutexGuard<'_, ()> = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    python(test, &["moto", "flask", "boto3"])
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| Path::is_file(file))
}
