//! A Hub on this machine: the API, and a storage on another port to which files of some size are redirected.
//!
//! The storage fails the test if it ever sees a credential. Everything that is asked of either is written
//! down, and any answer can be made to go wrong ([`Fault`]).

#![allow(dead_code)] // Each test file uses some of it.

mod certificate;
mod fault;
pub mod http;
pub mod proxy;
mod repository;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

pub use certificate::certified;
use fault::Rule;
pub use fault::{At, Fault};
pub use http::Request;
use http::{Reply, Server};
pub use repository::{Files, etag, git_blob, is_lfs, sha256};

/// The secret that makes an address of the storage valid; no message may show it.
pub const SIGNATURE: &str = "5ecre7s1gna7ure";

/// The Hub and its storage, until it is dropped.
pub struct Hub {
    main: Server,
    storage: Server,
    state: Arc<State>,
    scheme: &'static str,
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    Hub,
    Storage,
}

/// A request and its addressee.
#[derive(Debug, Clone)]
pub struct Asked {
    pub host: Host,
    /// The file's path inside its repository; none for the API.
    pub file: Option<String>,
    pub request: Request,
}

/// How this Hub differs from the real one.
#[derive(Debug, Default, Clone)]
pub struct Nature {
    /// The list of files holds their names alone.
    pub names_only: bool,
    /// No answer tells a file's hash.
    pub no_hashes: bool,
    /// Tokens that are known; any other is refused. Empty: any is.
    pub tokens: BTreeSet<String>,
    /// Repositories that only these tokens may read, though everybody sees them.
    pub gated: BTreeMap<String, String>,
    /// Repositories that only these tokens may see.
    pub private: BTreeMap<String, String>,
    /// Repositories that have another name now.
    pub renamed: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    repositories: Mutex<BTreeMap<String, Repository>>,
    nature: Mutex<Nature>,
    rules: Mutex<Vec<Rule>>,
    asked: Mutex<Vec<Asked>>,
    /// Where the storage is reached.
    storage: Mutex<String>,
}

#[derive(Default)]
struct Repository {
    commits: BTreeMap<String, Files>,
    /// Branches and tags.
    names: BTreeMap<String, String>,
}

impl Hub {
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// A Hub behind TLS; its storage is, too.
    pub fn start_encrypted(config: Arc<rustls::ServerConfig>) -> Self {
        Self::start_with(Some(config))
    }

    fn start_with(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::new(State::default());
        let server = |answer: fn(&State, &Request) -> Reply| {
            let state = Arc::clone(&state);
            Server::start(tls.clone(), move |request| answer(&state, request))
        };
        let storage = server(State::storage);
        let main = server(State::hub);
        *state.storage.lock().unwrap() = format!("{scheme}://{}", storage.host());
        Self {
            main,
            storage,
            state,
            scheme,
        }
    }

