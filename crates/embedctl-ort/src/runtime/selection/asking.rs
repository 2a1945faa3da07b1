//! Several libraries probed in parallel for one provider: the first in their order that works is taken, without waiting
//! for later ones.

use std::io;
use std::thread;

use crossbeam_channel::{select, unbounded};

use super::refused::{CAME_WITHOUT, RefusedCandidate, passed_over};
use super::{ChosenLibrary, LibrarySelection, may_have};
use crate::runtime::ProbeCommand;
use crate::runtime::discovery::Candidate;
use crate::runtime::probe::{self, ProviderTrials};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::threads::spawn_scoped;
use embedctl_engine::{Provider, SkippedCandidate};

/// The result of probing candidates.
pub(super) enum CandidateAnswer<'c> {
    /// The first, in their order, in which the provider works.
    Taken {
        candidate: &'c Candidate,
        chosen: ChosenLibrary,
        /// The candidates before it.
        passed_over: Vec<SkippedCandidate>,
    },
    /// Why none works.
    None(Vec<(Candidate, RefusedCandidate)>),
}

impl LibrarySelection<'_> {
    /// Probes all of `candidates` that may have `provider` at the same time.
    pub(super) fn ask_all<'c>(
        &self,
        command: &ProbeCommand,
        provider: Provider,
        candidates: &'c [Candidate],
    ) -> Result<CandidateAnswer<'c>> {
        let device = self.device;
        let mut verdicts: Vec<Option<Result<ChosenLibrary, RefusedCandidate>>> = candidates
            .iter()
            .map(|candidate| {
                // The user's own choice is probed in any case: it may not be a library, or be too old.
                let is_asked = candidate.plugin.is_some()
                    || self.named.is_some()
                    || may_have(provider, &candidate.path);
                (!is_asked).then(|| Err(RefusedCandidate::Lacks(CAME_WITHOUT.into())))
            })
            .collect();
        let stop = CancelToken::new();
        let (sender, answers) = unbounded();
        let decided = thread::scope(|scope| {
            for (index, candidate) in candidates.iter().enumerate() {
                if verdicts[index].is_some() {
                    continue;
                }
                let (sender, stop) = (sender.clone(), &stop);
                let failed = sender.clone();
                let ask = move || {
                    let attempts = ProviderTrials::These(vec![provider]);
                    let answer = probe::ask(command, candidate, device, attempts, stop);
                    let _ = sender.send((index, answer));
                };
                if let Err(error) = spawn_scoped(scope, "probe", ask) {
                    let _ = failed.send((index, Err(io::Error::other(error))));
                }
            }
            drop(sender);
            let decided = loop {
                // The first that works, unless one before it is still being asked.
                match verdicts.iter().find(|one| !matches!(one, Some(Err(_)))) {
                    Some(None) => {}
                    Some(Some(_)) | None => break Ok(()),
                }
                select! {
                    recv(answers) -> answer => match answer {
                        Ok((index, Ok(report))) => {
                            let verdict = self.verdict(&candidates[index], report, provider);
                            verdicts[index] = Some(verdict);
                        }
                        Ok((index, Err(error))) => {
                            let reason = format!("it could not be probed: {error}");
                            verdicts[index] = Some(Err(RefusedCandidate::Library(Cause::of(reason))));
                        }
                        Err(_) => break Ok(()),
                    },
                    recv(self.cancel.channel()) -> _ => break Err(Error::interrupted()),
                }
            };
            // Ends the children whose answers are no longer needed.
            stop.cancel();
            decided
        });
        decided?;
        let mut refused = Vec::new();
        for (candidate, verdict) in candidates.iter().zip(verdicts) {
            match verdict {
                Some(Ok(chosen)) => {
                    return Ok(CandidateAnswer::Taken {
                        candidate,
                        chosen,
                        passed_over: passed_over(&refused),
                    });
                }
                Some(Err(RefusedCandidate::Untold)) | None => {}
                Some(Err(reason)) => refused.push((candidate.clone(), reason)),
            }
        }
        Ok(CandidateAnswer::None(refused))
    }
}
