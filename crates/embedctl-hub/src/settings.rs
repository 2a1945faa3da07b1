//! Where models come from and where they are kept, as `huggingface_hub` reads it from the environment.

use std::fmt;
use std::path::PathBuf;

use ureq::http::Uri;

use embedctl_common::error::{Error, Result};
use embedctl_common::secrets::Secrets;
use embedctl_common::setting::{OFFLINE, SetBy};
use embedctl_common::small_file;
use embedctl_net::{Environment, Lookup, NetSettings};

/// The Hub that is asked where `HF_ENDPOINT` names no other.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Bytes of a stored token at most.
const LARGEST_TOKEN: u64 = 64 << 10;

/// The caller's settings; the others come from the environment.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// `--cache-dir`: folder of the cache.
    pub cache_dir: Option<PathBuf>,
    /// `--offline`: never use the network.
    pub offline: bool,
}

/// All settings, resolved.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// Scheme and host of the Hub, without a slash at the end.
    pub endpoint: String,
    /// Folder of the cache.
    pub cache: PathBuf,
    /// The token of the user, if there is one.
    pub token: Option<Token>,
    /// The setting that forbids the network, if one does.
    pub offline: Option<SetBy>,
    /// How servers are reached.
    pub net: NetSettings,
    /// Texts that no message may show.
    pub secrets: Secrets,
}

/// A credential. Its text is in no message: `Debug` leaves it out.
#[derive(Clone)]
pub struct Token {
    text: String,
    /// Where it was found, for messages.
    pub origin: String,
}

impl Token {
    /// The value of the `Authorization` header.
    #[must_use]
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(from {})", self.origin)
    }
}

impl HubSettings {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// If `HF_ENDPOINT` is not an address, or a token has characters that a header cannot hold.
    pub fn from_environment(options: &HubOptions) -> Result<Self> {
        Self::read(options, &|name| std::env::var_os(name))
    }

    /// Reads an environment.
    pub(super) fn read(options: &HubOptions, variable: &Lookup<'_>) -> Result<Self> {
        let net = NetSettings::read(&Environment(variable));
        let environment = HubEnvironment(Environment(variable));
        let offline = if options.offline {
            Some(OFFLINE.into())
        } else {
            ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
                .into_iter()
                .find(|name| environment.0.is_on(name))
                .map(SetBy::Name)
        };
        Ok(Self {
            endpoint: environment.endpoint()?,
            cache: options
                .cache_dir
                .clone()
                .unwrap_or_else(|| environment.cache()),
            token: environment.token()?,
            offline,
            net,
            secrets: environment.secrets(),
        })
    }
}

/// The Hub's cache of this environment, as `huggingface_hub` finds it.
#[must_use]
pub fn default_cache() -> PathBuf {
    HubEnvironment(Environment(&|name| std::env::var_os(name))).cache()
}

/// The tokens and passwords of this process's environment, and the stored token, to be removed from shown text.
#[must_use]
pub fn secrets() -> Secrets {
    let mut secrets = Secrets::of_variables(std::env::vars_os());
    secrets.extend(&HubEnvironment(Environment(&|name| std::env::var_os(name))).secrets());
    secrets
}

/// What the environment says of the Hub.
struct HubEnvironment<'a>(Environment<'a>);

impl HubEnvironment<'_> {
    /// `HF_HOME`: where the cache and the stored token are.
    fn home(&self) -> PathBuf {
        self.0
            .path("HF_HOME")
            .or_else(|| Some(self.0.path("XDG_CACHE_HOME")?.join("huggingface")))
            .or_else(|| Some(self.0.home_folder()?.join(".cache/huggingface")))
            .unwrap_or_else(|| PathBuf::from(".cache/huggingface"))
    }

    fn cache(&self) -> PathBuf {
        self.0
            .path("HF_HUB_CACHE")
            .or_else(|| self.0.path("HUGGINGFACE_HUB_CACHE"))
            .unwrap_or_else(|| self.home().join("hub"))
    }

    fn endpoint(&self) -> Result<String> {
        let Some(endpoint) = self.0.text("HF_ENDPOINT") else {
            return Ok(DEFAULT_ENDPOINT.to_owned());
        };
        let endpoint = endpoint.trim_end_matches('/');
        let valid = endpoint.parse::<Uri>().is_ok_and(|uri| {
            let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
            is_web && uri.host().is_some() && uri.query().is_none()
        });
        if !valid {
            let endpoint = self.secrets().redact(endpoint).into_owned();
            return Err(Error::usage(format!(
                "HF_ENDPOINT is '{endpoint}', which is not the address of a Hub"
            ))
            .with_remedy(format!("write it as {DEFAULT_ENDPOINT}")));
        }
        Ok(endpoint.to_owned())
    }

    fn token(&self) -> Result<Option<Token>> {
        let from_variable = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
            .into_iter()
            .find_map(|name| Some((self.0.text(name)?, name.to_owned())));
        let found = match from_variable {
            Some(found) => Some(found),
            None if self.0.is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") => None,
            None => self.stored_token(),
        };
        let Some((text, origin)) = found else {
            return Ok(None);
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::usage(format!(
                "the token from {origin} holds blanks or characters that no token has"
            ))
            .with_remedy("store it again with `hf auth login`, or set HF_TOKEN"));
        }
        Ok(Some(Token { text, origin }))
    }

    fn stored_token(&self) -> Option<(String, String)> {
        let path = self
            .0
            .path("HF_TOKEN_PATH")
            .unwrap_or_else(|| self.home().join("token"));
        let text = small_file::read_text(&path, LARGEST_TOKEN).ok()?;
        let text = text.trim().to_owned();
        (!text.is_empty()).then(|| (text, path.display().to_string()))
    }

    /// All secrets that are sent to a server, which it could send back. Malformed addresses and tokens are included,
    /// too: the message that says so must not show it.
    fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        let tokens = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];
        let stored = self.stored_token().map(|(text, _)| text);
        for token in tokens
            .iter()
            .filter_map(|name| self.0.text(name))
            .chain(stored)
        {
            secrets.add_token(&token);
        }
        if let Some(endpoint) = self.0.text("HF_ENDPOINT") {
            secrets.add_address(&endpoint);
        }
        NetSettings::add_secrets(&self.0, &mut secrets);
        secrets
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
