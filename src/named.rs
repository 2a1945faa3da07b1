//! Choices that have a word each, on the command line and in files: one table says what there is, what it is called and
//! what else is understood.

use crate::error::Cause;

/// An enum with `ALL`, `name`, `Display` and `FromStr`, which trims and doesn't mind case. In parentheses: what one of
/// them is, and what comes before the list of them.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $name:ident($what:literal, $choose:literal) {
            $($(#[$doc:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in the order in which they are listed to people.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Its name on the command line, in summaries and in files.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Cause;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text.trim().to_ascii_lowercase().as_str() {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err($crate::named::unknown($what, text, $choose, &Self::ALL.map(Self::name))),
                }
            }
        }
    };
}

pub(crate) use named;

/// Why `text` is none of `names`.
pub(crate) fn unknown(what: &str, text: &str, choose: &str, names: &[&str]) -> Cause {
    Cause::of(format!("unknown {what} '{text}'")).with(format!("{choose} {}", names.join(", ")))
}
