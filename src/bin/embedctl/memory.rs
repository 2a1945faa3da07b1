//! Whether memory ran out: Rust ends a process that gets none in the same way as a fault does, by SIGABRT, and those who
//! are left with it should be told which it was.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, which remembers that it could not give what was asked for.
pub struct Remembering;

#[global_allocator]
static ALLOCATOR: Remembering = Remembering;

static RAN_OUT: AtomicBool = AtomicBool::new(false);

/// Whether some memory that was asked for was not there.
pub fn ran_out() -> bool {
    RAN_OUT.load(Ordering::Relaxed)
}

fn remembered(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        RAN_OUT.store(true, Ordering::Relaxed);
    }
    memory
}

// SAFETY: every call is the system's allocator's own; storing a flag allocates nothing.
unsafe impl GlobalAlloc for Remembering {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the callee's.
        remembered(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        remembered(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        remembered(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
