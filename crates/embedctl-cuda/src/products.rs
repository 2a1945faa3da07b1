//! Products of activations and weights, by cuBLASLt.
//!
//! The algorithm of a product is chosen once for all batches, by the product's own shape and without sums that are split
//! among blocks: so a row's numbers do not depend on how many rows run together.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex};

use embedctl_common::error::{Error, Result};
use embedctl_common::threads::locked;
use embedctl_common::{hash, small_file};

use crate::card::Card;
use crate::kernels::keep;
use crate::library::{Algorithm, DevicePointer, Heuristic, Multiplier, Object};
use crate::memory::{DeviceMemory, HostMemory, Stream};
use crate::{Element, NAME};

// `cudaDataType_t`.
const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
// `cublasComputeType_t`.
const COMPUTE_32F: c_int = 68;
const COMPUTE_32F_FAST_TF32: c_int = 77;
// `cublasLtMatmulDescAttributes_t`.
const TURN_FIRST: c_int = 3;
const EPILOGUE: c_int = 7;
const BIAS: c_int = 8;
const BIAS_TYPE: c_int = 26;
// `cublasLtEpilogue_t`.
const EPILOGUE_BIAS: c_int = 4;
// `cublasLtMatmulPreferenceAttributes_t`, and its scheme without sums that are split.
const MOST_WORKSPACE: c_int = 1;
const REDUCTIONS: c_int = 3;
/// Of the four matrices: the bytes by which their addresses can be divided.
const ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
const NO_REDUCTION: u32 = 0;

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
    element: Element,
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
        element: Element,
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
        stream: &Stream,
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
        stream: &Stream,
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

    fn kind(&self) -> c_int {
        match self.element {
            Element::F32 => R_32F,
            Element::F16 => R_16F,
            Element::Bf16 => R_16BF,
        }
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

/// The descriptions of a product for a number of tokens.
struct Prepared<'a> {
    products: &'a Products,
    shape: ProductShape,
    operation: Object,
    layouts: [Object; 3],
}

impl<'a> Prepared<'a> {
    fn new(
        products: &'a Products,
        shape: ProductShape,
        tokens: usize,
        bias: DevicePointer,
    ) -> Result<Self> {
        let functions = products.functions();
        let element = products.kind();
        let result = if shape.is_wide { R_32F } else { element };
        let compute = match (products.element, products.tf32) {
            (Element::F32, true) => COMPUTE_32F_FAST_TF32,
            _ => COMPUTE_32F,
        };
        let mut made = Self {
            products,
            shape,
            operation: ptr::null_mut(),
            layouts: [ptr::null_mut(); 3],
        };
        let leading = |stride: usize| i64::try_from(stride).unwrap_or(i64::MAX);
        // cuBLASLt's matrices are column by column: a row-major `[tokens, width]` is its `[width, tokens]`.
        let forms = [
            (element, shape.inputs, shape.outputs, shape.w_stride),
            (element, shape.inputs, tokens, shape.x_stride),
            (result, shape.outputs, tokens, shape.y_stride),
        ];
        // SAFETY: pointers lead to values of the types and sizes that the attributes have.
        unsafe {
            let status = (functions.operation)(&raw mut made.operation, compute, R_32F);
            check(status, "describe a product")?;
            made.set(TURN_FIRST, &1_i32)?;
            if shape.has_bias {
                made.set(EPILOGUE, &EPILOGUE_BIAS)?;
                made.set(BIAS_TYPE, &result)?;
                made.set(BIAS, &bias)?;
            }
            for (layout, (kind, rows, columns, stride)) in made.layouts.iter_mut().zip(forms) {
                let (rows, columns) = (rows as u64, columns as u64);
                let status = (functions.layout)(layout, kind, rows, columns, leading(stride));
                check(status, "describe a matrix")?;
            }
        }
        Ok(made)
    }

    /// # Safety
    /// The attribute has this type.
    unsafe fn set<T>(&self, attribute: c_int, value: &T) -> Result<()> {
        let value: *const T = value;
        let set = self.products.functions().set_operation;
        // SAFETY: as the caller says.
        let status = unsafe {
            set(
                self.operation,
                attribute,
                value.cast::<c_void>(),
                size_of::<T>(),
            )
        };
        check(status, "describe a product")
    }

