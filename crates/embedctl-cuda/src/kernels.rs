//! Kernels: their source, their compilation for a card, and their launches.
//!
//! The source is a part of this crate. NVRTC compiles it for the card that is there and for one network's numbers: the type of
//! its elements and the width of its heads. The result is kept in a cache, by a hash of all that decides it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::thread;

use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::{ErrorKind, atomic, small_file};

use crate::arguments::Arguments;
use crate::card::Card;
use crate::library::{Compiler, Object};
use crate::memory::CardStream;
use crate::{CardElement, NAME};

/// The words of kernels, for NVIDIA's compiler. An emulator has its own.
const WORDS: &str = include_str!("../kernels/device.cuh");

/// What kernels of both parts need.
const SHARED: &str = concat!(
    include_str!("../kernels/arguments.cuh"),
    include_str!("../kernels/elements.cuh"),
);

/// A part of the kernels, which is compiled beside the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelPart {
    /// Those of single tokens, experts and terms, which know nothing of heads.
    Rows,
    /// Attention.
    Attention,
}

impl KernelPart {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Attention];

    /// Its source.
    #[must_use]
    pub fn source(self) -> String {
        const ROWS: &str = concat!(
            include_str!("../kernels/rows.cu"),
            include_str!("../kernels/experts.cu"),
            include_str!("../kernels/terms.cu"),
        );
        let own = match self {
            Self::Rows => ROWS,
            Self::Attention => include_str!("../kernels/attention.cu"),
        };
        [WORDS, SHARED, own].concat()
    }
}

/// The widest head that kernels are made for.
pub const MOST_HEAD: usize = 256;

/// The widest row of a norm.
pub const MOST_NORM: usize = 32_768;

/// More bytes than a compiled module has.
const LARGEST_MODULE: u64 = 64 << 20;

/// The numbers that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelShape {
    /// The type of weights and activations.
    pub element: CardElement,
    /// Channels of a head.
    pub head: usize,
    /// Whether something is added to attention's scores, or they are bent.
    pub has_extras: bool,
    /// A bit for each of the norms' kernels that is wanted: all of them take a compiler seconds.
    pub norms: u32,
}

/// Channels of a head, rounded up to those that a tensor core multiplies.
pub(crate) fn padded_head(size: usize) -> usize {
    size.max(1).next_multiple_of(16)
}

impl KernelShape {
    /// The compiler's options for a part and a card.
    #[must_use]
    pub fn options(self, part: KernelPart, architecture: u32) -> Vec<String> {
        let element = match self.element {
            CardElement::F32 => 0,
            CardElement::F16 => 1,
            CardElement::Bf16 => 2,
        };
        let mut options = vec![
            format!("--gpu-architecture=sm_{architecture}"),
            "--std=c++17".into(),
            format!("-DELEMENT={element}"),
        ];
        if part == KernelPart::Rows {
            options.push(format!("-DNORMS={}", self.norms));
        }
        if part == KernelPart::Attention {
            options.push(format!("-DHEAD={}", padded_head(self.head)));
            options.push(format!("-DEXTRAS={}", u8::from(self.has_extras)));
        }
        options
    }
}

macro_rules! kernels {
    ($($kernel:ident = $name:literal;)*) => {
        /// A kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kernel { $(#[doc = $name] $kernel,)* }

        impl Kernel {
            pub(crate) const ALL: &[Self] = &[$(Self::$kernel,)*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kernel => $name,)* }
            }
        }
    };
}

kernels! {
    Embed = "embed";
    Norm256 = "norm_256";
    Norm512 = "norm_512";
    Norm768 = "norm_768";
    Norm1024 = "norm_1024";
    Norm2048 = "norm_2048";
    Norm4096 = "norm_4096";
    Norm8192 = "norm_8192";
    Norm32768 = "norm_32768";
    Convert = "convert";
    Turn = "turn";
    TurnWhole = "turn_whole";
    Activate = "activate";
    Convolve = "convolve";
    Shares = "shares";
    Pool = "pool";
    Route = "route";
    Place = "place";
    Gather = "gather";
    Combine = "combine";
    PoolTerms = "pool_terms";
    AttendAny = "attend_any";
    AttendShort = "attend_short";
    AttendShortExtras = "attend_short_extras";
    AttendLong = "attend_long";
    AttendLongExtras = "attend_long_extras";
}

impl Kernel {
    /// The norms, by the widths that they are made for.
    const NORMS: [Self; 8] = [
        Self::Norm256,
        Self::Norm512,
        Self::Norm768,
        Self::Norm1024,
        Self::Norm2048,
        Self::Norm4096,
        Self::Norm8192,
        Self::Norm32768,
    ];

    /// The bit of the norm of rows of this width.
    pub(crate) fn norm_bit(width: usize) -> u32 {
        let (kernel, ..) = Self::norm(width);
        Self::NORMS
            .iter()
            .zip(0..)
            .filter(|(norm, _)| **norm == kernel)
            .fold(0, |bits, (_, index)| bits | 1 << index)
    }

    /// The part that it belongs to.
    fn part(self) -> KernelPart {
        match self.takes_shared_memory() {
            true => KernelPart::Attention,
            false => KernelPart::Rows,
        }
    }

