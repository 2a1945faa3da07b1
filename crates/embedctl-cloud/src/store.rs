//! The stores of a run: built from the environment and `--storage-option`, one for each bucket, and driven by one
//! thread, so that the rest of the program stays synchronous.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, select};
use futures_util::future::select as either;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use super::failure::{Failure, to_the_end, watched};
use super::refusal::{self, Operation};
use super::transport::{Connector, ServiceKind, StoreConnections};
use super::{RETRIES, options, settings};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::secrets::{Secrets, Typed};
use embedctl_common::threads::{locked, spawn};
use embedctl_hub::HubSettings;
use embedctl_storage::{
    Address, Child, ObjectStores, ObjectWriter, Scheme, Storage, StorageOption, StoredObject,
    WrittenObject,
};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// How long a request may be tried in all: a signature is good for some minutes.
const RETRY_TIME: Duration = Duration::from_secs(180);

/// Opens the stores that the environment and `options` give access to. Makes no request yet. Waiting operations end once
/// `cancel` is cancelled.
///
/// # Errors
/// If an option is known to no store, or the system gives no thread.
pub fn open(
    settings: HubSettings,
    options: Vec<StorageOption>,
    cancel: &CancelToken,
) -> Result<Storage> {
    Ok(Arc::new(Stores::new(settings, options, cancel)?))
}

/// The object stores of a run. Clones share their connections.
#[derive(Clone)]
pub(super) struct Stores(Arc<Inner>);

struct Inner {
    handle: Handle,
    /// Ends the driver's thread when dropped.
    _end: oneshot::Sender<()>,
    /// Ends the watch when dropped.
    _watched: Sender<()>,
    cancelled: watch::Receiver<bool>,
    connections: Arc<StoreConnections>,
    settings: HubSettings,
    secrets: Secrets,
    options: Vec<StorageOption>,
    cancel: CancelToken,
    buckets: Mutex<HashMap<(Scheme, String), Arc<dyn Bucket>>>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

/// A bucket, whose listings can be asked for page by page.
pub(super) trait Bucket: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Bucket for T {}

/// An object, as `object_store` is asked for it.
#[derive(Debug, Clone)]
pub(super) struct ObjectLocation {
    pub store: Arc<dyn ObjectStore>,
    pub path: Path,
}

impl Stores {
    /// As [`open`].
    ///
    /// # Errors
    /// As [`open`].
    pub(super) fn new(
        settings: HubSettings,
        options: Vec<StorageOption>,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let mut secrets = settings.secrets.clone();
        for option in &options {
            options::check(option)?;
            let typed = format!("{}={}", option.key, option.value);
            secrets.add_typed(Typed::StorageOption(&typed));
        }
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| {
            Error::new(ErrorKind::Exhausted, "object stores", error.to_string())
        })?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let drive = move || {
            let _ = runtime.block_on(ended);
            // Threads that make requests end by themselves.
            runtime.shutdown_background();
        };
        spawn("object stores", drive)?;
        let connections = Arc::new(StoreConnections::new(settings.clone(), cancel.clone()));
        let (told, cancelled) = watch::channel(false);
        let (watched, finished) = bounded::<()>(0);
        let (stop, stopped) = (Arc::clone(&connections), cancel.clone());
        let watch = move || {
            select! {
                recv(finished) -> _ => {}
                recv(stopped.channel()) -> _ => {
                    let _ = told.send(true);
                    stop.stop();
                }
            }
        };
        spawn("interrupts", watch)?;
        Ok(Self(Arc::new(Inner {
            handle,
            _end: end,
            _watched: watched,
            cancelled,
            connections,
            settings,
            secrets,
            options,
            cancel: cancel.clone(),
            buckets: Mutex::default(),
        })))
    }

    pub(super) fn settings(&self) -> &HubSettings {
        &self.0.settings
    }

    pub(super) fn cancel(&self) -> &CancelToken {
        &self.0.cancel
    }

