//! The cards of a run, and the libraries that they need.

use std::path::PathBuf;
use std::sync::Arc;

use embedctl_common::cancel::CancelToken;
use embedctl_cuda::{Card, LIBRARIES, Libraries, NeededLibrary, newest_cuda, try_product};

use super::NAME;
use crate::engine::ResolvedEngine;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::cuda_library;

/// The three libraries, each found by its own search: of the newest version that the driver runs.
fn libraries_of_cuda(cancel: &CancelToken) -> Result<(Libraries, PathBuf)> {
    let missing = |needed: &NeededLibrary, name: &str, reason: &str, remedy: String| {
        let reason = format!("{name} ({}) is missing: {reason}", needed.what);
        Error::new(ErrorKind::Provider, NAME, reason).with_remedy(remedy)
    };
    let [driver, others @ ..] = &LIBRARIES;
    let driver = cuda_library(driver.names, cancel)
        .map_err(|reason| missing(driver, driver.names[0], &reason, driver.remedy.to_owned()))?;
    let newest = newest_cuda(&driver)?;
    let mut paths = vec![driver];
    for needed in others {
        let names = needed.names_up_to(newest);
        let Some(name) = names.first() else {
            let reason = format!("the driver runs CUDA {newest} at most, and kernels need 12");
            return Err(Error::new(ErrorKind::Provider, NAME, reason)
                .with_remedy("install a newer driver of the card"));
        };
        let found = cuda_library(&names, cancel).map_err(|reason| {
            // Packages without a number are those of CUDA 13.
            let package = if newest < 13 { "-cu12" } else { "" };
            missing(needed, name, &reason, format!("{}{package}", needed.remedy))
        })?;
        paths.push(found);
    }
    let [driver, compiler, multiplier] = [0, 1, 2].map(|index: usize| paths[index].as_path());
    let libraries = Libraries::load([driver, compiler, multiplier])?;
    Ok((libraries, multiplier.to_path_buf()))
}

/// Whether an NVIDIA driver and the two libraries are here.
pub(in crate::engine) fn is_here(cancel: &CancelToken) -> bool {
    libraries_of_cuda(cancel).is_ok()
}

/// Whether this engine works here: the name of the first card, on which a small product was right, and cuBLASLt's file.
///
/// # Errors
/// What is missing, or what the card said.
pub(in crate::engine) fn check(cancel: &CancelToken) -> Result<(String, PathBuf)> {
    let (libraries, library) = libraries_of_cuda(cancel)?;
    let card = Card::open(libraries, 0)?;
    try_product(&card)?;
    Ok((card.info.name.clone(), library))
}

/// The cards of the options, opened.
pub(in crate::engine) struct Cards {
    pub(super) cards: Vec<Arc<Card>>,
    pub(super) numbers: Vec<u32>,
    pub(super) library: PathBuf,
}

impl Cards {
    /// Opens the cards of the options.
    ///
    /// # Errors
    /// If a library is missing, or there is no such card.
    pub(in crate::engine) fn open(options: &ResolvedEngine, cancel: &CancelToken) -> Result<Self> {
        let (first, library) = libraries_of_cuda(cancel)?;
        let numbers = match (options.all_devices, &options.devices[..]) {
            (true, _) => (0..first.devices()?).collect(),
            (false, []) => vec![0],
            (false, devices) => devices.to_vec(),
        };
        let mut found = Some(first);
        let cards = numbers.iter().map(|number| {
            let libraries = match found.take() {
                Some(libraries) => libraries,
                None => libraries_of_cuda(cancel)?.0,
            };
            Card::open(libraries, *number)
        });
        Ok(Self {
            cards: cards.collect::<Result<_>>()?,
            numbers,
            library,
        })
    }
}