    /// Whether it is compiled for a shape.
    fn is_of(self, shape: KernelShape) -> bool {
        let takes_extras = matches!(self, Self::AttendShortExtras | Self::AttendLongExtras);
        let mut norms = Self::NORMS.iter().zip(0..);
        if let Some((_, index)) = norms.find(|(norm, _)| **norm == self) {
            return shape.norms >> index & 1 == 1;
        }
        !(self.is_of_tensor_cores() && shape.element == CardElement::F32)
            && (shape.has_extras || !takes_extras)
    }

    /// Whether it multiplies with tensor cores, in 16 bits.
    fn is_of_tensor_cores(self) -> bool {
        matches!(
            self,
            Self::AttendShort | Self::AttendShortExtras | Self::AttendLong | Self::AttendLongExtras
        )
    }

    /// Whether a block takes more shared memory than a kernel has without asking.
    fn takes_shared_memory(self) -> bool {
        self.is_of_tensor_cores() || self == Self::AttendAny
    }

    /// The norm of rows of this width, and the tokens and threads of a block.
    pub(crate) fn norm(width: usize) -> (Self, usize, usize) {
        match width {
            0..=256 => (Self::Norm256, 4, 128),
            257..=512 => (Self::Norm512, 4, 128),
            513..=768 => (Self::Norm768, 4, 128),
            769..=1024 => (Self::Norm1024, 4, 128),
            1025..=2048 => (Self::Norm2048, 1, 128),
            2049..=4096 => (Self::Norm4096, 1, 128),
            4097..=8192 => (Self::Norm8192, 1, 256),
            _ => (Self::Norm32768, 1, 1024),
        }
    }
}

/// The kernels on a card.
pub(crate) struct Kernels {
    /// By [`KernelPart`].
    modules: [Module; 2],
    /// By [`Kernel`]; null where it is not compiled for the shape.
    functions: Vec<Object>,
}

// SAFETY: functions belong to the context and may be used by any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

/// A part of the kernels on a card.
struct Module {
    card: Arc<Card>,
    object: Object,
    is_from_cache: bool,
}

// SAFETY: modules belong to the context and may be used by any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles a part for a card, or takes it from `cache`.
    fn load(
        card: &Arc<Card>,
        shape: KernelShape,
        part: KernelPart,
        cache: Option<&Path>,
    ) -> Result<Self> {
        let options = shape.options(part, card.info.architecture);
        let source = part.source();
        let mut hash = Hash::default();
        let (major, minor) = card.info.compiler;
        hash.add(format!("{major}.{minor}\n{}\n{source}", options.join(" ")));
        let file: Option<PathBuf> =
            cache.map(|folder| folder.join(format!("kernels-{}.cubin", hash.hex())));
        let kept = file
            .as_ref()
            .and_then(|file| small_file::read(file, LARGEST_MODULE).ok());
        card.enter()?;
        if let Some(binary) = &kept
            && let Ok(module) = Self::of(card, binary, true)
        {
            return Ok(module);
        }
        let compiler = &card.libraries.compiler;
        let binary = compile(compiler, &source, &options, card.info.architecture)?;
        let module = Self::of(card, &binary, false)?;
        if let Some(file) = file {
            // A cache that cannot be written costs time alone.
            let _ = keep(&file, &binary);
        }
        Ok(module)
    }

    fn of(card: &Arc<Card>, binary: &[u8], is_from_cache: bool) -> Result<Self> {
        let mut object = ptr::null_mut();
        // SAFETY: the binary is one that NVRTC made, or the driver refuses it.
        let status =
            unsafe { (card.libraries.driver.load_module)(&raw mut object, binary.as_ptr().cast()) };
        card.check(status, "load the kernels")?;
        Ok(Self {
            card: Arc::clone(card),
            object,
            is_from_cache,
        })
    }

    /// A kernel of this part.
    fn function(&self, kernel: Kernel) -> Result<Object> {
        /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
        const MOST_SHARED: c_int = 8;
        let (card, driver) = (&self.card, &self.card.libraries.driver);
        let mut function = ptr::null_mut();
        let name = CString::new(kernel.name()).unwrap_or_default();
        // SAFETY: the name is a text that ends with a zero.
        let status = unsafe { (driver.function)(&raw mut function, self.object, name.as_ptr()) };
        card.check(status, &format!("find the kernel {}", kernel.name()))?;
        if kernel.takes_shared_memory() {
            let most = c_int::try_from(card.info.shared_memory).unwrap_or(c_int::MAX);
            // SAFETY: the function is there.
            let status = unsafe { (driver.set_function)(function, MOST_SHARED, most) };
            card.check(status, "reserve shared memory")?;
        }
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the module was loaded, and nothing runs any more.
            unsafe { (self.card.libraries.driver.unload_module)(self.object) };
        }
    }
}

