//! Choices with a name each, on the command line and in files: one table lists the values, their names and other
//! accepted spellings.

use crate::error::Cause;

/// An enum with `ALL`, `name` and `Display`; with parentheses `FromStr` too, which trims and doesn't mind case. In the
/// parentheses: the word for a value, and the words before the list of all values.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident($what:literal, $choose:literal) {
            $($(#[$doc:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+
        }
    ) => {
        $crate::named::named! {
            $(#[$meta])*
            $vis enum $name {
                $($(#[$doc])* $variant = $word,)+
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
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of messages.
            #[allow(dead_code)]
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The one of this name.
            #[must_use]
            #[allow(dead_code)]
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub use crate::named;

/// Why `text` is none of `names`.
#[must_use]
pub fn unknown(what: &str, text: &str, choose: &str, names: &[&str]) -> Cause {
    Cause::of(format!("unknown {what} '{text}'")).with(format!("{choose} {}", names.join(", ")))
}
