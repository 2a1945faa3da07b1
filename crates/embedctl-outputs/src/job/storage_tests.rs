//! A storage for tests, which refuses one of its calls, or takes turns with another run.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tempfile::TempDir;

use crate::error::{Error, Place, Result};
use crate::remedies::with_remedy;
use crate::storage::{Content, Entry, FolderLock, SharedFolder};

/// Does what `inner` does, with something in the way of its calls.
#[derive(Debug, Clone)]
pub struct TestStorage {
    inner: Arc<dyn SharedFolder>,
    /// How many calls were made.
    pub calls: Arc<AtomicU64>,
    in_the_way: StorageFaults,
    fetched: Arc<TempDir>,
}

/// The faults that calls meet.
#[derive(Debug, Clone)]
enum StorageFaults {
    /// Call number `fails` (from 0) fails, before or after it has done its work, and so do all that follow it where
    /// `dead`, as after a kill.
    Fault {
        fails: u64,
        /// Whether the failing call does its work before it fails, as a lost answer does.
        late: bool,
        dead: bool,
    },
    /// They wait for the turn of that run.
    Turns(Arc<CallOrder>, usize),
}

impl TestStorage {
    pub fn new(inner: impl SharedFolder + 'static, fails: u64, late: bool, dead: bool) -> Self {
        Self::over(Arc::new(inner), fails, late, dead)
    }

    pub fn over(inner: Arc<dyn SharedFolder>, fails: u64, late: bool, dead: bool) -> Self {
        Self::with(inner, StorageFaults::Fault { fails, late, dead })
    }

    /// The storage of that `run` of two.
    pub fn in_turns(inner: Arc<dyn SharedFolder>, turns: &Arc<CallOrder>, run: usize) -> Self {
        Self::with(inner, StorageFaults::Turns(Arc::clone(turns), run))
    }

    fn with(inner: Arc<dyn SharedFolder>, in_the_way: StorageFaults) -> Self {
        Self {
            inner,
            calls: Arc::default(),
            in_the_way,
            fetched: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    fn call<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let (fails, late, dead) = match &self.in_the_way {
            StorageFaults::Turns(turns, run) => return turns.call(*run, work),
            StorageFaults::Fault { fails, late, dead } => (*fails, *late, *dead),
        };
        if !(call == fails || (dead && call > fails)) {
            return work();
        }
        if late && call == fails {
            work()?;
        }
        let full = io::Error::from(ErrorKind::StorageFull);
        Err(Error::io(
            "write to",
            "the faulty storage",
            with_remedy(full),
        ))
    }
}

impl SharedFolder for TestStorage {
    fn place(&self, name: &str) -> Place {
        self.inner.place(name)
    }
    fn put(&self, name: &str, content: Content<'_>) -> Result<bool> {
        self.call(|| self.inner.put(name, content))
    }
    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.call(|| self.inner.list(folder))
    }
    fn version(&self, name: &str) -> Result<Option<String>> {
        self.call(|| self.inner.version(name))
    }
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.call(|| self.inner.read(name))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.call(|| self.inner.remove(name))
    }
    fn file(&self, name: &str) -> Result<PathBuf> {
        if let StorageFaults::Turns(..) = self.in_the_way {
            return self.call(|| self.inner.file(name));
        }
        // Alone, as an object is fetched.
        self.call(|| {
            let path = self.fetched.path().join(name);
            let fetched = fs::copy(self.inner.file(name)?, &path);
            fetched.map_err(|error| Error::io("read", &path, error))?;
            Ok(path)
        })
    }
    fn scratch(&self, lock: &str) -> Result<PathBuf> {
        self.call(|| self.inner.scratch(lock))
    }
    fn lock(&self, name: &str) -> Result<Option<FolderLock>> {
        self.call(|| self.inner.lock(name))
    }
}

/// Who calls the storage: the first run so many times, then the second so many times, then the first to its end, and
/// then the second.
#[derive(Debug)]
pub struct CallOrder {
    calls: [usize; 2],
    pub state: Mutex<(usize, [usize; 2])>,
    changed: Condvar,
}

impl CallOrder {
    pub fn new(first: usize, second: usize) -> Arc<Self> {
        Arc::new(Self {
            calls: [first, second],
            state: Mutex::new((usize::from(first == 0), [0; 2])),
            changed: Condvar::new(),
        })
    }

    fn call<T>(&self, run: usize, work: impl FnOnce() -> T) -> T {
        let state = self.state.lock().unwrap();
        let wait = |state: &mut (usize, _)| state.0 % 2 != run;
        let mut state = self.changed.wait_while(state, wait).unwrap();
        state.1[run] += 1;
        let done = work();
        if state.0 == run && state.1[run] == self.calls[run] {
            state.0 += 1;
            self.changed.notify_all();
        }
        done
    }

    /// The run has ended.
    pub fn end(&self, run: usize) {
        let state = self.state.lock().unwrap();
        let wait = |state: &mut (usize, _)| state.0 % 2 != run;
        let mut state = self.changed.wait_while(state, wait).unwrap();
        // Only the other one goes on.
        state.0 = 3 - run;
        self.changed.notify_all();
    }
}
