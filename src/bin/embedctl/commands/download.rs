//! `embedctl download`: its models and messages.

use std::path::Path;

use embedctl::Error;
use embedctl::cancel::CancelToken;
use embedctl::engine::EngineOptions;
use embedctl::hub::{
    self, CheckedFile, CheckedModel, Downloaded, FileVerdict, HubSettings, ListedKind,
    ListedWeights, Lock, LockedModel, ModelFilesRequest, ModelId,
};
use embedctl::model::{FileChoice, ModelName, ModelOptions, OnnxChoice, WeightsPreference};
use embedctl::output::RunFiles;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{DownloadArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, TextTable, bytes};

/// Downloads, lists or checks models. A model that fails does not stop the others.
pub fn run(
    args: &DownloadArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let download = DownloadRun {
        args,
        printer,
        settings: HubSettings::from_environment(&super::hub_options(messages))?,
        cancel: interrupt::watch(RunFiles::new())?,
    };
    if args.check {
        return download.each(&args.models, |model| download.check(model));
    }
    if args.list {
        return download.each(&args.models, |model| download.list(model));
    }
    let models = download.wanted()?;
    if args.local_dir.is_some() && models.len() > 1 {
        return Err(CommandFailure::usage(
            "--local-dir takes one model: a folder holds the files of one model",
        ));
    }
    if let Some(path) = &args.lock {
        Lock::check_place(path)?;
    }
    let mut locked = Vec::new();
    let code = download.each(&models, |wanted| {
        locked.push(download.fetch(wanted)?);
        Ok(())
    })?;
    // A lock file of some of the models would be taken for one of all.
    if let (Some(path), ExitCode::Done) = (&args.lock, code) {
        Lock::of(locked).write(path)?;
        printer.info(format!("wrote {}", path.display()));
    }
    Ok(code)
}

struct DownloadRun<'a> {
    args: &'a DownloadArgs,
    printer: &'a Printer,
    settings: HubSettings,
    cancel: CancelToken,
}

