//! The instructions that the kernels may use: asked of the processor once, and passed along explicitly.

use std::fmt;
#[cfg(kernels = "avx512")]
use std::sync::LazyLock;

#[cfg(kernels = "amx")]
use super::amx::permission;
use super::detection;
use embedctl_common::Arithmetic;

/// An instruction set that this processor has: every value was made by asking it, but for plain code, which any runs.
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
    #[cfg(kernels = "amx")]
    Amx,
    /// Plain code, which gives the same bits.
    #[cfg(kernels = "plain-tiles")]
    Plain,
}

/// The instructions for vectors that this build has kernels for: `build.rs` chooses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum InstructionLevel {
    Portable,
    #[cfg(kernels = "avx2")]
    Avx2,
    #[cfg(kernels = "avx2-vnni")]
    Avx2Vnni,
    #[cfg(kernels = "avx512")]
    Avx512,
    #[cfg(kernels = "neon")]
    Neon,
    #[cfg(kernels = "neon-dot")]
    NeonDot,
    #[cfg(kernels = "neon-i8mm")]
    NeonI8mm,
}

/// The instructions of a level that floats are computed by: levels that differ in products of integers share them.
pub(super) enum FloatLevel {
    Portable,
    #[cfg(any(kernels = "avx2", kernels = "avx2-vnni"))]
    Avx2,
    #[cfg(kernels = "avx512")]
    Avx512,
    #[cfg(any(kernels = "neon", kernels = "neon-dot", kernels = "neon-i8mm"))]
    Neon,
}

impl InstructionLevel {
    /// All that this build has kernels for.
    const BUILT: &[Self] = &[
        Self::Portable,
        #[cfg(kernels = "avx2")]
        Self::Avx2,
        #[cfg(kernels = "avx2-vnni")]
        Self::Avx2Vnni,
        #[cfg(kernels = "avx512")]
        Self::Avx512,
        #[cfg(kernels = "neon")]
        Self::Neon,
        #[cfg(kernels = "neon-dot")]
        Self::NeonDot,
        #[cfg(kernels = "neon-i8mm")]
        Self::NeonI8mm,
    ];