    /// The value of `HF_ENDPOINT`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.main.host())
    }

    /// Host and port of the Hub and of its storage.
    pub fn hosts(&self) -> [String; 2] {
        [self.main.host(), self.storage.host()]
    }

    /// Makes files the newest of a repository; returns the commit.
    pub fn publish(&self, id: &str, files: Files) -> String {
        let commit = files.commit();
        let mut repositories = self.state.repositories.lock().unwrap();
        let repository = repositories.entry(id.to_owned()).or_default();
        repository.names.insert("main".to_owned(), commit.clone());
        repository.commits.insert(commit.clone(), files);
        commit
    }

    /// Breaks the Hub's word: a commit holds other files from now on.
    pub fn replace(&self, id: &str, commit: &str, files: Files) {
        let mut repositories = self.state.repositories.lock().unwrap();
        let commits = &mut repositories.get_mut(id).unwrap().commits;
        commits.insert(commit.to_owned(), files);
    }

    /// Gives a commit a name.
    pub fn tag(&self, id: &str, name: &str, commit: &str) {
        let mut repositories = self.state.repositories.lock().unwrap();
        let names = &mut repositories.get_mut(id).unwrap().names;
        names.insert(name.to_owned(), commit.to_owned());
    }

    /// This Hub's behaviour, to be changed.
    pub fn nature(&self) -> MutexGuard<'_, Nature> {
        self.state.nature.lock().unwrap()
    }

    /// Spoils the next answer.
    pub fn spoil(&self, at: At, fault: Fault) {
        self.spoil_some(at, 0, 1, fault);
    }

    /// Spoils all answers from now on.
    pub fn spoil_all(&self, at: At, fault: Fault) {
        self.spoil_some(at, 0, usize::MAX, fault);
    }

    /// Spoils `times` answers after `skip` good ones.
    pub fn spoil_some(&self, at: At, skip: usize, times: usize, fault: Fault) {
        let rule = Rule {
            at,
            skip,
            times,
            fault,
        };
        self.state.rules.lock().unwrap().push(rule);
    }

    /// From now on, everything goes right again.
    pub fn mend(&self) {
        self.state.rules.lock().unwrap().clear();
    }

    /// Everything that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// The same, and forgets it.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.asked.lock().unwrap())
    }

    /// The requests for the content of a file, by the first byte that each asked for: those that reached
    /// the storage, or the Hub's for what the Hub serves itself.
    pub fn ranges(&self, file: &str) -> Vec<Option<usize>> {
        let asked = self.asked();
        let of = |host: Host| -> Vec<Option<usize>> {
            asked
                .iter()
                .filter(|asked| asked.host == host && asked.file.as_deref() == Some(file))
                .filter(|asked| asked.request.method == "GET")
                .map(|asked| asked.request.range())
                .collect()
        };
        let by_storage = of(Host::Storage);
        if by_storage.is_empty() {
            of(Host::Hub)
        } else {
            by_storage
        }
    }

    /// The files whose content was asked for, sorted.
    pub fn fetched(&self) -> Vec<String> {
        let files: BTreeSet<String> = (self.asked().into_iter())
            .filter(|asked| asked.request.method == "GET")
            .filter_map(|asked| asked.file)
            .collect();
        files.into_iter().collect()
    }

    /// Nobody answers any more.
    pub fn stop(&mut self) {
        self.main.stop();
        self.storage.stop();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop();
        if !std::thread::panicking() {
            let leak = |asked: &Asked| {
                asked.host == Host::Storage && asked.request.header("authorization").is_some()
            };
            assert!(
                !self.asked().iter().any(leak),
                "a token was sent to the storage"
            );
        }
    }
}

impl Asked {
    pub fn authorization(&self) -> Option<&str> {
        self.request.header("authorization")
    }
}

impl State {
    fn log(&self, host: Host, file: Option<&str>, request: &Request) {
        self.asked.lock().unwrap().push(Asked {
            host,
            file: file.map(str::to_owned),
            request: request.clone(),
        });
    }

    /// Applies the rules for a place to an answer.
    fn spoiled(&self, at: &At, request: &Request, make: impl Fn(&Request) -> Reply) -> Reply {
        let mut rules = self.rules.lock().unwrap();
        let applying = rules.iter_mut().filter_map(|rule| {
            let applies = rule.applies(at);
            applies.then(|| rule.fault.clone())
        });
        let faults: Vec<Fault> = applying.collect();
        drop(rules);
        let whole = faults.iter().any(Fault::ignores_range);
        let wanted = if whole {
            request.without_range()
        } else {
            request.clone()
        };
        let mut reply = make(&wanted);
        for fault in faults {
            fault.spoil(request, &mut reply);
        }
        reply
    }

