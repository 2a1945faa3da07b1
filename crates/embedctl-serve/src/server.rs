//! A server's life: it starts, serves, drains and ends.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::setting::LISTEN;
use embedctl_common::threads::exhausted;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

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

/// How long the runtime may take to end what is left after draining, and idle connections to be closed.
const END: Duration = Duration::from_millis(500);

/// Serves `model` until `cancel` is cancelled. Then `/health` fails, new work is refused, requests that were begun are
/// answered and their answers written to the end, all within [`ServerOptions::drain`], and connections are closed.
///
/// # Errors
/// If a worker, a thread or the listener cannot be had, or requests were left without an answer at the end or with a part
/// of it.
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
    let notify = (notify, listener.reach());
    let app = App::new(model, Arc::clone(&queue), metrics, options, notify);
    let served = runtime.block_on(run(Arc::new(app), listener, cancel.clone()));
    queue.close();
    runtime.shutdown_timeout(END);
    // A batch that took too long is not waited for.
    served?;
    for thread in threads {
        // Its panics were answered.
        let _ = thread.join();
    }
    Ok(())
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
    let cut_before = app.answers.all_cut();
    (app.notify)(Notice::Draining(app.requests() + app.answers.count()));
    // Those that are late are counted below.
    let _ = timeout_at(end, app.idle()).await;
    accepting.abort();
    // Its share of the connections goes with it.
    let _ = accepting.await;
    drop(listener);
    let left = app.requests();
    if let Ok(connections) = Arc::try_unwrap(connections) {
        let written = async {
            app.answers.written().await;
            sleep(END).await;
        };
        // Idle connections are closed, others behind their answers. Those that have begun a request are not waited for.
        let closed = first(connections.shutdown(), written);
        let _ = timeout_at(end, closed).await;
    }
    let cut = app.answers.count() + app.answers.all_cut() - cut_before;
    let reason = match (left, cut) {
        (0, 0) => return Ok(()),
        (0, cut) => {
            format!("answers were cut, since their clients had not read them in time: {cut}")
        }
        (left, 0) => format!("requests were not done in time and have no answer: {left}"),
        (left, cut) => format!(
            "requests were not done in time and have no answer: {left}; answers were cut, since their clients had not read \
             them in time: {cut}"
        ),
    };
    Err(Error::new(ErrorKind::Interrupted, "", reason))
}

/// Waits for one of two things.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let done = one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready();
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