    /// As [`detection::vectors`] names it.
    const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(kernels = "avx2")]
            Self::Avx2 => "avx2",
            #[cfg(kernels = "avx2-vnni")]
            Self::Avx2Vnni => "avx2-vnni",
            #[cfg(kernels = "avx512")]
            Self::Avx512 => "avx512",
            #[cfg(kernels = "neon")]
            Self::Neon => "neon",
            #[cfg(kernels = "neon-dot")]
            Self::NeonDot => "neon-dot",
            #[cfg(kernels = "neon-i8mm")]
            Self::NeonI8mm => "neon-i8mm",
        }
    }

    pub(super) const fn of_floats(self) -> FloatLevel {
        match self {
            Self::Portable => FloatLevel::Portable,
            #[cfg(kernels = "avx2")]
            Self::Avx2 => FloatLevel::Avx2,
            #[cfg(kernels = "avx2-vnni")]
            Self::Avx2Vnni => FloatLevel::Avx2,
            #[cfg(kernels = "avx512")]
            Self::Avx512 => FloatLevel::Avx512,
            #[cfg(kernels = "neon")]
            Self::Neon => FloatLevel::Neon,
            #[cfg(kernels = "neon-dot")]
            Self::NeonDot => FloatLevel::Neon,
            #[cfg(kernels = "neon-i8mm")]
            Self::NeonI8mm => FloatLevel::Neon,
        }
    }
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

    /// The fastest that this processor and this build have.
    #[must_use]
    pub fn best() -> Self {
        Self::all()[0]
    }

    /// All that this processor and this build have, the fastest first and the portable one last.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Self::amx().into_iter().collect();
        all.extend(Self::of_vectors());
        all
    }

    /// Whether this build has plain code in the place of a unit for tiles, for tests: builds of the profile `dev` do.
    pub const EMULATES_TILES: bool = cfg!(kernels = "plain-tiles");

    /// The same with plain code in the place of a unit for tiles, before the last one, where [`Self::EMULATES_TILES`]. It gives
    /// the bits of that unit, so that tests run everything around it on any processor.
    #[must_use]
    pub fn all_and_emulated() -> Vec<Self> {
        let mut all = Self::all();
        let last = all.pop();
        #[cfg(kernels = "plain-tiles")]
        all.push(Self {
            level: InstructionLevel::Portable,
            tiles: Some(TileKind::Plain),
        });
        all.extend(last);
        all
    }

    /// AMX, where the processor has it and the system lets this process use it. The system is asked for it, which it may
    /// be once: later answers are the same.
    fn amx() -> Option<Self> {
        #[cfg(kernels = "amx")]
        {
            let best = *Self::of_vectors().first()?;
            let has = best.level == InstructionLevel::Avx512 && *permission() == Ok(true);
            has.then_some(Self {
                tiles: Some(TileKind::Amx),
                ..best
            })
        }
        #[cfg(not(kernels = "amx"))]
        None
    }

    /// The instruction sets that this processor has and this build lacks, the fastest first: a build of the profile `dev`
    /// has those of the machine that it was built on.
    #[must_use]
    pub fn absent() -> Vec<&'static str> {
        let tiles = (!cfg!(kernels = "amx") && detection::has_tiles()).then_some("amx");
        let built = |name: &&str| {
            InstructionLevel::BUILT
                .iter()
                .any(|one| one.name() == *name)
        };
        let vectors = detection::vectors();
        (tiles.into_iter().chain(vectors))
            .filter(|name| !built(name))
            .collect()
    }

    /// A sentence about a faster instruction set that this processor has and this build lacks.
    #[must_use]
    pub fn why_slower() -> Option<String> {
        let (absent, best) = (Self::absent(), Self::best().name());
        let fastest = *absent.first()?;
        let vectors = detection::vectors();
        let rank = |name| vectors.iter().position(|one| *one == name);
        // Tiles are no set of vectors: nothing is faster.
        (best != "amx" && rank(fastest) < rank(best)).then(|| {
            format!(
                "this build has no kernels for this processor's {fastest}, and {best} is slower; {HOW_TO_BUILD_ALL}"
            )
        })
    }

    /// The reason why a processor's tiles are not used, where it has them and no other instructions were named.
    #[must_use]
    pub fn why_no_tiles() -> Option<&'static str> {
        if std::env::var("EMBEDCTL_CPU").is_ok_and(|name| !name.is_empty()) {
            return None;
        }
        #[cfg(kernels = "amx")]
        {
            permission().as_ref().err().map(String::as_str)
        }
        #[cfg(not(kernels = "amx"))]
        None
    }

    /// Those without tiles, the fastest first and the portable one last.
    fn of_vectors() -> Vec<Self> {
        let built = |name: &str| {
            let mut built = InstructionLevel::BUILT.iter().copied();
            built.find(|level| level.name() == name)
        };
        let of = |level| Self { level, tiles: None };
        let names = detection::vectors().into_iter();
        names.filter_map(built).map(of).collect()
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
    /// A sentence that names the possible ones, for a name that is unknown, not this processor's or not in this build.
    pub fn named(name: &str) -> Result<Self, String> {
        let named = |all: Vec<Self>| all.into_iter().find(|isa| isa.name() == name);
        // The system is not asked for tiles where others are named.
        let found = named(Self::of_vectors()).or_else(|| named(Self::all_and_emulated()));
        found.ok_or_else(|| {
            let names: Vec<_> = Self::all().iter().map(|isa| isa.name()).collect();
            let names = names.join(", ");
            if Self::absent().contains(&name) {
                return format!(
                    "EMBEDCTL_CPU: this build has no kernels for `{name}`; it has {names}; {HOW_TO_BUILD_ALL}"
                );
            }
            format!(
                "EMBEDCTL_CPU: `{name}` is not an instruction set of this processor; it has {names}"
            )
        })
    }

    /// `portable`, `avx2`, `avx2-vnni`, `avx512` (always with VNNI), `amx` (beside it), `neon`, `neon-dot` or `neon-i8mm`; in
    /// builds of the profile `dev` `portable-tiles`, too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.tiles {
            #[cfg(kernels = "amx")]
            Some(TileKind::Amx) => "amx",
            #[cfg(kernels = "plain-tiles")]
            Some(TileKind::Plain) => "portable-tiles",
            None => self.level.name(),
        }
    }

    /// Whether vectors of bfloat16 are multiplied by an instruction: by AVX512-BF16, where it is faster than products in
    /// single precision. On some processors it has half their speed, and numbers that are widened first give the same bits.
    #[must_use]
    pub fn multiplies_bf16(self) -> bool {
        #[cfg(kernels = "avx512")]
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
    /// far as [`Arithmetic::Fp32`] rounds), but slower than [`Arithmetic::Fp32`].
    #[must_use]
    pub fn speeds_up(self, arithmetic: Arithmetic) -> bool {
        match (self.level.name(), arithmetic) {
            (_, Arithmetic::Fp32) => true,
            _ if self.has_tiles() => true,
            (_, Arithmetic::Bf16) => self.multiplies_bf16(),
            ("portable" | "neon", _) | ("avx2", Arithmetic::Int8) => false,
            ("neon-dot" | "neon-i8mm", arithmetic) => arithmetic == Arithmetic::Int8,
            _ => true,
        }
    }
}

