//! Options of `embedctl serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::error::Error;
use embedctl::serve::{BoundListener, Listen};

use super::embed::StoreArgs;
use super::engine::EngineArgs;
use super::model::OverrideArgs;
use super::values::{positive, seconds};

/// Serve a model's vectors or scores over HTTP, as embed and score compute them
///
/// Speaks OpenAI's protocol (/v1/embeddings), that of text-embeddings-inference (/embed, /embed_sparse, /rerank,
/// /predict, /similarity, /tokenize, /info, /health, /metrics), Cohere's and Jina's for reranking (/v1/rerank) and Ollama's
/// for vectors (/api/embed); /openapi.json describes all routes, and a browser shows a page at /. A text's vector is the one that
/// embed gives it with the same options, and a pair's score the one that score gives it. There is no TLS: put a proxy in
/// front of it for other machines.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = "embedctl serve [OPTIONS]")]
pub struct ServeArgs {
    /// Address and port, or unix:PATH for a socket; 127.0.0.1 is reached by this machine alone
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = Listen::DEFAULT,
        help_heading = "Server"
    )]
    pub listen: Listen,

    /// Address without a port, as other servers have it; with --port in place of --listen [default: 127.0.0.1]
    #[arg(
        long,
        value_name = "HOST",
        conflicts_with = "listen",
        help_heading = "Server"
    )]
    pub host: Option<String>,

    /// Port, with --host in place of --listen [default: 8080]
    #[arg(
        long,
        value_name = "PORT",
        conflicts_with = "listen",
        help_heading = "Server"
    )]
    pub port: Option<u16>,

    /// Output of embed or score whose vectors or scores the server's must mix with: a file, a folder of parts, or an address
    ///
    /// Model, revision, prompt, pooling, dimensions, type and precision are those in its provenance. The server does
    /// not start if the model's files or a setting differ. --prompt, --prompt-name, --task and --max-active-dims may
    /// differ for queries, and --vectors chooses one of several kinds of vectors. Where FILE's texts have a prompt, queries get
    /// the model's prompt named query unless another one is given. POST /search finds the rows of FILE that are nearest to a
    /// query.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = "Server")]
    pub like: Option<PathBuf>,

    /// Embed N rows of --like again before the server starts, and compare; FILE must hold their texts
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        requires = "like",
        help_heading = "Server"
    )]
    pub verify: Option<usize>,

    /// File with a key per line; requests must send one as 'Authorization: Bearer KEY'
    ///
    /// All routes but /health want a key then. A browser asks for it as a password.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Server")]
    pub api_key_file: Option<PathBuf>,

    #[command(flatten)]
    pub clients: ServeClientArgs,
    #[command(flatten)]
    pub limits: ServeLimitArgs,

    /// Hub id (org/name or org/name@revision) or a folder [default: that of --like, or
    /// sentence-transformers/all-MiniLM-L6-v2]
    ///
    /// With --like: another place of the same model. A model that is not in the Hub's cache on this machine is
    /// downloaded. The variable EMBEDCTL_MODEL counts without --like.
    #[arg(
        short,
        long,
        value_name = "MODEL",
        value_hint = ValueHint::DirPath,
        help_heading = "Model"
    )]
    pub model: Option<String>,

    /// Turn the scores of a model with several labels into probabilities, as score --softmax does
    #[arg(long, conflicts_with = "like", help_heading = "Model")]
    pub softmax: bool,

    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

impl ServeArgs {
    /// Listens where it was asked to.
    ///
    /// # Errors
    /// If --host names no address, or it cannot be had.
    pub fn bind(&self) -> embedctl::error::Result<BoundListener> {
        let given = match (&self.host, self.port) {
            (None, None) => return self.listen.bind(),
            (None, Some(port)) => format!("--port {port}"),
            (Some(host), None) => format!("--host {host}"),
            (Some(host), Some(port)) => format!("--host {host} --port {port}"),
        };
        self.address()?.bind_as(&given)
    }