    /// The storage's answer.
    fn storage(&self, request: &Request) -> Reply {
        let file = request.parameter("file").map(|file| unescaped(&file));
        self.log(Host::Storage, file.as_deref(), request);
        // As the real one: an address is signed for one method.
        if request.method != "GET" || request.parameter("signature").as_deref() != Some(SIGNATURE) {
            return Reply::new(403);
        }
        let repositories = self.repositories.lock().unwrap();
        let hash = request.path.trim_start_matches('/');
        let content = repositories
            .values()
            .flat_map(|repository| repository.commits.values())
            .flat_map(|files| files.0.values())
            .find(|content| sha256(content) == hash)
            .cloned();
        drop(repositories);
        let Some(content) = content else {
            return Reply::new(404);
        };
        self.spoiled(&At::Content(file.unwrap_or_default()), request, |request| {
            // Its own etag, which is no hash of the content.
            Reply::ranged(request, &content).with("ETag", "\"d41d8cd98f00b204e9800998ecf8427e\"")
        })
    }

    /// The Hub's answer.
    fn hub(&self, request: &Request) -> Reply {
        let nature = self.nature.lock().unwrap().clone();
        let path = unescaped(&request.path);
        let (api, rest) = match path.strip_prefix("/api/") {
            // Of a dataset the name begins with `datasets/`, as in its addresses.
            Some(rest) => (true, rest.trim_start_matches("models/").to_owned()),
            None => (false, path.trim_start_matches('/').to_owned()),
        };
        let (id, rest) = split(&rest, if api { &API } else { &["resolve"] });
        let file = (rest.0 == "resolve").then(|| {
            rest.1
                .split_once('/')
                .map_or("", |(_, file)| file)
                .to_owned()
        });
        self.log(Host::Hub, file.as_deref(), request);
        if let Some(new) = nature.renamed.get(&id) {
            let moved = request.path.replacen(&id, new, 1);
            let query = if request.query.is_empty() { "" } else { "?" };
            return Reply::new(307).with("Location", format!("{moved}{query}{}", request.query));
        }
        if let Some(refusal) = refused(&nature, &id, request, api) {
            return refusal;
        }
        let repositories = self.repositories.lock().unwrap();
        let Some(repository) = repositories.get(&id) else {
            // Who is signed in is told that there is nothing.
            let status = if request.header("authorization").is_some() {
                404
            } else {
                401
            };
            return coded(status, "RepoNotFound", "Repository not found");
        };
        let revision = if api {
            rest.1.clone()
        } else {
            rest.1.split_once('/').map_or("", |(one, _)| one).to_owned()
        };
        let revision = if revision.is_empty() {
            "main"
        } else {
            &revision
        };
        let commit = repository
            .names
            .get(revision)
            .map_or(revision, String::as_str);
        let Some(files) = repository.commits.get(commit) else {
            let message = format!("Invalid rev id: {revision}");
            return coded(404, "RevisionNotFound", &message);
        };
        let (commit, files) = (commit.to_owned(), files.clone());
        drop(repositories);
        let Some(file) = file else {
            return self.spoiled(&At::Api, request, |request| {
                let blobs = request.parameter("blobs").is_some() && !nature.names_only;
                let answer = match rest.0.as_str() {
                    "tree" => tree(&files),
                    _ => description(&id, &commit, &files, blobs),
                };
                Reply::new(200)
                    .with("Content-Type", "application/json")
                    .body(answer.to_string())
            });
        };
        let Some(content) = files.0.get(&file) else {
            return coded(404, "EntryNotFound", "Entry not found").with("X-Repo-Commit", &commit);
        };
        let storage = self.storage.lock().unwrap().clone();
        let reply =
            |request: &Request| resolved(request, &file, content, &commit, &storage, &nature);
        let told = At::Hub(file.clone());
        if is_lfs(&file, content) || request.method == "HEAD" {
            return self.spoiled(&told, request, reply);
        }
        let at = At::Content(file.clone());
        self.spoiled(&told, request, |request| self.spoiled(&at, request, reply))
    }
}

/// The rest of the API's addresses after a repository's name.
const API: [&str; 2] = ["revision", "tree"];