/// What a message about absent kernels ends with.
pub const HOW_TO_BUILD_ALL: &str =
    "`EMBEDCTL_KERNELS=all cargo build` builds all kernels, as release builds do";

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `with!(isa, simd => work)`: evaluates `work` compiled for `isa`, with its token in `simd`. Work without products of
/// integers takes [`with_floats!`], which compiles less.
macro_rules! with {
    ($isa:expr, $simd:ident => $work:expr) => {{
        #[allow(unused_imports)] // kernels for floats alone may be built
        use $crate::{isa::InstructionLevel, isa::with_floats, simd::Simd};
        match $isa.level {
            #[cfg(kernels = "avx2-vnni")]
            InstructionLevel::Avx2Vnni => {
                // SAFETY: an `Isa` of this level is made only where it has AVX-VNNI too.
                let $simd = unsafe { $crate::simd::avx2::Avx2::<true>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(kernels = "neon-dot")]
            InstructionLevel::NeonDot => {
                // SAFETY: an `Isa` of this level is made only where it has the dot product too.
                let $simd = unsafe { $crate::simd::neon::Neon::<true, false>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(kernels = "neon-i8mm")]
            InstructionLevel::NeonI8mm => {
                // SAFETY: an `Isa` of this level is made only where it has the product of blocks too.
                let $simd = unsafe { $crate::simd::neon::Neon::<true, true>::new() };
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
        use $crate::{isa::FloatLevel, simd::Simd};
        match $isa.level.of_floats() {
            FloatLevel::Portable => {
                let $simd = $crate::simd::portable::Portable;
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(any(kernels = "avx2", kernels = "avx2-vnni"))]
            FloatLevel::Avx2 => {
                // SAFETY: an `Isa` of such a level is made only where the processor has AVX2 and FMA.
                let $simd = unsafe { $crate::simd::avx2::Avx2::<false>::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(kernels = "avx512")]
            FloatLevel::Avx512 => {
                // SAFETY: an `Isa` of this level is made only where the processor has AVX-512 with the
                // extensions that the token's documentation lists.
                let $simd = unsafe { $crate::simd::avx512::Avx512::new() };
                $simd.enter(#[inline(always)] || $work)
            }
            #[cfg(any(kernels = "neon", kernels = "neon-dot", kernels = "neon-i8mm"))]
            FloatLevel::Neon => {
                // SAFETY: an `Isa` of such a level is made only where the processor has NEON.
                let $simd = unsafe { $crate::simd::neon::Neon::<false, false>::new() };
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
        use $crate::isa::TileKind;
        match $isa.tiles {
            None => None,
            #[cfg(kernels = "amx")]
            Some(TileKind::Amx) => {
                // SAFETY: an `Isa` with these tiles is made only where the processor has AVX-512 and AMX, and the system
                // has given its permission.
                let ($simd, $tiles) = unsafe {
                    (
                        $crate::simd::avx512::Avx512::new(),
                        $crate::amx::Amx::new(),
                    )
                };
                Some($crate::simd::Simd::enter(
                    $simd,
                    #[inline(always)]
                    || $work,
                ))
            }
            #[cfg(kernels = "plain-tiles")]
            Some(TileKind::Plain) => {
                let ($simd, $tiles) = (
                    $crate::simd::portable::Portable,
                    $crate::amx::PlainTiles,
                );
                Some($work)
            }
        }
    }};
}
pub(crate) use with_tiles;

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests run what this build has; this one says what they leave out. `EMBEDCTL_TEST_REQUIRE=kernels` wants all.
    #[test]
    fn instruction_sets_that_this_build_lacks_are_named() {
        let absent = Isa::absent();
        for name in &absent {
            let error = Isa::named(name).unwrap_err();
            assert!(
                error.contains(name) && error.contains("EMBEDCTL_KERNELS=all"),
                "{error}"
            );
        }
        let required = std::env::var("EMBEDCTL_TEST_REQUIRE").unwrap_or_default();
        if required.split(',').any(|word| word == "kernels") {
            assert_eq!(absent, [""; 0], "EMBEDCTL_KERNELS=all builds all kernels");
        } else if !absent.is_empty() {
            eprintln!(
                "kernels are not tested for {}: EMBEDCTL_KERNELS=all builds them",
                absent.join(", ")
            );
        }
        // A build has the fastest of the machine that it was built on, or says that it is slow.
        let fastest = absent.contains(&"amx") || absent.contains(&detection::vectors()[0]);
        assert_eq!(Isa::why_slower().is_some(), fastest, "{absent:?}");
    }
}
