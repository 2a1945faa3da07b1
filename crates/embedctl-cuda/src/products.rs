//! Products of activations and weights, by cuBLASLt.
//!
//! The algorithm of a product is chosen once for all batches, by the product's own shape and without sums that are split
//! among blocks: so a row's numbers do not depend on how many rows run together.

mod prepared;
mod trial;

use std::collections::HashMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex};

use embedctl_common::error::{Error, Result};
use embedctl_common::threads::locked;
use embedctl_common::{hash, small_file};

use self::prepared::Prepared;
pub use self::trial::try_product;
use crate::card::Card;
use crate::kernels::keep;
use crate::library::{Algorithm, DevicePointer, Multiplier, Object};
use crate::memory::{CardStream, DeviceMemory};
use crate::{CardElement, NAME};

/// Bytes that an algorithm may use beside its matrices.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// More bytes than the file of choices has.
const LARGEST_FILE: u64 = 4 << 20;

/// Algorithms that are measured.
const CANDIDATES: usize = 8;

/// The shape of a product: `y[tokens, outputs] = x[tokens, inputs] · wᵀ (+ bias) (+ base)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProductShape {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Values from token to token of `x`.
    pub(crate) x_stride: usize,
    /// Values from row to row of `w`.
    pub(crate) w_stride: usize,
    /// Values from token to token of `y` and of the base.
    pub(crate) y_stride: usize,
    /// Whether the result is in single precision.
    pub(crate) is_wide: bool,
    pub(crate) has_bias: bool,
    /// Whether something is added that has the result's form.
    pub(crate) has_base: bool,
}

/// Bytes by which addresses of the card's memory can be divided.
const ALIGNMENT: usize = 256;

impl ProductShape {
    /// The bytes by which the addresses of `w`, `x` and `y` can be divided. They may begin inside of a larger matrix: at
    /// a head's channels, or at an expert's rows.
    fn alignments(&self, element: usize) -> [usize; 3] {
        let result = if self.is_wide { 4 } else { element };
        let of = |values: [usize; 2], bytes: usize| {
            let most = values.iter().map(|it| (it * bytes).trailing_zeros()).min();
            ALIGNMENT.min(1 << most.unwrap_or(0).min(usize::BITS - 1))
        };
        [
            of([self.inputs, self.w_stride], element),
            of([self.inputs, self.x_stride], element),
            of([self.outputs, self.y_stride], result),
        ]
    }

    fn numbers(self) -> [usize; 8] {
        [
            self.inputs,
            self.outputs,
            self.x_stride,
            self.w_stride,
            self.y_stride,
            self.is_wide.into(),
            self.has_bias.into(),
            self.has_base.into(),
        ]
    }
}

/// A line of the file of choices: the numbers of a shape, and the words of its algorithm.
fn kept_choice(line: &str) -> Option<(ProductShape, Algorithm)> {
    let mut parts = line.split(' ');
    let mut number = || parts.next()?.parse::<usize>().ok();
    let mut sizes = [0; 5];
    for size in &mut sizes {
        *size = number()?;
    }
    let [inputs, outputs, x_stride, w_stride, y_stride] = sizes;
    let shape = ProductShape {
        inputs,
        outputs,
        x_stride,
        w_stride,
        y_stride,
        is_wide: number()? == 1,
        has_bias: number()? == 1,
        has_base: number()? == 1,
    };
    let mut algorithm = [0; 8];
    for word in &mut algorithm {
        *word = u64::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some((shape, algorithm))
}

/// The matrices of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands {
    pub(crate) w: DevicePointer,
    pub(crate) x: DevicePointer,
    /// Of the result's type.
    pub(crate) bias: DevicePointer,
    pub(crate) base: DevicePointer,
    pub(crate) y: DevicePointer,
}

/// Products on a card.
pub(crate) struct Products {
    card: Arc<Card>,
    handle: Object,
    element: CardElement,
    /// Whether single precision is multiplied in TF32.
    tf32: bool,
    chosen: Mutex<HashMap<ProductShape, Algorithm>>,
    /// The file in which choices are kept: by measuring again another run could choose otherwise.
    file: Option<PathBuf>,
}