    /// Starts a task that ends when the run is cancelled.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut cancelled = self.0.cancelled.clone();
        self.0.handle.spawn(async move {
            let cancelled = pin!(cancelled.wait_for(|&cancelled| cancelled));
            either(pin!(task), cancelled).await;
        });
    }

    /// Waits for an operation on `address`.
    ///
    /// # Errors
    /// The explained refusal; [`ErrorKind::Interrupted`] where the run was cancelled.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        address: &Address,
        doing: Operation,
        operation: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.attempt(operation)?
            .map_err(|failure| self.explain(address, doing, failure))
    }

    /// The same, where the caller wants to look at the failure first.
    pub(super) fn attempt<T: Send + 'static>(
        &self,
        operation: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<Result<T, Failure>> {
        let (done, result) = bounded(1);
        self.spawn(async move {
            let _ = done.send(watched(operation).await);
        });
        // Cancelled: the task is dropped, and `done` with it.
        match result.recv() {
            _ if self.0.cancel.is_cancelled() => Err(Error::interrupted()),
            Ok(result) => Ok(result),
            Err(_) => Err(Error::internal("an object store's request was lost")),
        }
    }

    /// The same for an operation that the caller may have to take back. If the run is cancelled, its end is still awaited
    /// for the time that a cancelled run may take: without the store's answer nobody could take it back.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`] where the run was cancelled before, or the answer took longer.
    pub(super) fn attempt_to_the_end<T: Send + 'static>(
        &self,
        operation: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<Result<T, Failure>> {
        let cancel = &self.0.cancel;
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let (done, result) = bounded(1);
        self.0.handle.spawn(async move {
            let _ = done.send(to_the_end(watched(operation)).await);
        });
        select! {
            recv(result) -> ended => ended.map_err(|_| Error::internal("an object store's request was lost")),
            recv(cancel.channel()) -> _ => {
                result.recv_timeout(cancel.patience()).map_err(|_| Error::interrupted())
            }
        }
    }

    /// Waits before another attempt, each time twice as long.
    ///
    /// # Errors
    /// If the run is cancelled meanwhile.
    pub(super) fn pause(&self, attempt: u32) -> Result<()> {
        let pause = self.0.settings.net.pause * 2_u32.pow(attempt);
        select! {
            recv(self.0.cancel.channel()) -> _ => Err(Error::interrupted()),
            default(pause.min(LONGEST_PAUSE)) => Ok(()),
        }
    }

    /// Runs a cleanup, also after the run was cancelled; for the time that a cancelled run may take, at most.
    pub(super) fn clean_up(&self, operation: impl Future<Output = ()> + Send + 'static) {
        let (done, result) = bounded::<()>(0);
        self.0.handle.spawn(async move {
            to_the_end(operation).await;
            drop(done);
        });
        let _ = result.recv_timeout(self.0.cancel.patience());
    }

    /// A failure in a sentence, without secrets.
    pub(super) fn explain(&self, address: &Address, doing: Operation, failure: Failure) -> Error {
        let mut secrets = self.0.secrets.clone();
        secrets.add_address(&address.in_full());
        refusal::explain(address, doing, failure, self.0.cancel.is_cancelled())
            .reworded(&|text| secrets.redact(text).into_owned())
    }

    /// Where an object is; `web` is its address where it comes from a web server after all.
    pub(super) fn location(
        &self,
        address: &Address,
        web: Option<String>,
    ) -> Result<ObjectLocation> {
        let scheme = address.scheme();
        if web.is_some() || scheme.is_web() {
            let url = web.unwrap_or_else(|| address.in_full());
            return Ok(ObjectLocation {
                store: self.web(address, &url)?,
                path: Path::default(),
            });
        }
        let path = Path::parse(address.key()).map_err(|error| {
            Error::usage(format!(
                "{address} is not a name that all object stores accept"
            ))
            .with_remedy("its folders may not be empty, '.' or '..'")
            .caused_by(error)
        })?;
        let store = self.bucket(address)?;
        Ok(ObjectLocation { store, path })
    }

    /// Takes `bucket` for that of an address.
    #[cfg(test)]
    pub(super) fn add_bucket(&self, address: &Address, bucket: Arc<dyn Bucket>) {
        let key = (address.scheme(), address.bucket().to_owned());
        locked(&self.0.buckets).insert(key, bucket);
    }

    /// The bucket of an address.
    pub(super) fn bucket(&self, address: &Address) -> Result<Arc<dyn Bucket>> {
        let key = (address.scheme(), address.bucket().to_owned());
        let mut buckets = locked(&self.0.buckets);
        if let Some(bucket) = buckets.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = self.build(address)?;
        buckets.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    fn connector(&self, kind: ServiceKind) -> Connector {
        Connector {
            connections: Arc::clone(&self.0.connections),
            kind,
        }
    }

    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: self.0.settings.net.pause,
                max_backoff: LONGEST_PAUSE,
                base: 2.0,
            },
            max_retries: RETRIES as usize,
            retry_timeout: RETRY_TIME,
        }
    }

    fn web(&self, address: &Address, url: &str) -> Result<Arc<dyn ObjectStore>> {
        let kind = match address.scheme() {
            Scheme::Hub => ServiceKind::Hub,
            _ => ServiceKind::Web,
        };
        let built = HttpBuilder::new()
            .with_url(url)
            .with_retry(self.retry())
            .with_http_connector(self.connector(kind))
            .build();
        match built {
            Ok(store) => Ok(Arc::new(store)),
            Err(_) => Err(Error::usage(format!("'{address}' is not an address"))),
        }
    }

    /// The store of a bucket, with the settings of the environment, then those of the options.
    fn build(&self, address: &Address) -> Result<Arc<dyn Bucket>> {
        // The builders have no trait in common.
        macro_rules! store {
            ($builder:ident, $key:ident, $prefix:literal, $others:expr, $name:ident, $own:expr) => {{
                let variables = std::env::vars_os();
                let set = settings::of_store::<$key>($prefix, $others, variables, self.options());
                let mut builder = $builder::default();
                for (key, value) in set {
                    builder = builder.with_config(key, value);
                }
                let built = $own(builder)?
                    .$name(address.bucket())
                    .with_retry(self.retry())
                    .with_http_connector(self.connector(ServiceKind::Store))
                    .build();
                let failed = |error| {
                    let failure = Failure {
                        error,
                        refusal: None,
                        answered: false,
                    };
                    self.explain(address, Operation::Open, failure)
                };
                Ok(Arc::new(built.map_err(failed)?))
            }};
        }
        match address.scheme() {
            Scheme::S3 => {
                let own = |builder| settings::refuse_profile(address, builder);
                store!(
                    AmazonS3Builder,
                    AmazonS3ConfigKey,
                    "AWS_",
                    &[],
                    with_bucket_name,
                    own
                )
            }
            Scheme::Az => {
                store!(
                    MicrosoftAzureBuilder,
                    AzureConfigKey,
                    "AZURE_",
                    &[("IDENTITY_ENDPOINT", AzureConfigKey::MsiEndpoint)],
                    with_container_name,
                    Ok::<_, Error>
                )
            }
            Scheme::Gs => {
                let own = |builder| Ok::<_, Error>(settings::emulated(builder));
                store!(
                    GoogleCloudStorageBuilder,
                    GoogleConfigKey,
                    "GOOGLE_",
                    &[("SERVICE_ACCOUNT", GoogleConfigKey::ServiceAccount)],
                    with_bucket_name,
                    own
                )
            }
            Scheme::Http | Scheme::Https | Scheme::Hub => {
                Err(Error::internal("a web server has no buckets"))
            }
        }
    }

    /// The options that a store knows.
    fn options<K: FromStr>(&self) -> impl Iterator<Item = (K, String)> {
        let known = |option: &StorageOption| Some((option.key.parse().ok()?, option.value.clone()));
        self.0.options.iter().filter_map(known)
    }
}

