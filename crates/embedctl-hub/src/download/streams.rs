//! Several files at a time.

use std::collections::BTreeMap;
use std::thread;

use crossbeam_channel::unbounded;

use super::Download;
use crate::DownloadedFile;
use crate::FileOutcome;
use crate::digest::Digest;
use crate::offline;
use embedctl_common::error::{Error, Result};
use embedctl_common::threads::{locked, spawn_scoped};

/// Files fetched at a time.
const STREAMS: usize = 4;

impl Download<'_> {
    /// Brings files here, several at a time, the largest first.
    pub(super) fn get_all(
        &self,
        paths: &[String],
        files: &mut BTreeMap<String, DownloadedFile>,
    ) -> Result<()> {
        let mut queue: Vec<(u64, &String)> = {
            let listing = locked(&self.listing);
            let size = |path: &String| listing.get(path).and_then(|file| file.size).unwrap_or(0);
            paths.iter().map(|path| (size(path), path)).collect()
        };
        let bytes = queue
            .iter()
            .fold(0_u64, |sum, (size, _)| sum.saturating_add(*size));
        if let Some(by) = self.client.settings().offline {
            let missing: Vec<&str> = paths
                .iter()
                .map(String::as_str)
                .filter(|path| !self.is_here(path))
                .collect();
            if !missing.is_empty() {
                let id = &self.wanted.model;
                // None of it is here: that is said in fewer words.
                let missing = if missing.len() == paths.len() && files.is_empty() {
                    Vec::new()
                } else {
                    missing
                };
                return Err(offline(id, self.client.settings(), by, &missing));
            }
        }
        queue.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        self.transfer.planned(queue.len(), bytes);
        let (to_do, jobs) = unbounded();
        for group in self.by_content(queue.iter().map(|(_, path)| path.as_str())) {
            // The channel has no limit and both its ends are here.
            let _ = to_do.send(group);
        }
        drop(to_do);
        let (report, results) = unbounded();
        let mut failure = None;
        thread::scope(|scope| {
            for stream in 0..STREAMS.min(queue.len()) {
                let (jobs, report) = (jobs.clone(), report.clone());
                let work = move || {
                    for path in jobs.into_iter().flatten() {
                        if self.client.cancel().is_cancelled() {
                            break;
                        }
                        let result = self.get(path);
                        if result.is_err() {
                            self.transfer.ended(path, 0, FileOutcome::Failed);
                        }
                        let _ = report.send(result);
                    }
                };
                // The streams that could be started do all of the work.
                match spawn_scoped(scope, "download", work) {
                    Err(error) if stream == 0 => {
                        failure = Some(error);
                        break;
                    }
                    _ => {}
                }
            }
            drop(report);
            for result in &results {
                match result {
                    Ok(file) => {
                        files.insert(file.path.clone(), file);
                    }
                    Err(error) if failure.is_none() => {
                        failure = Some(error);
                        // The others have no use any more.
                        self.client.cancel().cancel();
                        self.client.stop();
                    }
                    Err(_) => {}
                }
            }
        });
        match failure {
            Some(error) => Err(error),
            None if self.client.cancel().is_cancelled() => Err(Error::interrupted()),
            None => Ok(()),
        }
    }

    /// Paths in groups of the same content: one blob, which one stream brings.
    fn by_content<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Vec<Vec<&'p str>> {
        let listing = locked(&self.listing);
        let mut groups: Vec<(Option<&Digest>, Vec<&str>)> = Vec::new();
        for path in paths {
            let digest = listing.get(path).and_then(|file| file.digest.as_ref());
            let known = groups
                .iter_mut()
                .find(|(other, _)| digest.is_some() && *other == digest);
            match known {
                Some((_, group)) => group.push(path),
                None => groups.push((digest, vec![path])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}