// SAFETY: cuBLASLt's handle may be used by several threads.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    /// Products of `element`, with the algorithms that are kept in `cache` for this card and these libraries.
    pub(crate) fn new(
        card: &Arc<Card>,
        element: CardElement,
        tf32: bool,
        cache: Option<&Path>,
    ) -> Result<Self> {
        card.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer leads to a pointer.
        let status = unsafe { (card.libraries.multiplier.create)(&raw mut handle) };
        check(status, "start")?;
        let file = cache.map(|folder| {
            let key = format!("{:?} {element:?} {tf32}", card.info);
            folder.join(format!("products-{}.txt", hash::of(key)))
        });
        let products = Self {
            card: Arc::clone(card),
            handle,
            element,
            tf32,
            chosen: Mutex::default(),
            file,
        };
        products.take_kept();
        Ok(products)
    }

    /// Takes the choices in the file, which go before those made here.
    fn take_kept(&self) {
        let text = self
            .file
            .as_ref()
            .map(|file| small_file::read_text(file, LARGEST_FILE));
        let Some(Ok(text)) = text else {
            return;
        };
        let mut chosen = locked(&self.chosen);
        chosen.extend(text.lines().filter_map(kept_choice));
    }

    /// Keeps the choices. Where another run has kept some in the meantime, those are taken.
    pub(crate) fn keep(&self) {
        let Some(file) = &self.file else {
            return;
        };
        self.take_kept();
        let lines = self.chosen().into_iter().map(|(shape, algorithm)| {
            let numbers = shape.numbers().map(|number| number.to_string());
            let words = algorithm.map(|word| format!("{word:x}"));
            format!("{} {}\n", numbers.join(" "), words.join(" "))
        });
        let text: String = lines.collect();
        // A cache that cannot be written costs time alone.
        let _ = keep(file, text.as_bytes());
    }

    /// Multiplies for `tokens` tokens. `workspace` is [`WORKSPACE`] bytes of the stream's own.
    pub(crate) fn run(
        &self,
        stream: &CardStream,
        workspace: DevicePointer,
        shape: ProductShape,
        tokens: usize,
        operands: Operands,
    ) -> Result<()> {
        if tokens == 0 {
            return Ok(());
        }
        let prepared = Prepared::new(self, shape, tokens, operands.bias)?;
        let algorithm = locked(&self.chosen).get(&shape).copied();
        let algorithm = match algorithm {
            Some(algorithm) => algorithm,
            // A shape that was not foreseen: the first that is proposed, for good.
            None => {
                let first = prepared.proposed(1)?;
                let first = first.first().copied().ok_or_else(no_algorithm)?;
                *locked(&self.chosen).entry(shape).or_insert(first)
            }
        };
        prepared.run(stream, workspace, &algorithm, operands)
    }

    /// Chooses the algorithm of a shape by measuring on `tokens` tokens.
    pub(crate) fn choose(
        &self,
        stream: &CardStream,
        workspace: &DeviceMemory,
        shape: ProductShape,
        tokens: usize,
        operands: Operands,
    ) -> Result<()> {
        if locked(&self.chosen).contains_key(&shape) {
            return Ok(());
        }
        let prepared = Prepared::new(self, shape, tokens, operands.bias)?;
        let clock = Clock::new(&self.card)?;
        let mut best: Option<(f32, Algorithm)> = None;
        for algorithm in prepared.proposed(CANDIDATES)? {
            let run = || prepared.run(stream, workspace.pointer, &algorithm, operands);
            // One that fails is not taken. A lost device fails for all.
            let Ok(time) = run().and_then(|()| clock.time(stream, run)) else {
                continue;
            };
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, algorithm));
            }
        }
        let (_, algorithm) = best.ok_or_else(no_algorithm)?;
        locked(&self.chosen).insert(shape, algorithm);
        Ok(())
    }

    /// The shapes and their algorithms, in a fixed order, for provenance.
    pub(crate) fn chosen(&self) -> Vec<(ProductShape, Algorithm)> {
        let chosen = locked(&self.chosen);
        let mut all: Vec<_> = chosen.iter().map(|(shape, it)| (*shape, *it)).collect();
        all.sort_by_key(|(shape, _)| (shape.outputs, shape.inputs, shape.has_base, shape.is_wide));
        all
    }

    fn functions(&self) -> &Multiplier {
        &self.card.libraries.multiplier
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: it was created, and is destroyed once.
            unsafe { (self.card.libraries.multiplier.destroy)(self.handle) };
        }
    }
}

/// Two events, between which work is timed.
struct Clock {
    card: Arc<Card>,
    events: [Object; 2],
}

impl Clock {
    fn new(card: &Arc<Card>) -> Result<Self> {
        let mut clock = Self {
            card: Arc::clone(card),
            events: [ptr::null_mut(); 2],
        };
        for event in &mut clock.events {
            // SAFETY: the pointer leads to a pointer.
            let status = unsafe { (card.libraries.driver.event)(event, 0) };
            card.check(status, "make a clock")?;
        }
        Ok(clock)
    }

    /// Milliseconds of `work`.
    fn time(&self, stream: &CardStream, work: impl Fn() -> Result<()>) -> Result<f32> {
        let driver = &self.card.libraries.driver;
        let [start, end] = self.events;
        let mut time = 0.0;
        // SAFETY: both events are there.
        unsafe {
            let failed = |status| self.card.check(status, "measure a product");
            failed((driver.record)(start, stream.object))?;
            for _ in 0..3 {
                work()?;
            }
            failed((driver.record)(end, stream.object))?;
            failed((driver.wait_event)(end))?;
            failed((driver.elapsed)(&raw mut time, start, end))?;
        }
        Ok(time)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        for event in self.events.into_iter().filter(|it| !it.is_null()) {
            // SAFETY: the event was made, and is destroyed once.
            unsafe { (self.card.libraries.driver.destroy_event)(event) };
        }
    }
}

fn no_algorithm() -> Error {
    Error::engine(
        NAME,
        "cuBLASLt has no algorithm for a product of this model",
    )
}

fn check(status: c_int, action: &str) -> Result<()> {
    const ALLOCATION_FAILED: c_int = 3;
    match status {
        0 => Ok(()),
        ALLOCATION_FAILED => Err(Error::new(
            embedctl_common::ErrorKind::OutOfMemory,
            NAME,
            format!("cuBLASLt cannot {action}: out of memory"),
        )),
        status => Err(Error::engine(
            NAME,
            format!("cuBLASLt cannot {action} (status {status})"),
        )),
    }
}
