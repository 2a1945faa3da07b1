//! Fields of a record as options name them: the id's type, kept fields and their types.

use std::fmt;
use std::str::FromStr;

use embedctl_common::error::Cause;
use embedctl_common::named::named;

named! {
    /// Type of the `id` column.
    #[derive(Default)]
    pub enum IdType {
        /// The type of a table's column; of JSON integers if the first ones are, see [`LineIds`]; else as [`IdType::String`].
        #[default]
        Kept = "kept",
        /// Strings; integers as their digits, missing as null, the line number for text input.
        String = "string",
        /// 64-bit integers; missing as null, the line number for text input.
        Int = "int",
    }
}

/// What the ids of JSON become under [`IdType::Kept`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineIds {
    /// Integers of 64 bits if all ids of the first window are such, else strings.
    #[default]
    Typed,
    /// Strings, as in outputs of versions that knew nothing else.
    Strings,
}

named! {
    /// Type of a kept column.
    pub enum KeepType("type", "choose") {
        /// Strings as they are. Where this type was asked for, numbers and booleans too, as they are written.
        String = "string",
        /// Integers of 64 bits.
        Int = "int",
        /// Numbers, each as the nearest 64-bit float.
        Float = "float",
        /// `true` and `false`.
        Bool = "bool",
        /// Any JSON value, as it is written.
        Json = "json",
    }
}

/// A field carried through to the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Its name in the record (nested as `a.b`) and in the output.
    pub name: String,
    /// Its type; `None`: the first window decides.
    pub kind: Option<KeepType>,
}

impl FromStr for Keep {
    type Err = Cause;

    /// Parses `NAME[:TYPE]`. What follows the last colon is the type, so a name that holds a colon needs
    /// one (`dc:title:string`).
    fn from_str(keep: &str) -> Result<Self, Cause> {
        let (name, kind) = match keep.rsplit_once(':') {
            None => (keep, None),
            Some((name, kind)) => match kind.parse::<KeepType>() {
                Ok(kind) => (name, Some(kind)),
                Err(unknown) => {
                    let remedy = unknown.remedy.unwrap_or_default();
                    return Err(Cause::of(unknown.reason).with(format!(
                        "{remedy} (a field whose name holds a colon needs its type: `{keep}:string`)"
                    )));
                }
            },
        };
        if name.is_empty() {
            return Err(
                Cause::of(format!("`{keep}` names no field")).with("write NAME or NAME:TYPE")
            );
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
        })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        self.kind
            .map_or(Ok(()), |kind| write!(formatter, ":{kind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_fields_parse_and_print() {
        for (argument, name, kind) in [
            ("lang", "lang", None),
            ("meta.year:int", "meta.year", Some(KeepType::Int)),
            ("dc:title:string", "dc:title", Some(KeepType::String)),
            ("x:json", "x", Some(KeepType::Json)),
            ("x:float", "x", Some(KeepType::Float)),
            ("x:bool", "x", Some(KeepType::Bool)),
        ] {
            let keep: Keep = argument.parse().unwrap();
            assert_eq!((keep.name.as_str(), keep.kind), (name, kind));
            assert_eq!(keep.to_string(), argument);
        }
    }

    #[test]
    fn faults_name_the_remedy() {
        for (argument, hint) in [
            ("", "NAME:TYPE"),
            (":int", "NAME:TYPE"),
            ("x:number", "float"),
            ("dc:title", "`dc:title:string`"),
            ("x:", "unknown type ''"),
        ] {
            let error = argument.parse::<Keep>().unwrap_err().to_string();
            assert!(error.contains(hint), "{argument}: {error}");
        }
        assert_eq!(IdType::default().to_string(), "kept");
    }
}