impl DownloadRun<'_> {
    /// Does something for each of `things`; the first interrupt, closed pipe or wrong option ends it all.
    fn each<T>(
        &self,
        things: &[T],
        mut work: impl FnMut(&T) -> Result<(), CommandFailure>,
    ) -> Result<ExitCode, CommandFailure> {
        let mut code = ExitCode::Done;
        for (index, thing) in things.iter().enumerate() {
            match work(thing) {
                Ok(()) => {}
                Err(failure)
                    if failure.exit_code() == ExitCode::Failed && index + 1 < things.len() =>
                {
                    self.printer.failure(&failure);
                    code = ExitCode::Failed;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(code)
    }

    /// The weights that `embed` would take here.
    fn choice(&self) -> Result<FileChoice, CommandFailure> {
        let model = ModelOptions {
            model_file: self.args.onnx.model_file.clone(),
            precision: self.args.onnx.precision,
            kind: self.args.onnx.weights,
            ..ModelOptions::default()
        };
        let engine = EngineOptions {
            providers: self.args.providers.provider.clone(),
            runtime: super::runtime(None),
            ..EngineOptions::default()
        };
        Ok(super::resolve(&model, &engine, &self.cancel)?.files())
    }

    fn wanted(&self) -> Result<Vec<ModelFilesRequest>, CommandFailure> {
        let Some(path) = &self.args.locked else {
            return self.args.models.iter().map(|name| self.one(name)).collect();
        };
        let lock = Lock::read(path)?;
        let of = |locked: &LockedModel| ModelFilesRequest {
            local_dir: self.args.local_dir.clone(),
            locked: Some(locked.clone()),
            ..ModelFilesRequest::of(locked.id())
        };
        if self.args.models.is_empty() {
            return Ok(lock.models.iter().map(of).collect());
        }
        self.args
            .models
            .iter()
            .map(|name| {
                let id = parse(name)?;
                let is_it = |locked: &&LockedModel| {
                    locked.model == id.repository
                        && (!name.contains('@')
                            || [&locked.requested, &locked.revision].contains(&&id.revision))
                };
                lock.models.iter().find(is_it).map(of).ok_or_else(|| {
                    let reason = format!("is not in the lock file {}", path.display());
                    let error = Error::model(name, reason);
                    CommandFailure::from(error.with_remedy("write the lock file again with --lock"))
                })
            })
            .collect()
    }

    fn one(&self, name: &str) -> Result<ModelFilesRequest, CommandFailure> {
        Ok(ModelFilesRequest {
            choice: self.choice()?,
            all: self.args.all,
            local_dir: self.args.local_dir.clone(),
            ..ModelFilesRequest::of(parse(name)?)
        })
    }

    fn fetch(&self, wanted: &ModelFilesRequest) -> Result<LockedModel, CommandFailure> {
        let downloaded = self.bring(wanted)?;
        let size: u64 = downloaded.files.iter().map(|file| file.size).sum();
        let fetched = downloaded.files.iter().filter(|file| file.fetched).count();
        let how = match (fetched, downloaded.files.len() - fetched) {
            (0, _) => "all present".to_owned(),
            (_, 0) => "all fetched".to_owned(),
            (fetched, here) => format!("{fetched} fetched, {here} present"),
        };
        self.printer.info(format!(
            "{} at {}: {}, {}, verified ({how}); in {}",
            downloaded.model,
            short(&downloaded.revision),
            files(downloaded.files.len()),
            bytes(size),
            downloaded.folder.display()
        ));
        self.object(&downloaded)?;
        Ok(match &wanted.locked {
            Some(locked) => locked.clone(),
            None => LockedModel::from_download(&wanted.model, &downloaded),
        })
    }

    fn bring(&self, wanted: &ModelFilesRequest) -> Result<Downloaded, CommandFailure> {
        let downloads = self.printer.downloads();
        let result = hub::meant(wanted.model.meanings(), |model| {
            let wanted = ModelFilesRequest {
                model,
                ..wanted.clone()
            };
            hub::download(&self.settings, &wanted, downloads.as_ref(), &self.cancel)
        });
        downloads.end();
        Ok(result.map_err(super::stopped)?)
    }

    fn list(&self, name: &str) -> Result<(), CommandFailure> {
        let downloads = self.printer.downloads();
        let listed = hub::meant(parse(name)?.meanings(), |model| {
            hub::list(&self.settings, &model, downloads.as_ref(), &self.cancel)
        })?;
        if self.args.json {
            return self.object(&listed);
        }
        let mut text = TextTable::default();
        if self.args.models.len() > 1 {
            text.line(&format!("{} at {}", listed.model, short(&listed.revision)));
        }
        table(&listed, &mut text);
        self.printer.text(&text)
    }

    /// Reports problems of a downloaded model, and repairs it unless offline.
    fn check(&self, name: &str) -> Result<(), CommandFailure> {
        let mut checked = hub::check(&self.settings, name, &self.choice()?, &self.cancel)?;
        let (wrong, foreign) = self.problems(name, &checked);
        if !foreign.is_empty() {
            self.checked(&checked, false)?;
            let (folder, foreign) = (checked.folder.display(), foreign.join(", "));
            let reason = format!("{folder} holds files that are not the model's: {foreign}");
            let remedy = "remove them, or download the model into an empty folder (--local-dir)";
            return Err(Error::model(name, reason).with_remedy(remedy).into());
        }
        let repaired = !wrong.is_empty();
        if repaired {
            self.repair(name, &checked, &wrong)?;
            checked = hub::check(&self.settings, name, &self.choice()?, &self.cancel)?;
        }
        let still: Vec<&str> = checked.wrong().map(|file| file.path.as_str()).collect();
        if !still.is_empty() {
            let still = still.join(", ");
            self.checked(&checked, repaired)?;
            return Err(Error::model(name, format!("could not be repaired: {still}")).into());
        }
        let is_own = |file: &&CheckedFile| !matches!(file.state, FileVerdict::Foreign { .. });
        let own = checked.files.iter().filter(is_own);
        self.printer.info(format!(
            "{name} at {}: {} verified in {}",
            short(&checked.revision),
            files(own.count()),
            checked.folder.display()
        ));
        self.checked(&checked, repaired)
    }

    /// Finds the files that are damaged or missing, and those that are not the model's and would change its vectors. Tells the
    /// user of each.
    fn problems(&self, name: &str, checked: &CheckedModel) -> (Vec<String>, Vec<String>) {
        let (mut wrong, mut foreign) = (Vec::new(), Vec::new());
        for file in &checked.files {
            let path = &file.path;
            let words = match &file.state {
                FileVerdict::Damaged { reason } => {
                    wrong.push(path.clone());
                    format!("is damaged: {reason}")
                }
                FileVerdict::Missing => {
                    wrong.push(path.clone());
                    "is missing".to_owned()
                }
                FileVerdict::Foreign { read: true } => {
                    foreign.push(path.clone());
                    "is not one of the model's files, but would change its vectors".to_owned()
                }
                FileVerdict::Foreign { read: false } => {
                    self.printer
                        .note(format!("{name}: {path} is not one of the model's files"));
                    continue;
                }
                FileVerdict::Ok | FileVerdict::Unverifiable => continue,
            };
            self.printer.warning(format!("{name}: {path} {words}"));
        }
        if let Some(note) = ModelName::ambiguity(name) {
            self.printer.note(note);
        }
        let is_unknown = |file: &&CheckedFile| file.state == FileVerdict::Unverifiable;
        let unknown = checked.files.iter().filter(is_unknown).count();
        if unknown > 0 {
            self.printer.note(format!(
                "{name}: no hash is known for {}; `embedctl download {name}` gets the hashes from the Hub",
                files(unknown)
            ));
        }
        (wrong, foreign)
    }

    /// Downloads the files `wrong` again.
    fn repair(
        &self,
        name: &str,
        checked: &CheckedModel,
        wrong: &[String],
    ) -> Result<(), CommandFailure> {
        let impossible = if matches!(ModelName::of(name), Ok(ModelName::Folder(_))) {
            Some("download them again with `embedctl download MODEL --local-dir` and this folder")
        } else if self.settings.offline.is_some() {
            Some("run the same command without --offline to download them again")
        } else {
            None
        };
        if let Some(remedy) = impossible {
            self.checked(checked, false)?;
            let (wrong, all) = (wrong.len(), files(checked.files.len()));
            let error = Error::model(name, format!("{wrong} of {all} damaged or missing"));
            return Err(error.with_remedy(remedy).into());
        }
        let wanted = ModelFilesRequest {
            model: parse(name)?.at(&checked.revision),
            choice: FileChoice {
                weights: match checked.onnx {
                    Some(_) => WeightsPreference::Onnx,
                    None => self.choice()?.weights,
                },
                onnx: OnnxChoice {
                    file: checked.onnx.clone(),
                    precision: None,
                },
            },
            extra: wrong.to_vec(),
            ..self.one(name)?
        };
        self.bring(&wanted)?;
        self.printer
            .info(format!("{name}: repaired {}", files(wrong.len())));
        Ok(())
    }

    fn checked(&self, checked: &CheckedModel, repaired: bool) -> Result<(), CommandFailure> {
        let mut object = json!(checked);
        object["repaired"] = json!(repaired);
        self.object(&object)
    }

    /// One line of JSON, if it was asked for.
    fn object(&self, object: &impl Serialize) -> Result<(), CommandFailure> {
        if !self.args.json {
            return Ok(());
        }
        let object: Value = json!(object);
        self.printer.json(&format!("{object}\n"))
    }
}

fn parse(name: &str) -> Result<ModelId, CommandFailure> {
    name.parse().map_err(|reason: String| {
        let folder = if Path::new(name).is_dir() {
            "; it is a folder, which needs no download"
        } else {
            ""
        };
        CommandFailure::usage(format!("{reason}{folder}"))
    })
}

fn files(count: usize) -> String {
    format!("{count} file{}", if count == 1 { "" } else { "s" })
}

/// A commit as people write it.
fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn table(listed: &ListedWeights, text: &mut TextTable) {
    let size = |size: Option<u64>| size.map_or_else(|| "?".to_owned(), bytes);
    let width = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let path_width = width(&mut listed.files.iter().map(|file| file.path.len()));
    let size_width = width(&mut listed.files.iter().map(|file| size(file.size).len()));
    for file in &listed.files {
        let mut notes: Vec<String> = file
            .precision
            .iter()
            .map(|precision| format!("--precision {precision}"))
            .collect();
        if file.kind == ListedKind::Safetensors {
            notes.push("--provider native, if it supports the architecture".to_owned());
        }
        if !file.data.is_empty() {
            notes.push(format!("with {}", file.data.join(", ")));
        }
        text.line(&format!(
            "{:path_width$}  {:>size_width$}  {}",
            file.path,
            size(file.size),
            notes.join(", ")
        ));
    }
}
