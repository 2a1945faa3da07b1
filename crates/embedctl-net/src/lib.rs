//! The HTTP client of all requests: connections, proxies, certificates, limits, and where redirects may lead.
//!
//! ```text
//!  NetSettings (environment: proxies, certificates, limits)
//!       └── Agents ── one ureq agent for each proxy and reach
//!             ├── redirected: Reach says to which hosts a redirect may lead
//!             ├── RateCheckedBody: a body with a minimum rate
//!             └── unreachable: why no answer came, as a RequestFault
//! ```
//!
//! Retries and the meaning of answers are the callers': the Hub's client and the object stores.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod agents;
mod environment;
mod fault;
mod limits;
mod origin;
mod proxies;
mod reach;
mod settings;
mod unreachable;

pub use agents::{Agents, RedirectLimit};
pub use environment::{Environment, Lookup};
pub use fault::{RequestFault, is_transient};
pub use limits::{RateCheckedBody, ResponseLimits};
pub use origin::{UrlOrigin, host};
pub use proxies::Proxies;
pub use reach::Reach;
pub use settings::NetSettings;
pub use unreachable::unreachable;