    /// The address of --host and --port.
    fn address(&self) -> embedctl::error::Result<Listen> {
        let port = self.port.unwrap_or(8080);
        let host = self.host.as_deref().unwrap_or("127.0.0.1");
        let address = match host.parse::<std::net::IpAddr>() {
            Ok(ip) => std::net::SocketAddr::new(ip, port).to_string(),
            Err(_) => format!("{host}:{port}"),
        };
        let refused = |reason| {
            Error::usage(format!("--host {host}: {reason}"))
                .with_remedy("give an address or a name without a port, such as 0.0.0.0")
        };
        match host.is_empty() || (host.contains(':') && !address.starts_with('[')) {
            true => Err(refused("it is not an address".to_owned())),
            false => address.parse().map_err(refused),
        }
    }
}

/// What clients may call the server and its model, and which web pages may be clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServeClientArgs {
    /// Name of the model in requests and answers, in place of its id; may be given several times, answers have the first
    #[arg(long, value_name = "NAME", value_parser = named)]
    pub served_model_name: Vec<String>,

    /// Origin of web pages whose scripts may use the server, such as https://example.org, or * for all; may be given
    /// several times
    #[arg(long, value_name = "ORIGIN", value_parser = web_origin)]
    pub allow_origin: Vec<String>,

    /// Host name that is accepted beside localhost and addresses by a server on a loopback address without keys; may be
    /// given several times
    ///
    /// Requests for other names are refused with 403, since a web page can point its own name at this machine (DNS
    /// rebinding). A proxy that passes on its clients' Host needs its name here.
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub allow_host: Vec<String>,
}

/// Limits of the server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct ServeLimitArgs {
    /// Threads that run the model [default: one per usable core, two per device]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,

    /// Largest request body [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = embedctl::size::parse)]
    pub max_body_bytes: Option<usize>,

    /// Most inputs per request [default: 2048]
    #[arg(long, value_name = "INPUTS", value_parser = positive)]
    pub max_inputs: Option<usize>,

    /// Most inputs in the server, waiting or running; further requests are refused with 429 [default: 4096]
    #[arg(long, value_name = "INPUTS", value_parser = positive)]
    pub max_queue: Option<usize>,

    /// Longest time from a request's arrival to its answer; once a signal stops the server, the time that requests under
    /// way are given [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,

    /// Longest time for a client to send a request, or to read its answer; idle connections are closed after it
    /// [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub client_timeout: Option<f64>,
}

const EXAMPLES: &str = "\
Examples:
  embedctl serve -m sentence-transformers/all-MiniLM-L6-v2
  embedctl serve --like vectors.parquet --task query
  embedctl serve -m cross-encoder/ms-marco-MiniLM-L6-v2
  embedctl serve --like s3://vectors/2026/ --listen 0.0.0.0:8080 --api-key-file keys.txt
  curl 127.0.0.1:8080/embed -H 'Content-Type: application/json' -d '{\"inputs\": \"some text\"}'

Exit codes:
  0    stopped by a signal, and every request was answered
  1    failed
  2    wrong options, or vectors that would not mix with those of --like
  130  requests were left without an answer, or with a part of it";

/// The origin of web pages as browsers send it, or `*` for all.
fn web_origin(text: &str) -> Result<String, String> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])
    });
    match text {
        "*" | "null" => Ok(text.to_owned()),
        _ if is_origin => Ok(text.to_ascii_lowercase()),
        _ => Err(
            "an origin is a scheme and a host, with a port if it is not the usual one, and nothing behind: \
             https://example.org"
                .to_owned(),
        ),
    }
}

/// The name of a host as browsers send it, without a port.
fn host_name(text: &str) -> Result<String, String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_of_name) {
        true => Ok(text.to_owned()),
        false => Err("give a name alone, without a scheme and a port: example.org".to_owned()),
    }
}

/// A text that is not empty.
fn named(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(text.to_owned()),
    }
}
