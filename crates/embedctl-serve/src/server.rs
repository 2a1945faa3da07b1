//! A server's life: it starts, serves, drains and ends.

use std::sync::Arc;
use std::time::Duration;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::setting::LISTEN;
use embedctl_common::threads::exhausted;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::connections::{Listener, accept};
use crate::listen::BoundListener;
use crate::metrics::Metrics;
use crate::model::ServedModel;
use crate::options::{Notice, Notify, ServerOptions};
use crate::queue::Queue;
use crate::routes::router;

/// Threads for connections, requests and answers. Models run on threads of their own.
const THREADS: usize = 2;

/// How long the runtime may take to end what is left after draining.
const END: Duration = Duration::from_secs(1);

/// Serves `model` until `cancel` is cancelled. Then `/health` fails, new work is refused, requests that were begun are
/// answered within [`ServerOptions::drain`], and connections are closed.
///
/// # Errors
/// If a worker, a thread or the listener cannot be had, or requests were left without an answer at the end.
pub fn serve(
    model: Arc<dyn ServedModel>,
    listener: BoundListener,
    options: ServerOptions,
    notify: Notify,
    cancel: &CancelToken,
) -> Result<()> {
    let metrics = Arc::new(Metrics::new());
    let (queue, threads) = Queue::start(&model, options.max_queue, &metrics)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(exhausted)?;
    let app = App::new(model, Arc::clone(&queue), metrics, options, notify);
    let served = runtime.block_on(run(Arc::new(app), listener, cancel.clone()));
    queue.close();
    runtime.shutdown_timeout(END);
    for thread in threads {
        // Its panics were answered.
        let _ = thread.join();
    }
    served
}

async fn run(app: Arc<App>, listener: BoundListener, cancel: CancelToken) -> Result<()> {
    let connections = Arc::new(GracefulShutdown::new());
    let address = listener.address();
    let router = router(Arc::clone(&app));
    let listening = Listener::new(&listener.0)
        .map_err(|error| Error::usage(format!("{LISTEN} {address}: {error}")))?;
    let accepting = accept(
        Arc::clone(&app),
        router,
        listening,
        Arc::clone(&connections),
    );
    let accepting = tokio::spawn(accepting);
    (app.notify)(Notice::Listening(address));
    // The channel never holds anything: it is closed.
    let _ = spawn_blocking(move || cancel.channel().recv().is_err()).await;
    let end = Instant::now() + app.options.drain;
    app.stop();
    (app.notify)(Notice::Draining(app.requests()));
    let drained = timeout_at(end, app.idle()).await;
    accepting.abort();
    // Its share of the connections goes with it.
    let _ = accepting.await;
    drop(listener);
    let left = app.requests();
    // Answers are written to the end; idle connections are closed.
    let end = end.min(Instant::now() + app.options.client_timeout);
    if let Ok(connections) = Arc::try_unwrap(connections) {
        let _ = timeout_at(end, connections.shutdown()).await;
    }
    match drained {
        Ok(()) => Ok(()),
        Err(_) => Err(Error::new(
            ErrorKind::Interrupted,
            "",
            format!("requests were not done in time and have no answer: {left}"),
        )),
    }
}