impl Kernels {
    /// Compiles the kernels for a card, both parts at a time, or takes them from `cache`.
    pub(crate) fn load(card: &Arc<Card>, shape: KernelShape, cache: Option<&Path>) -> Result<Self> {
        let [rows, attention] = thread::scope(|scope| {
            let load = |part| scope.spawn(move || Module::load(card, shape, part, cache));
            KernelPart::ALL.map(load).map(|thread| {
                let panicked = |_| Err(Error::internal("the compiler's thread has panicked"));
                thread.join().unwrap_or_else(panicked)
            })
        });
        let modules = [rows?, attention?];
        let find = |kernel: &Kernel| match kernel.is_of(shape) {
            true => modules[kernel.part() as usize].function(*kernel),
            false => Ok(ptr::null_mut()),
        };
        let functions = Kernel::ALL.iter().map(find).collect::<Result<_>>()?;
        Ok(Self { modules, functions })
    }

    /// Whether they were taken from the cache.
    pub(crate) fn are_from_cache(&self) -> bool {
        self.modules.iter().all(|module| module.is_from_cache)
    }

    fn card(&self) -> &Card {
        &self.modules[0].card
    }

    /// Launches a kernel: blocks in two directions, threads of a block, and its shared memory. Nothing is launched where
    /// there are no blocks.
    pub(crate) fn launch<A: Arguments>(
        &self,
        stream: &CardStream,
        kernel: Kernel,
        [x, y]: [usize; 2],
        threads: usize,
        shared: usize,
        mut arguments: A,
    ) -> Result<()> {
        if x == 0 || y == 0 {
            return Ok(());
        }
        let function = self.functions[kernel as usize];
        if function.is_null() {
            return Err(Error::internal(format!(
                "the kernel {} was not compiled for this network",
                kernel.name()
            )));
        }
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| Error::internal("a launch's size overflows"))
        };
        let (x, y, threads, shared) = (number(x)?, number(y)?, number(threads)?, number(shared)?);
        let mut parameters: [*mut c_void; 1] = [(&raw mut arguments).cast()];
        // SAFETY: the arguments are the kernel's, and their pointers lead to memory that its owner keeps until the stream
        // was waited for.
        let status = unsafe {
            (self.card().libraries.driver.launch)(
                function,
                x,
                y,
                1,
                threads,
                1,
                1,
                shared,
                stream.object,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.card()
            .check(status, &format!("launch {}", kernel.name()))
    }

    #[cfg(test)]
    pub(crate) fn function(&self, kernel: Kernel) -> Object {
        self.functions[kernel as usize]
    }
}

/// Writes a file of the cache.
pub(crate) fn keep(file: &Path, binary: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    atomic::replace(file, binary)
}

/// The compiled form of `source` for a card.
pub(crate) fn compile(
    compiler: &Compiler,
    source: &str,
    options: &[String],
    architecture: u32,
) -> Result<Vec<u8>> {
    let failed = |status: c_int, log: &str| not_compiled(compiler, architecture, status, log);
    let text = |text: &str| {
        CString::new(text).map_err(|_| Error::internal("a kernel's source has a zero in it"))
    };
    let source = text(source)?;
    let options: Vec<CString> = options.iter().map(|it| text(it)).collect::<Result<_>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|it| it.as_ptr()).collect();
    let mut program = ptr::null_mut();
    // SAFETY: all texts end with a zero and outlive the calls; buffers have the sizes that the compiler names.
    unsafe {
        let status = (compiler.program)(
            &raw mut program,
            source.as_ptr(),
            c"kernels.cu".as_ptr(),
            0,
            ptr::null(),
            ptr::null(),
        );
        if status != 0 {
            return Err(failed(status, ""));
        }
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        let status = (compiler.compile)(program, count, pointers.as_ptr());
        let made = if status == 0 {
            let mut bytes = 0;
            (compiler.binary_bytes)(program, &raw mut bytes);
            let mut binary = vec![0_u8; bytes];
            match (compiler.binary)(program, binary.as_mut_ptr().cast()) {
                0 if !binary.is_empty() => Ok(binary),
                status => Err(failed(status, "")),
            }
        } else {
            let mut bytes = 0;
            (compiler.log_bytes)(program, &raw mut bytes);
            let mut log = vec![0_u8; bytes + 1];
            (compiler.log)(program, log.as_mut_ptr().cast());
            let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy);
            Err(failed(status, &log.unwrap_or_default()))
        };
        (compiler.destroy)(&raw mut program);
        made
    }
}

fn not_compiled(compiler: &Compiler, architecture: u32, status: c_int, log: &str) -> Error {
    /// `NVRTC_ERROR_INVALID_OPTION`: an architecture that this compiler does not know.
    const INVALID_OPTION: c_int = 5;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers lead to numbers.
    unsafe { (compiler.version)(&raw mut major, &raw mut minor) };
    let mut reason = format!("NVRTC {major}.{minor} cannot compile kernels for sm_{architecture}");
    let line = log.lines().find(|line| line.contains("error"));
    if let Some(line) = line.or_else(|| log.lines().next()) {
        let _ = write!(reason, ": {line}");
    }
    let error = Error::new(ErrorKind::Provider, NAME, reason);
    match status {
        INVALID_OPTION => error.with_remedy("pip install --upgrade nvidia-cuda-nvrtc"),
        _ => error,
    }
}