impl ObjectStores for Stores {
    fn list(&self, address: &Address) -> Result<Vec<StoredObject>> {
        let found = Self::list(self, address)?;
        Ok(found.into_iter().map(StoredObject::from).collect())
    }

    fn children(&self, prefix: &Address) -> Result<Vec<Child>> {
        Self::children(self, prefix)
    }

    fn look(&self, address: &Address) -> Result<StoredObject> {
        Self::look(self, address).map(StoredObject::from)
    }

    fn look_for(&self, address: &Address) -> Result<Option<StoredObject>> {
        Ok(Self::look_for(self, address)?.map(StoredObject::from))
    }

    fn exists(&self, address: &Address) -> Result<bool> {
        Self::exists(self, address)
    }

    fn create(&self, address: &Address, replace: bool) -> Result<Box<dyn ObjectWriter>> {
        Ok(Box::new(Self::create(self, address, replace)?))
    }

    fn put_new(&self, address: &Address, bytes: Vec<u8>) -> Result<Option<WrittenObject>> {
        Self::put_new(self, address, bytes.into())
    }

    fn put_over(&self, address: &Address, bytes: Vec<u8>) -> Result<()> {
        Self::put_over(self, address, bytes.into())
    }

    fn prove_conditional_writes(
        &self,
        shown: &Address,
        address: &Address,
        bytes: Vec<u8>,
    ) -> Result<()> {
        Self::prove_conditional_writes(self, shown, address, bytes.into())
    }

    fn remove(&self, address: &Address) -> Result<()> {
        Self::remove(self, address)
    }

    fn after_cancel(&self) -> Result<Storage> {
        let Inner {
            settings, options, ..
        } = &*self.0;
        open(settings.clone(), options.clone(), &CancelToken::new())
    }
}
