//! `embedctl serve`: a model behind HTTP, until a signal comes.

use std::sync::Arc;
use std::time::Duration;

use embedctl::cancel::CancelToken;
use embedctl::engine::EngineOptions;
use embedctl::error::Error;
use embedctl::model::{Model, ModelName, ModelOptions, ModelTask, ScoreTask};
use embedctl::output::RunFiles;
use embedctl::serve::{self, ApiKeys, LikeFile, Notice, Notify, ReadyModel, ServerOptions};
use embedctl::setting::API_KEY_FILE;

use super::{requested, stores};
use crate::args::{MessageArgs, ServeArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, engine_label};

/// Opens the model and serves it.
pub fn run(
    args: &ServeArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let mut server = options(args, messages)?;
    let cancel = CancelToken::with_patience(server.drain);
    let cancel = interrupt::watch_for(RunFiles::new(), cancel)?;
    server.drain = cancel.patience();
    let storage = stores::storage(
        args.like.iter().map(std::path::PathBuf::as_path),
        &args.stores.options,
        messages,
        &cancel,
    )?;
    // Whatever is wrong with a file or an address is found before a model is opened.
    let mut like = match &args.like {
        Some(path) => Some(LikeFile::open(path, storage.as_ref())?),
        None => None,
    };
    let listener = args.bind()?;

    let named = args.model.clone().or_else(|| match like {
        Some(_) => None,
        None => std::env::var("EMBEDCTL_MODEL").ok(),
    });
    let named = named.filter(|name| !name.is_empty());
    let name = named.as_deref().unwrap_or(ModelName::DEFAULT);
    let mut model = requested::model(name, &args.overrides, messages);
    let mut engine = EngineOptions {
        workers: args.limits.threads.unwrap_or(0),
        ..requested::engine(&args.engine)?
    };
    if let Some(like) = &mut like {
        (model, engine) = like.options(named.as_deref(), &model, &engine)?;
    }
    let mut resolved = super::resolve_here(&model, &engine, messages, printer, &cancel)?;
    if like.is_none() {
        resolved = resolved.with_settings(&ModelOptions {
            task: task(&model, args.softmax)?,
            ..model.clone()
        });
    }
    let verified = match (&like, args.verify) {
        (Some(like), Some(count)) => {
            let recorded = super::resolve(&like.recorded(&model)?, &engine, &cancel)?;
            let verified = like.verify(count, recorded, &cancel)?;
            let one = std::slice::from_ref(&verified.worst);
            let several = !verified.columns.is_empty();
            for column in if several { &verified.columns } else { one } {
                let name = match several {
                    true => format!("{}: ", column.column),
                    false => String::new(),
                };
                let found = column.in_words();
                printer.info(format!(
                    "{name}{} rows embedded again: {found}",
                    verified.rows
                ));
            }
            Some(verified)
        }
        _ => None,
    };
    if let Some(like) = &mut like {
        resolved = like.settle(&resolved)?;
    }
    let ready = serve::open(resolved, like.as_ref(), verified.as_ref(), &cancel)?;
    for note in &ready.notes {
        printer.note(note);
    }
    for warning in &ready.warnings {
        printer.warning(warning);
    }
    if like.is_some() {
        announce_prompt(&ready, printer);
    }
    printer.info(format!(
        "model {}, {}, engine {}, {} threads",
        ready.id,
        numbers(&ready),
        engine_label(&ready.engine),
        ready.threads
    ));
    if let Some(rows) = ready.model.corpus() {
        printer.info(match server.shows_rows(&listener) {
            true => format!("rows of {} are found by POST /search", rows.name()),
            false => format!(
                "rows of {} are not shown, since anybody reaches this server: {API_KEY_FILE} asks for keys",
                rows.name()
            ),
        });
    }
    serve::serve(ready.model, listener, server, notify(printer), &cancel)?;
    printer.info("stopped");
    Ok(ExitCode::Done)
}

/// Says which prompt queries get.
fn announce_prompt(ready: &ReadyModel, printer: &Printer) {
    if let Some(prompt) = &ready.prompt {
        printer.info(match prompt.is_empty() {
            true => match ready.model.corpus().and_then(|rows| rows.prompt_name()) {
                Some(name) => format!(
                    "queries get no prompt, as the texts; those of POST /search get the model's prompt `{name}`"
                ),
                None => "queries get no prompt".to_owned(),
            },
            false => format!("queries get the prompt {prompt:?}"),
        });
    }
}

fn options(args: &ServeArgs, messages: &MessageArgs) -> Result<ServerOptions, CommandFailure> {
    let usual = ServerOptions::default();
    let limits = &args.limits;
    let timeout = limits
        .timeout
        .map_or(usual.timeout, Duration::from_secs_f64);
    Ok(ServerOptions {
        max_body: limits.max_body_bytes.unwrap_or(usual.max_body),
        max_inputs: limits.max_inputs.unwrap_or(usual.max_inputs),
        max_queue: limits.max_queue.unwrap_or(usual.max_queue),
        timeout,
        client_timeout: limits
            .client_timeout
            .map_or(usual.client_timeout, Duration::from_secs_f64),
        drain: timeout,
        max_connections: None,
        served_names: args.clients.served_model_name.clone(),
        allow_origins: args.clients.allow_origin.clone(),
        allow_hosts: args.clients.allow_host.clone(),
        keys: args
            .api_key_file
            .as_deref()
            .map(ApiKeys::read)
            .transpose()?,
        tell_requests: messages.verbose > 0,
        ..usual
    })
}

/// The kind of the server's answers: scores where the model's files say that it gives scores, else vectors.
fn task(model: &ModelOptions, softmax: bool) -> Result<ModelTask, CommandFailure> {
    match Model::usual_task(model)? {
        ModelTask::Score(task) => Ok(ModelTask::Score(ScoreTask { softmax, ..task })),
        ModelTask::Embed if softmax => Err(Error::usage(format!(
            "--softmax: the model {} gives vectors, not scores",
            model.model
        ))
        .with_remedy("leave it out")
        .into()),
        ModelTask::Embed => Ok(ModelTask::Embed),
    }
}

/// The numbers of an answer's rows, for people.
fn numbers(ready: &ReadyModel) -> String {
    let labels = &ready.model.card().labels;
    if !labels.is_empty() {
        return format!("scores of {}", labels.join(", "));
    }
    let widths: Vec<String> = ready.dimensions.0.iter().map(ToString::to_string).collect();
    format!("{} dimensions", widths.join(", "))
}

/// The server's messages, for people and programs.
fn notify(printer: &Printer) -> Notify {
    let printer = printer.clone();
    Arc::new(move |notice| match notice {
        Notice::Listening(address) => printer.info(format!("listening on {address}")),
        Notice::Draining(0) => printer.info("stopping"),
        Notice::Draining(requests) => {
            printer.info(format!("stopping once {requests} requests are answered"));
        }
        Notice::Warning(warning) => printer.warning(warning),
        Notice::Request(line) => printer.detail(line),
    })
}
