//! The program's allocator: the system's, which remembers that memory was lacking. Rust ends such a process by SIGABRT, like
//! a fault, and the message should tell the two apart.
//!
//! A failed allocation ends the process, unless the thread continues with less memory: the native engine retries
//! with half a batch. So each thread remembers the size of its last failed allocation until one of similar size
//! succeeds.
//!
//! A crate of its own, since tokenization allocates for each token, and the program itself is built without optimisation in
//! a clone. A program that calls [`ran_out`] has this allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which remembers failed allocations.
struct RecordingAllocator;

#[global_allocator]
static ALLOCATOR: RecordingAllocator = RecordingAllocator;

thread_local! {
    /// Size of this thread's last failed allocation; 0 after a later one of similar size succeeded. Needs no
    /// initialization or drop, so an allocator and a signal handler may read it.
    static IN_VAIN: Cell<usize> = const { Cell::new(0) };
}

/// Whether an allocation of this thread failed, and none of similar size succeeded since. May be called in a signal
/// handler.
#[must_use]
pub fn ran_out() -> bool {
    IN_VAIN.get() > 0
}

fn remembered(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        IN_VAIN.set(size);
    } else if size >= IN_VAIN.get() / 4 {
        // Smaller allocations, below a quarter, may come from the failure message itself: a variable, a backtrace.
        IN_VAIN.set(0);
    }
    memory
}

// SAFETY: every call is the system's allocator's own; storing a number of the thread's allocates nothing.
unsafe impl GlobalAlloc for RecordingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the callee's.
        remembered(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        remembered(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        remembered(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::ptr::{dangling_mut, null_mut};

    use super::*;

    #[test]
    fn a_thread_that_goes_on_has_not_run_out() {
        let mut all: Vec<u8> = Vec::new();
        assert!(
            black_box(&mut all)
                .try_reserve_exact(isize::MAX as usize)
                .is_err()
        );
        assert!(ran_out());
        let elsewhere = std::thread::spawn(ran_out).join().unwrap();
        assert!(ran_out() && !elsewhere, "a thread's memory is its own");
        remembered(null_mut(), 1 << 30);
        remembered(dangling_mut(), 1 << 20);
        assert!(ran_out(), "what is said about it takes little");
        remembered(dangling_mut(), 1 << 29);
        assert!(!ran_out(), "half a batch is had");
    }
}
