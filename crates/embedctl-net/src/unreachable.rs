//! Explains requests that no server answered, in sentences with a remedy.

use std::io;

use ureq::http::Uri;

use super::fault::{RequestFault, is_transient};
use super::origin::host;
use super::reach::RefusedAddress;
use super::settings::NetSettings;
use embedctl_common::error::{Error, ErrorKind};

/// Explains a missing answer to a request about `subject`. `address` names the setting that may be wrong.
pub fn unreachable(
    subject: &str,
    uri: &Uri,
    proxy: Option<&'static str>,
    settings: &NetSettings,
    address: &str,
    error: &ureq::Error,
) -> RequestFault {
    let host = host(uri);
    let through = proxy.map_or_else(String::new, |variable| {
        format!(" through the proxy that {variable} names")
    });
    let fatal = |words: String, remedy: &str| {
        let reason = format!("cannot be downloaded: {words}");
        RequestFault::Final(Error::new(ErrorKind::Unreachable, subject, reason).with_remedy(remedy))
    };
    let untrusted = |cause| {
        let (words, remedy) = untrusted(&host, settings, address, cause);
        fatal(words, &remedy)
    };
    let transient = |reason| RequestFault::Transient {
        reason,
        after: None,
    };
    let connection = format!("check the connection, {address} and, behind a firewall, HTTPS_PROXY");
    match error {
        ureq::Error::HostNotFound => fatal(
            format!("the host name {host}{through} cannot be resolved"),
            &connection,
        ),
        ureq::Error::ConnectProxyFailed(reason) => fatal(
            format!(
                "the proxy that {} names refuses to connect to {host} ({})",
                proxy.unwrap_or("HTTPS_PROXY"),
                first_line(reason)
            ),
            "check its address and password, or list the host in NO_PROXY",
        ),
        ureq::Error::InvalidProxyUrl => RequestFault::Final(
            Error::model(
                subject,
                format!(
                    "{} does not hold the address of a proxy",
                    proxy.unwrap_or("HTTPS_PROXY")
                ),
            )
            .with_remedy("write it as http://host:port or socks5://host:port"),
        ),
        ureq::Error::Timeout(_) => transient(format!(
            "{host}{through} was silent for {} seconds",
            settings.idle_timeout.as_secs()
        )),
        ureq::Error::Io(cause) => match tls(cause) {
            Some(tls) => untrusted(tls),
            None if is_transient(cause) => transient(format!(
                "the connection to {host}{through} was cut ({cause})"
            )),
            None => fatal(
                format!("{host}{through} is unreachable ({cause})"),
                &connection,
            ),
        },
        ureq::Error::Rustls(cause) => untrusted(cause),
        ureq::Error::Tls(cause) => fatal(
            format!("no encrypted connection to {host} ({cause})"),
            &connection,
        ),
        // The answer was not HTTP, or ended in the middle.
        ureq::Error::Protocol(cause) => {
            transient(format!("{host}{through} sent an invalid answer ({cause})"))
        }
        ureq::Error::Other(cause) if cause.is::<RefusedAddress>() => {
            let reason = format!("{host} is not asked: {cause}");
            RequestFault::Final(Error::new(ErrorKind::Unreachable, subject, reason))
        }
        other => fatal(format!("{host}{through}: {other}"), &connection),
    }
}

fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// A reason and a remedy for a wrong certificate or failed encryption.
fn untrusted(
    host: &str,
    settings: &NetSettings,
    address: &str,
    error: &rustls::Error,
) -> (String, String) {
    let rustls::Error::InvalidCertificate(_) = error else {
        return (
            format!("no encrypted connection to {host} ({error})"),
            format!(
                "check that {address} and the proxy's address begin with the right one of http:// and https://"
            ),
        );
    };
    let remedy = match &settings.certificates {
        Some((variable, path)) => format!(
            "{variable} names {}: add to it the certificate (PEM) of the authority that signed for {host}, or unset \
             the variable to use the system's certificates",
            path.display()
        ),
        None => "if a firewall inspects encrypted connections, name its certificate (PEM) with SSL_CERT_FILE; \
                 else check this machine's clock and its ca-certificates package"
            .into(),
    };
    (
        format!("the certificate of {host} is not trusted ({error})"),
        remedy,
    )
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}
