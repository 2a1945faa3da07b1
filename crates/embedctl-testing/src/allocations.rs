//! The allocator of tests: the system's, with a report of the size of each request.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::mutation::asked;

/// The system's allocator, watched; a test names it as its `#[global_allocator]`.
pub struct WatchedMemory;

// SAFETY: everything is the system's, unchanged; the report is a number in a thread's own cell, which needs no memory.
unsafe impl GlobalAlloc for WatchedMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        asked(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        asked(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        asked(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