/// Splits `org/name/WORD/rest` at the word.
fn split(path: &str, words: &[&str]) -> (String, (String, String)) {
    for word in words {
        if let Some((id, rest)) = path.split_once(&format!("/{word}/")) {
            return (id.to_owned(), ((*word).to_owned(), rest.to_owned()));
        }
    }
    (path.to_owned(), (String::new(), String::new()))
}

/// Who may not.
fn refused(nature: &Nature, id: &str, request: &Request, api: bool) -> Option<Reply> {
    let token = request
        .header("authorization")
        .map(|value| value.trim_start_matches("Bearer "));
    if let Some(token) = token
        && !nature.tokens.is_empty()
        && !nature.tokens.contains(token)
    {
        return Some(Reply::new(401).with(
            "X-Error-Message",
            "Invalid credentials in Authorization header",
        ));
    }
    let status = if token.is_some() { 404 } else { 401 };
    if (nature.private.get(id)).is_some_and(|wanted| token != Some(wanted)) {
        return Some(coded(status, "RepoNotFound", "Repository not found"));
    }
    let status = if token.is_some() { 403 } else { 401 };
    let is_closed = nature
        .gated
        .get(id)
        .is_some_and(|wanted| token != Some(wanted));
    (is_closed && !api).then(|| {
        let message = format!("Access to model {id} is restricted.");
        coded(status, "GatedRepo", &message)
    })
}

fn coded(status: u16, code: &str, message: &str) -> Reply {
    Reply::new(status)
        .with("X-Error-Code", code)
        .with("X-Error-Message", message)
}

fn resolved(
    request: &Request,
    file: &str,
    content: &[u8],
    commit: &str,
    storage: &str,
    nature: &Nature,
) -> Reply {
    let etag = format!("\"{}\"", etag(file, content));
    let told = |reply: Reply| {
        let reply = reply.with("X-Repo-Commit", commit);
        if nature.no_hashes {
            reply
        } else if is_lfs(file, content) {
            reply
                .with("X-Linked-Etag", &etag)
                .with("X-Linked-Size", content.len())
        } else {
            reply.with("ETag", &etag)
        }
    };
    if !is_lfs(file, content) {
        return told(Reply::ranged(request, content));
    }
    let location = format!(
        "{storage}/{}?signature={SIGNATURE}&file={}",
        sha256(content),
        file.replace('/', "%2F")
    );
    told(Reply::new(302).with("Location", location))
}

/// `GET /api/models/{id}/revision/{revision}`.
fn description(id: &str, commit: &str, files: &Files, blobs: bool) -> Value {
    let siblings = files.0.iter().map(|(path, content)| {
        if !blobs {
            return json!({"rfilename": path});
        }
        if !is_lfs(path, content) {
            let blob = git_blob(content);
            return json!({"rfilename": path, "size": content.len(), "blobId": blob});
        }
        let pointer = repository::pointer(content);
        json!({
            "rfilename": path,
            "size": content.len(),
            "blobId": git_blob(&pointer),
            "lfs": {"sha256": sha256(content), "size": content.len(), "pointerSize": pointer.len()},
        })
    });
    let siblings: Vec<Value> = siblings.collect();
    json!({"_id": "0", "id": id, "modelId": id, "sha": commit, "private": false, "siblings": siblings})
}

/// `GET /api/models/{id}/tree/{revision}?recursive=true`.
fn tree(files: &Files) -> Value {
    let entries = files.0.iter().map(|(path, content)| {
        if !is_lfs(path, content) {
            let blob = git_blob(content);
            return json!({"type": "file", "oid": blob, "size": content.len(), "path": path});
        }
        let pointer = repository::pointer(content);
        json!({
            "type": "file",
            "oid": git_blob(&pointer),
            "size": content.len(),
            "path": path,
            "lfs": {"oid": sha256(content), "size": content.len(), "pointerSize": pointer.len()},
        })
    });
    entries.collect()
}

impl Request {
    fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_owned())
    }
}

/// Takes percent-escapes out.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%')
            .then(|| text_of(after.get(..2)?))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