    /// The algorithms that cuBLASLt proposes, the most promising first.
    fn proposed(&self, count: usize) -> Result<Vec<Algorithm>> {
        let functions = self.products.functions();
        let [w, x, y] = self.layouts;
        let none = Heuristic {
            algorithm: [0; 8],
            workspace: 0,
            state: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut found = vec![none; count];
        let mut number = 0;
        let mut preference = ptr::null_mut();
        // SAFETY: as for the descriptions; there is room for `count` results.
        let status = unsafe {
            check(
                (functions.preference)(&raw mut preference),
                "choose an algorithm",
            )?;
            let set = |attribute: c_int, value: *const c_void, bytes: usize| {
                (functions.set_preference)(preference, attribute, value, bytes)
            };
            let mut status = set(MOST_WORKSPACE, (&raw const WORKSPACE_BYTES).cast(), 8);
            if status == 0 {
                status = set(REDUCTIONS, (&raw const NO_REDUCTION_MASK).cast(), 4);
            }
            let [of_w, of_x, of_y] = self.shape.alignments(self.products.element.bytes());
            for (attribute, bytes) in ALIGNMENTS.into_iter().zip([of_w, of_x, of_y, of_y]) {
                let bytes = bytes as u32;
                if status == 0 {
                    status = set(attribute, (&raw const bytes).cast(), 4);
                }
            }
            if status == 0 {
                status = (functions.heuristic)(
                    self.products.handle,
                    self.operation,
                    w,
                    x,
                    y,
                    y,
                    preference,
                    c_int::try_from(count).unwrap_or(1),
                    found.as_mut_ptr(),
                    &raw mut number,
                );
            }
            (functions.destroy_preference)(preference);
            status
        };
        check(status, "choose an algorithm")?;
        found.truncate(usize::try_from(number).unwrap_or(0));
        let usable = found.into_iter().filter(|it| it.state == 0);
        Ok(usable.map(|it| it.algorithm).collect())
    }

    fn run(
        &self,
        stream: &Stream,
        workspace: DevicePointer,
        algorithm: &Algorithm,
        operands: Operands,
    ) -> Result<()> {
        let [w, x, y] = self.layouts;
        let one = 1.0;
        let (base, factor) = match self.shape.has_base {
            true => (operands.base, 1.0),
            false => (operands.y, 0.0),
        };
        // SAFETY: the matrices have the forms that are described; their owners keep them until the stream was waited for.
        let status = unsafe {
            (self.products.functions().multiply)(
                self.products.handle,
                self.operation,
                &raw const one,
                operands.w,
                w,
                operands.x,
                x,
                &raw const factor,
                base,
                y,
                operands.y,
                y,
                algorithm,
                workspace,
                WORKSPACE,
                stream.object,
            )
        };
        check(status, "multiply")
    }
}

/// Multiplies two small matrices of whole numbers on `card`, whose product is exact.
///
/// # Errors
/// If the card fails, or the result is wrong.
pub fn try_product(card: &Arc<Card>) -> Result<()> {
    const SIZE: usize = 64;
    let values = |seed: usize| -> Vec<f32> {
        let value = |at: usize| (at * seed % 7) as f32 - 3.0;
        (0..SIZE * SIZE).map(value).collect()
    };
    let (w, x) = (values(3), values(5));
    let products = Products::new(card, Element::F32, false, None)?;
    let stream = Stream::new(card)?;
    let workspace = DeviceMemory::new(card, WORKSPACE)?;
    let [on_w, on_x] = [
        DeviceMemory::of(card, &w, &stream)?,
        DeviceMemory::of(card, &x, &stream)?,
    ];
    let y = DeviceMemory::new(card, SIZE * SIZE * 4)?;
    let shape = ProductShape {
        inputs: SIZE,
        outputs: SIZE,
        x_stride: SIZE,
        w_stride: SIZE,
        y_stride: SIZE,
        is_wide: true,
        has_bias: false,
        has_base: false,
    };
    let operands = Operands {
        w: on_w.pointer,
        x: on_x.pointer,
        bias: 0,
        base: 0,
        y: y.pointer,
    };
    products.run(&stream, workspace.pointer, shape, SIZE, operands)?;
    let mut found = HostMemory::<f32>::new(card, SIZE * SIZE)?;
    stream.read(y.pointer, &mut found, SIZE * SIZE)?;
    stream.wait()?;
    let product = |token: usize, output: usize| -> f32 {
        let (x, w) = (&x[token * SIZE..][..SIZE], &w[output * SIZE..][..SIZE]);
        x.iter().zip(w).map(|(x, w)| x * w).sum()
    };
    let is_right = (found.values().iter().enumerate())
        .all(|(at, value)| *value == product(at / SIZE, at % SIZE));
    match is_right {
        true => Ok(()),
        false => Err(Error::engine(NAME, "the card multiplies matrices wrongly")),
    }
}

static WORKSPACE_BYTES: usize = WORKSPACE;
static NO_REDUCTION_MASK: u32 = NO_REDUCTION;

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        let functions = self.products.functions();
        // SAFETY: what is there was made once, and is destroyed once.
        unsafe {
            if !self.operation.is_null() {
                (functions.destroy_operation)(self.operation);
            }
            for layout in self.layouts.into_iter().filter(|it| !it.is_null()) {
                (functions.destroy_layout)(layout);
            }
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
    fn time(&self, stream: &Stream, work: impl Fn() -> Result<()>) -> Result<f32> {
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
