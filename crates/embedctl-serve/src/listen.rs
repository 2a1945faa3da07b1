//! Addresses to listen on, and the listeners of them.

use std::fmt;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use embedctl_common::error::{Error, Result};
use embedctl_common::setting::LISTEN;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Listen {
    /// The address unless another one is given: this machine alone reaches it.
    pub const DEFAULT: &str = "127.0.0.1:8080";

    /// Listens there, before anything is served.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(&self) -> Result<BoundListener> {
        self.bind_as(&format!("{LISTEN} {self}"))
    }

    /// The same, where options that read `given` name the address.
    ///
    /// # Errors
    /// As [`Listen::bind`].
    pub fn bind_as(&self, given: &str) -> Result<BoundListener> {
        let failed = |error: io::Error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => "another program listens there; choose another port",
                io::ErrorKind::PermissionDenied => "choose a port from 1024 on",
                _ => "name an address of this machine, such as 127.0.0.1:8080",
            };
            Error::usage(format!("{given}: cannot listen there: {error}")).with_remedy(remedy)
        };
        match self {
            Self::Tcp(address) => {
                let addresses: Vec<_> = address.to_socket_addrs().map_err(failed)?.collect();
                let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(BoundListener(BoundSocket::Tcp(listener)))
            }
            Self::Unix(path) => unix::bind(path).map_err(failed),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match (path, cfg!(unix)) {
                ("", _) => Err("name the socket's path after `unix:`".to_owned()),
                (_, false) => Err("sockets in the file system need Unix".to_owned()),
                _ => Ok(Self::Unix(path.into())),
            };
        }
        let is_port = |port: &str| port.parse::<u16>().is_ok();
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && is_port(port) => {
                let is_bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
                match is_bare {
                    true => Err(format!(
                        "write an IPv6 address in brackets: [{host}]:{port}"
                    )),
                    false => Ok(Self::Tcp(text.to_owned())),
                }
            }
            _ => Err("expected HOST:PORT or unix:PATH, such as 127.0.0.1:8080".to_owned()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address that is listened on. A socket in the file system is removed with it.
#[derive(Debug)]
pub struct BoundListener(pub(crate) BoundSocket);

#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(unix::SocketFile),
}

impl BoundListener {
    /// The address, as a client writes it.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.0 {
            BoundSocket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}"),
                Err(_) => "http://".to_owned(),
            },
            #[cfg(unix)]
            BoundSocket::Unix(socket) => format!("unix:{}", socket.path.display()),
        }
    }
}

/// Who reaches a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Programs of this machine, and by it browsers with pages of anybody.
    Loopback,
    /// Programs of this machine that may open the socket's file.
    SocketFile,
    /// Other machines.
    Network,
}

impl BoundListener {
    /// Who reaches it.
    pub(crate) fn reach(&self) -> Reach {
        match &self.0 {
            BoundSocket::Tcp(listener) => match listener.local_addr() {
                Ok(address) if address.ip().to_canonical().is_loopback() => Reach::Loopback,
                _ => Reach::Network,
            },
            #[cfg(unix)]
            BoundSocket::Unix(_) => Reach::SocketFile,
        }
    }
}

#[cfg(unix)]
pub(crate) mod unix {
    use std::fs;
    use std::io;
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};

    use super::{BoundListener, BoundSocket};

    /// A socket in the file system, removed when this is dropped.
    #[derive(Debug)]
    pub(crate) struct SocketFile {
        pub listener: UnixListener,
        pub path: PathBuf,
    }

    impl Drop for SocketFile {
        fn drop(&mut self) {
            // Another program may have removed it.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Listens on a socket of this path. One that a server has left behind is replaced, and nothing else is.
    pub fn bind(path: &Path) -> io::Result<BoundListener> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && UnixStream::connect(path).is_err_and(refused) {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let path = path.to_owned();
        Ok(BoundListener(BoundSocket::Unix(SocketFile {
            listener,
            path,
        })))
    }
}

#[cfg(not(unix))]
mod unix {
    use std::io;
    use std::path::Path;

    use super::BoundListener;

    pub fn bind(_: &Path) -> io::Result<BoundListener> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "127.0.0.1:8080",
            "[::1]:0",
            "localhost:80",
            "unix:/run/embed.sock",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in [
            "8080",
            ":8080",
            "127.0.0.1",
            "localhost:http",
            "::1:80",
            "unix:",
            "",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
        assert_eq!(
            "::1:80".parse::<Listen>().unwrap_err(),
            "write an IPv6 address in brackets: [::1]:80"
        );
    }

    #[test]
    fn an_address_in_use_is_refused_with_a_remedy() {
        let taken = Listen::Tcp("127.0.0.1:0".into()).bind().unwrap();
        let address = taken.address().replace("http://", "");
        let error = Listen::Tcp(address).bind().unwrap_err();
        assert!(error.to_string().contains("choose another port"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_left_behind_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listen = Listen::Unix(path.clone());
        let first = listen.bind().unwrap();
        listen.bind().unwrap_err();
        // As after a kill.
        std::mem::forget(listen.bind());
        drop(first);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(listen.bind().unwrap());
        std::fs::write(&path, "a file").unwrap();
        listen.bind().unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    }
}
