//! The memory that this process may still take. Linux grants more memory than there is, and kills a process that uses
//! it, so large allocations are checked against this first.

use super::Memory;

/// The limit on this process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The machine's free memory.
    Machine,
    /// The rest of the control group's limit, as a container has one.
    Group,
    /// The rest of the process's limit on addresses (`ulimit -v`).
    Addresses,
}

impl Bound {
    /// The limit, as part of a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Machine => "the machine has",
            Self::Group => "the control group (a container's limit on memory) leaves",
            Self::Addresses => "the process's limit on addresses (ulimit -v) leaves",
        }
    }
}

/// Memory that can still be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// In bytes.
    pub bytes: u64,
    /// The limit that it comes from.
    pub bound: Bound,
}

/// The memory that this process may still take; `None` if the system does not report it.
#[must_use]
pub fn room() -> Option<Room> {
    #[cfg(target_os = "linux")]
    {
        let root = std::path::Path::new("/");
        let group = super::limits::ControlGroupLimits::read(root).memory_left;
        let (memory, swap) = (super::cpu::memory_now(), super::cpu::swap_free(root));
        least(memory, swap, group, addresses_left())
    }
    #[cfg(not(target_os = "linux"))]
    {
        // Other systems lengthen their swap as they need it.
        let _ = addresses_left;
        least(super::cpu::memory_now(), u64::MAX, None, None)
    }
}

/// The narrowest of these bounds. A group cannot swap more than the machine can.
fn least(memory: Memory, swap: u64, group: Option<u64>, addresses: Option<u64>) -> Option<Room> {
    let machine = memory
        .available
        .map(|available| available.saturating_add(swap));
    let bounds = [
        (machine, Bound::Machine),
        (group, Bound::Group),
        (addresses, Bound::Addresses),
    ];
    let rooms = bounds
        .into_iter()
        .filter_map(|(bytes, bound)| bytes.map(|bytes| Room { bytes, bound }));
    rooms.min_by_key(|room| room.bytes)
}

/// The rest of the limit on addresses, in bytes.
#[cfg(target_os = "linux")]
fn addresses_left() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills in the struct and nothing else.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if asked != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').next()?.parse().ok()?;
    // SAFETY: asks for a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some(limit.rlim_cur.saturating_sub(pages.checked_mul(page)?))
}

#[cfg(not(target_os = "linux"))]
fn addresses_left() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_bound_counts() {
        let memory = Memory {
            available: Some(100),
            ..Memory::default()
        };
        let least = |group, addresses| least(memory, 10, group, addresses).unwrap();
        let room = |bytes, bound| Room { bytes, bound };
        assert_eq!(least(None, None), room(110, Bound::Machine));
        assert_eq!(least(Some(90), Some(95)), room(90, Bound::Group));
        assert_eq!(least(Some(u64::MAX), Some(95)), room(95, Bound::Addresses));
        assert_eq!(super::least(Memory::default(), 0, None, None), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_room() {
        let room = room().unwrap();
        assert!(room.bytes > 1 << 20, "{room:?}");
    }
}
