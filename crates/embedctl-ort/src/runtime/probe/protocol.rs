//! The child's messages to its parent: one JSON object per line, as soon as a result is known.
//!
//! A child may die at any point, and its results so far count. Libraries may write to standard output, too, so every
//! message starts with a mark on a line of its own.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::provider::ProviderReport;
use crate::runtime::plugin::PluginReport;
use embedctl_engine::Provider;

/// The mark at the start of a message.
const MARK: &str = "embedctl-probe ";

/// A step of the child's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// The library is loaded.
    Loaded {
        version: String,
        build: Option<String>,
        available: Vec<String>,
    },
    /// It cannot be.
    Unusable {
        reason: String,
        remedy: Option<String>,
    },
    /// The plug-in that the library was to load is loaded, or cannot be.
    Plugin(PluginReport),
    /// A provider is about to be tried: if nothing follows, it ended the child.
    Trying(Provider),
    /// It was.
    Tried(ProviderReport),
    /// Nothing follows.
    Done,
}

impl Event {
    /// Writes it as a line.
    pub(super) fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let json = serde_json::to_string(self).map_err(io::Error::other)?;
        // One call, so that nothing comes between.
        output.write_all(format!("\n{MARK}{json}\n").as_bytes())?;
        output.flush()
    }

    /// The event in a line, if it is one of ours.
    pub(super) fn read(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(MARK)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_chatter_around_them() {
        let mut output = Vec::from("a library's progress bar 10%");
        let events = [
            Event::Trying(Provider::TensorRt),
            Event::Tried(ProviderReport::refused(Provider::TensorRt, "line\nbreak")),
            Event::Done,
        ];
        for event in &events {
            event.write(&mut output).unwrap();
            output.extend_from_slice(b"more of it");
        }
        let text = String::from_utf8(output).unwrap();
        let read: Vec<Event> = text.lines().filter_map(Event::read).collect();
        assert_eq!(read, events);
    }
}
