//! The instructions that the kernels may use: asked of the processor once, and passed along explicitly.

use std::fmt;
#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use super::amx::permission;

/// An instruction set that this processor has: every value was made by asking it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa {
    /// The instructions for vectors.
    pub(super) level: InstructionLevel,
    /// The unit that multiplies tiles, where products may take it.
    pub(super) tiles: Option<TileKind>,
}

/// What multiplies tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TileKind {
    /// AMX, beside AVX-512.
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// Plain code, which gives the same bits.
    #[cfg(test)]
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum InstructionLevel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx2Vnni,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    #[cfg(target_arch = "aarch64")]
    NeonI8mm,
}

/// The number format in which products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProductPrecision {
    /// Single precision: exact.
    F32,
    /// Both sides in bfloat16, the upper half of single precision; products are exact and summed in single precision.
    Bf16,
    /// Activations of up to 16 bits (a scale for each row) by weights of up to 16 (a scale for each output), each so
    /// coarse that sums over a block of inputs cannot leave 32 bits.
    I16,
    /// Unsigned activations of 8 bits (a scale and a minimum for each row) by signed weights of 8.
    I8,
}

impl Isa {
    /// The best of this processor, or the lower one that the variable `EMBEDCTL_CPU` names.
    ///
    /// # Errors
    /// The variable names something that [`Self::named`] doesn't know or that this processor lacks.
    pub fn here() -> Result<Self, String> {
        match std::env::var("EMBEDCTL_CPU") {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Self::best()),
        }
    }

    /// The fastest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        Self::all()[0]
    }

    /// All that this processor has, the fastest first and the portable one last.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Self::amx().into_iter().collect();
        all.extend(Self::of_vectors());
        #[cfg(test)]
        all.insert(
            all.len() - 1,
            Self {
                level: InstructionLevel::Portable,
                tiles: Some(TileKind::Plain),
            },
        );
        all
    }

    /// AMX, where the processor has it and the system lets this process use it. The system is asked for it, which it may
    /// be once: later answers are the same.
    fn amx() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let best = *Self::of_vectors().first()?;
            let has = best.level == InstructionLevel::Avx512 && *permission() == Ok(true);
            has.then_some(Self {
                tiles: Some(TileKind::Amx),
                ..best
            })
        }
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The reason why a processor's tiles are not used, where it has them and no other instructions were named.
    #[must_use]
    pub fn why_no_tiles() -> Option<&'static str> {
        if std::env::var("EMBEDCTL_CPU").is_ok_and(|name| !name.is_empty()) {
            return None;
        }
        permission().as_ref().err().map(String::as_str)
    }

    /// Those without tiles, the fastest first and the portable one last.
    fn of_vectors() -> Vec<Self> {
        let mut levels = vec![InstructionLevel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            let avx512 =
                has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            levels.extend(avx2.then_some(InstructionLevel::Avx2));
            levels.extend((avx2 && has!("avxvnni")).then_some(InstructionLevel::Avx2Vnni));
            levels
                .extend((avx2 && avx512 && has!("avx512vnni")).then_some(InstructionLevel::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected as has;
            levels.extend(has!("neon").then_some(InstructionLevel::Neon));
            let dot = has!("neon") && has!("dotprod");
            levels.extend(dot.then_some(InstructionLevel::NeonDot));
            levels.extend((dot && has!("i8mm")).then_some(InstructionLevel::NeonI8mm));
        }
        levels.reverse();
        let of = |level| Self { level, tiles: None };
        levels.into_iter().map(of).collect()
    }

    /// Whether products are multiplied by tiles.
    #[must_use]
    pub fn has_tiles(self) -> bool {
        self.tiles.is_some()
    }

    /// The same without tiles: for products in single precision whose every bit counts.
    #[must_use]
    pub fn without_tiles(self) -> Self {
        Self {
            tiles: None,
            ..self
        }
    }

    /// By the name that [`Self::name`] gives.
    ///
    /// # Errors
    /// A sentence that names the possible ones, for a name that is unknown or not this processor's.
    pub fn named(name: &str) -> Result<Self, String> {
        let named = |all: Vec<Self>| all.into_iter().find(|isa| isa.name() == name);
        // The system is not asked for tiles where others are named.
        let found = named(Self::of_vectors()).or_else(|| named(Self::all()));
        found.ok_or_else(|| {
            let names: Vec<_> = Self::all().iter().map(|isa| isa.name()).collect();
            format!(
                "EMBEDCTL_CPU: `{name}` is not an instruction set of this processor; it has {}",
                names.join(", ")
            )
        })
    }

    /// `portable`, `avx2`, `avx2-vnni`, `avx512` (always with VNNI), `amx` (beside it), `neon`, `neon-dot` or `neon-i8mm`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.tiles {
            #[cfg(target_arch = "x86_64")]
            Some(TileKind::Amx) => return "amx",
            #[cfg(test)]
            Some(TileKind::Plain) => return "portable-tiles",
            None => {}
        }
        match self.level {
            InstructionLevel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            InstructionLevel::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            InstructionLevel::Avx2Vnni => "avx2-vnni",
            #[cfg(target_arch = "x86_64")]
            InstructionLevel::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            InstructionLevel::Neon => "neon",
            #[cfg(target_arch = "aarch64")]
            InstructionLevel::NeonDot => "neon-dot",
            #[cfg(target_arch = "aarch64")]
            InstructionLevel::NeonI8mm => "neon-i8mm",
        }
    }

    /// Whether vectors of bfloat16 are multiplied by an instruction: by AVX512-BF16, where it is faster than products in
    /// single precision. On some processors it has half their speed, and numbers that are widened first give the same bits.
    #[must_use]
    pub fn multiplies_bf16(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.level == InstructionLevel::Avx512 {
            static IS_FASTER: LazyLock<bool> = LazyLock::new(|| {
                // SAFETY: the processor was asked for both.
                std::is_x86_feature_detected!("avx512bf16")
                    && unsafe { super::simd::avx512::bf16_is_faster() }
            });
            return *IS_FASTER;
        }
        false
    }

    /// Whether there are instructions for this arithmetic. Without them results are the same (in bfloat16 as
    /// far as [`ProductPrecision::F32`] rounds), but slower than [`ProductPrecision::F32`].
    #[must_use]
    pub fn speeds_up(self, arithmetic: ProductPrecision) -> bool {
        match (self.level, arithmetic) {
            (_, ProductPrecision::F32) => true,
            _ if self.has_tiles() => true,
            (_, ProductPrecision::Bf16) => self.multiplies_bf16(),
            (InstructionLevel::Portable, _) => false,
            #[cfg(target_arch = "x86_64")]
            (InstructionLevel::Avx2, ProductPrecision::I8) => false,
            #[cfg(target_arch = "x86_64")]
            _ => true,
            #[cfg(target_arch = "aarch64")]
            (level, arithmetic) => {
                level >= InstructionLevel::NeonDot && arithmetic == ProductPrecision::I8
            }
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            _ => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ProductPrecision {
    /// Whether sums of products are floats, and not integers.
    pub(crate) const fn sums_floats(self) -> bool {
        matches!(self, Self::F32 | Self::Bf16)
    }

    /// Values of one 32-bit lane.
    pub(crate) const fn per_lane(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 | Self::I16 => 2,
            Self::I8 => 4,
        }
    }
}

/// `with!(isa, simd => work)`: evaluates `work` compiled for `isa`, with its token in `simd`. Work without products of
/// integers takes [`with_floats!`], which compiles less.
macro_rules! with {
    ($isa:expr, $simd:ident => $work:expr) => {{
        use $crate::kernels::{isa::InstructionLevel, isa::with_floats, simd::Simd};
        match $isa.level {
            #[cfg(target_arch = "x86_64")]
            InstructionLevel::Avx2Vnni => {
                // SAFETY: an `Isa` of this level is made only where it has AVX-VNNI too.
                let $simd = unsafe { $crate::kernels::simd::avx2::Avx2::<true>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(target_arch = "aarch64")]
            InstructionLevel::NeonDot => {
                // SAFETY: an `Isa` of this level is made only where it has the dot product too.
                let $simd = unsafe { $crate::kernels::simd::neon::Neon::<true, false>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(target_arch = "aarch64")]
            InstructionLevel::NeonI8mm => {
                // SAFETY: an `Isa` of this level is made only where it has the product of blocks too.
                let $simd = unsafe { $crate::kernels::simd::neon::Neon::<true, true>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            _ => with_floats!($isa, $simd => $work),
        }
    }};
}
pub(crate) use with;

/// As [`with!`], for work that multiplies no integers: sets that differ in such instructions alone share one compilation.
macro_rules! with_floats {
    ($isa:expr, $simd:ident => $work:expr) => {{
        use $crate::kernels::{isa::InstructionLevel, simd::Simd};
        match $isa.level {
            InstructionLevel::Portable => {
                let $simd = $crate::kernels::simd::portable::Portable;
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(target_arch = "x86_64")]
            InstructionLevel::Avx2 | InstructionLevel::Avx2Vnni => {
                // SAFETY: an `Isa` of these levels is made only where the processor has AVX2 and FMA.
                let $simd = unsafe { $crate::kernels::simd::avx2::Avx2::<false>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(target_arch = "x86_64")]
            InstructionLevel::Avx512 => {
                // SAFETY: an `Isa` of this level is made only where the processor has AVX-512 with the
                // extensions that the token's documentation lists.
                let $simd = unsafe { $crate::kernels::simd::avx512::Avx512::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(target_arch = "aarch64")]
            InstructionLevel::Neon | InstructionLevel::NeonDot | InstructionLevel::NeonI8mm => {
                // SAFETY: an `Isa` of these levels is made only where the processor has NEON.
                let $simd = unsafe { $crate::kernels::simd::neon::Neon::<false, false>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
        }
    }};
}
pub(crate) use with_floats;

/// `with_tiles!(isa, simd, tiles => work)`: evaluates `work` with the tokens of an instruction set that has tiles, as
/// `Some`; `None` for another.
macro_rules! with_tiles {
    ($isa:expr, $simd:ident, $tiles:ident => $work:expr) => {{
        #[allow(unused_imports)] // there may be none
        use $crate::kernels::isa::TileKind;
        match $isa.tiles {
            None => None,
            #[cfg(target_arch = "x86_64")]
            Some(TileKind::Amx) => {
                // SAFETY: an `Isa` with these tiles is made only where the processor has AVX-512 and AMX, and the system
                // has given its permission.
                let ($simd, $tiles) = unsafe {
                    (
                        $crate::kernels::simd::avx512::Avx512::new(),
                        $crate::kernels::amx::Amx::new(),
                    )
                };
                Some($crate::kernels::simd::Simd::enter(
                    $simd,
                    #[inline(always)]
                    || $work,
                ))
            }
            #[cfg(test)]
            Some(TileKind::Plain) => {
                let ($simd, $tiles) = (
                    $crate::kernels::simd::portable::Portable,
                    $crate::kernels::amx::PlainTiles,
                );
                Some($work)
            }
        }
    }};
}
pub(crate) use with_tiles;
