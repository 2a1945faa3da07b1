//! This processor's peak in operations per second: products and their sums in registers, on every usable core, with the
//! native engine's best instructions.
//!
//! It is a bound to compare with, measured rather than taken from a data sheet, so it includes clock speeds under load
//! and a container's limit on cores. Processor time is counted, so that a busy machine does not seem a slow one. AMX's
//! tiles count where the system gives them, SME does not, and AVX-512 counts only where it has VNNI. A number in single
//! precision takes six products of tiles' bytes.

use std::time::{Duration, Instant};

use crate::size::per;
use crate::stage::thread_time;
use embedctl_kernels::{Arithmetic, Isa, peak};

/// Turns of the loop between looks at the clock.
const TURNS: usize = 20_000;

/// A measured peak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// 10⁹ operations a second, all cores together; a product and its addition are two.
    pub gflops: f64,
    /// Instructions that were used, by the name that `EMBEDCTL_CPU` knows them by.
    pub vectors: &'static str,
}

/// Runs the loop on `threads` threads for about `time`, several times, and takes the best. `None` where the
/// processor has no instruction of its own for that arithmetic.
#[must_use]
pub fn measure(arithmetic: Arithmetic, threads: usize, time: Duration) -> Option<Peak> {
    const PARTS: u32 = 5;
    let isa = Isa::here().unwrap_or_else(|_| Isa::best());
    let part = || run(isa, arithmetic, threads.max(1), time / PARTS);
    isa.speeds_up(arithmetic).then(|| Peak {
        gflops: (0..PARTS).map(|_| part()).fold(0.0, f64::max),
        vectors: isa.name(),
    })
}

fn run(isa: Isa, arithmetic: Arithmetic, threads: usize, time: Duration) -> f64 {
    let rates = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    let (start, processor) = (Instant::now(), thread_time());
                    let mut operations = 0_usize;
                    loop {
                        operations += peak::operations(isa, arithmetic, TURNS);
                        let mut passed = start.elapsed();
                        if passed < time {
                            continue;
                        }
                        // Time that other processes took on this core does not count.
                        if let (Some(start), Some(end)) = (processor, thread_time()) {
                            passed = end.saturating_sub(start);
                        }
                        return per(operations as f64, passed.as_secs_f64());
                    }
                })
            })
            .collect();
        // A thread that panicked (none does) would count as no operations.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0.0))
            .sum::<f64>()
    });
    rates / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_measured() {
        for arithmetic in [
            Arithmetic::Fp32,
            Arithmetic::Bf16,
            Arithmetic::Int16,
            Arithmetic::Int8,
        ] {
            let peak = measure(arithmetic, 1, Duration::from_millis(5));
            let isa = Isa::here().unwrap();
            assert_eq!(peak.is_some(), isa.speeds_up(arithmetic));
            assert!(peak.is_none_or(|peak| peak.gflops > 0.0), "{peak:?}");
        }
    }
}
