//! The pickle of a dictionary of tensors. It is a program of a small machine; the instructions that build such a dictionary
//! are followed, every other one is refused, and so is every name but those of tensors. Nothing is imported or called.

use std::collections::BTreeMap;

use embedctl_vectors::elements::Element;

/// Where a tensor's numbers are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TensorPlace {
    /// The member of the archive.
    pub storage: String,
    /// The type of its numbers.
    pub element: Element,
    /// The first of its numbers there.
    pub offset: usize,
    pub shape: Vec<usize>,
}

/// A name that may be used.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PickledName {
    /// `collections.OrderedDict`.
    Dictionary,
    /// `torch._utils._rebuild_tensor_v2`.
    Tensor,
    /// A class of storages.
    Storage(Element),
}

/// A value on the machine's stack.
#[derive(Debug, Clone, PartialEq)]
enum PickledValue {
    Mark,
    None,
    Flag,
    Number(usize),
    Text(String),
    Tuple(Vec<PickledValue>),
    Name(PickledName),
    /// A dictionary; only texts are kept as keys.
    Dictionary(BTreeMap<String, PickledValue>),
    Storage(String, Element),
    Tensor(TensorPlace),
}

impl PickledValue {
    /// How many values it is, those inside counted; text counts by its length.
    fn size(&self) -> usize {
        match self {
            Self::Tuple(values) => 1 + values.iter().map(Self::size).sum::<usize>(),
            Self::Text(text) => 1 + text.len() / 64,
            _ => 1,
        }
    }

    /// How deep values lie in one another, this one counted.
    fn depth(&self) -> usize {
        let deepest = match self {
            Self::Tuple(values) => values.iter().map(Self::depth).max(),
            Self::Dictionary(entries) => entries.values().map(Self::depth).max(),
            _ => None,
        };
        1 + deepest.unwrap_or(0)
    }
}

/// How deep values may lie in one another. The arguments of a tensor have a depth of 3, the versions of a `state_dict`'s
/// modules too; each further level would be one of recursion, also where a value is dropped.
const MOST_DEPTH: usize = 8;

/// Values on the stack, and values that are copied, at most; a dictionary of a head has some dozens.
const MOST_VALUES: usize = 4096;

/// Bytes of a text at most.
const MOST_TEXT: usize = 1 << 16;

fn known(module: &str, name: &str) -> Option<PickledName> {
    match (module, name) {
        ("collections", "OrderedDict") => Some(PickledName::Dictionary),
        ("torch._utils", "_rebuild_tensor_v2") => Some(PickledName::Tensor),
        ("torch", "FloatStorage") => Some(PickledName::Storage(Element::F32)),
        ("torch", "HalfStorage") => Some(PickledName::Storage(Element::F16)),
        ("torch", "BFloat16Storage") => Some(PickledName::Storage(Element::Bf16)),
        _ => None,
    }
}

/// The tensors of the dictionary that a pickle describes.
///
/// # Errors
/// The reason why it is refused.
pub(super) fn tensors(bytes: &[u8]) -> Result<BTreeMap<String, TensorPlace>, String> {
    let machine = Unpickler {
        rest: bytes,
        ..Unpickler::default()
    };
    let PickledValue::Dictionary(entries) = machine.run()? else {
        return Err("holds something else than a dictionary of tensors".into());
    };
    let tensors = entries.into_iter().map(|(name, value)| match value {
        PickledValue::Tensor(place) => Ok((name, place)),
        _ => Err(format!("holds '{name}', which is not a tensor")),
    });
    tensors.collect()
}

#[derive(Default)]
struct Unpickler<'a> {
    rest: &'a [u8],
    stack: Vec<PickledValue>,
    memory: BTreeMap<usize, PickledValue>,
    /// Values that were copied to the memory and back, inner ones counted.
    copied: usize,
}

/// The reason for a pickle that no pickler writes.
fn damaged() -> String {
    "is cut short or damaged".into()
}

impl<'a> Unpickler<'a> {
    fn run(mut self) -> Result<PickledValue, String> {
        loop {
            if self.stack.len() > MOST_VALUES || self.copied > MOST_VALUES {
                return Err("holds more values than the dictionary of a layer".into());
            }
            match self.take(1)?[0] {
                b'.' => {
                    let value = self.pop()?;
                    return self.stack.is_empty().then_some(value).ok_or_else(damaged);
                }
                code => self.step(code)?,
            }
        }
    }

    /// Follows one instruction.
    fn step(&mut self, code: u8) -> Result<(), String> {
        match code {
            // PROTO
            0x80 => match self.take(1)?[0] {
                2..=4 => Ok(()),
                other => Err(format!("is a pickle of protocol {other}")),
            },
            b'c' => self.name(),
            // BINPUT, LONG_BINPUT
            b'q' => self.put(1),
            b'r' => self.put(4),
            // BINGET, LONG_BINGET
            b'h' => self.get(1),
            b'j' => self.get(4),
            b'(' => self.push(PickledValue::Mark),
            b'N' => self.push(PickledValue::None),
            // NEWTRUE, NEWFALSE
            0x88 | 0x89 => self.push(PickledValue::Flag),
            // BININT1, BININT2, BININT
            b'K' => self.integer(1),
            b'M' => self.integer(2),
            b'J' => self.integer(4),
            // BINUNICODE
            b'X' => self.text(),
            b')' => self.push(PickledValue::Tuple(Vec::new())),
            // TUPLE1, TUPLE2, TUPLE3
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let start = self.stack.len().checked_sub(count).ok_or_else(damaged)?;
                let values = self.stack.split_off(start);
                self.push_tuple(values)
            }
            b't' => {
                let values = self.since_mark()?;
                self.push_tuple(values)
            }
            b'}' => self.push(PickledValue::Dictionary(BTreeMap::new())),
            // SETITEM, SETITEMS
            b's' => {
                let start = self.stack.len().checked_sub(2).ok_or_else(damaged)?;
                let values = self.stack.split_off(start);
                self.set(values)
            }
            b'u' => {
                let values = self.since_mark()?;
                self.set(values)
            }
            // BINPERSID, REDUCE, BUILD
            b'Q' => self.storage(),
            b'R' => self.reduce(),
            b'b' => match (self.pop()?, self.stack.last()) {
                // The attribute `_metadata` of a `state_dict`.
                (PickledValue::Dictionary(_), Some(PickledValue::Dictionary(_))) => Ok(()),
                _ => Err("sets attributes of something else than a dictionary".into()),
            },
            other => Err(format!(
                "holds the pickle instruction {other:#04x}, which no dictionary of tensors needs"
            )),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, width: usize) -> Result<usize, String> {
        let bytes = self.take(width)?.iter().rev();
        Ok(bytes.fold(0, |all, &byte| all << 8 | usize::from(byte)))
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let end = self
            .rest
            .iter()
            .take(MOST_TEXT)
            .position(|&byte| byte == b'\n');
        let line = self.take(end.ok_or_else(damaged)?)?;
        self.take(1)?;
        std::str::from_utf8(line).map_err(|_| damaged())
    }

    fn push(&mut self, value: PickledValue) -> Result<(), String> {
        self.stack.push(value);
        Ok(())
    }

    fn push_tuple(&mut self, values: Vec<PickledValue>) -> Result<(), String> {
        check_depth(&values)?;
        self.push(PickledValue::Tuple(values))
    }

    fn pop(&mut self) -> Result<PickledValue, String> {
        self.stack.pop().ok_or_else(damaged)
    }

    /// The values behind the last mark, which goes.
    fn since_mark(&mut self) -> Result<Vec<PickledValue>, String> {
        let mark = self
            .stack
            .iter()
            .rposition(|value| *value == PickledValue::Mark);
        let mark = mark.ok_or_else(damaged)?;
        let values = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(values)
    }

    fn name(&mut self) -> Result<(), String> {
        let (module, name) = (self.line()?, self.line()?);
        match known(module, name) {
            Some(known) => self.push(PickledValue::Name(known)),
            None => Err(format!(
                "asks for {module:?} {name:?} of Python, which is not loaded: only dictionaries of tensors in float32, \
                 float16 or bfloat16 are read"
            )),
        }
    }

    /// Remembers the value on top. A dictionary is remembered as it is then, which is empty: it is never used again.
    fn put(&mut self, width: usize) -> Result<(), String> {
        let place = self.number(width)?;
        let value = match self.stack.last().ok_or_else(damaged)? {
            PickledValue::Mark => return Err(damaged()),
            PickledValue::Dictionary(_) => PickledValue::Dictionary(BTreeMap::new()),
            other => other.clone(),
        };
        self.copied += value.size();
        self.memory.insert(place, value);
        Ok(())
    }

    fn get(&mut self, width: usize) -> Result<(), String> {
        let place = self.number(width)?;
        let value = match self.memory.get(&place) {
            // It may have been filled since.
            Some(PickledValue::Dictionary(_)) => return Err("uses a dictionary twice".into()),
            Some(value) => value.clone(),
            None => return Err(damaged()),
        };
        self.copied += value.size();
        self.push(value)
    }

    fn integer(&mut self, width: usize) -> Result<(), String> {
        let number = self.number(width)?;
        match width == 4 && number > 0x7fff_ffff {
            true => Err("holds a negative number".into()),
            false => self.push(PickledValue::Number(number)),
        }
    }

    fn text(&mut self) -> Result<(), String> {
        let length = self.number(4)?;
        if length > MOST_TEXT {
            return Err(damaged());
        }
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| damaged())?;
        self.push(PickledValue::Text(text.to_owned()))
    }

    /// Puts pairs of keys and values into the dictionary on top.
    fn set(&mut self, values: Vec<PickledValue>) -> Result<(), String> {
        check_depth(&values)?;
        let Some(PickledValue::Dictionary(entries)) = self.stack.last_mut() else {
            return Err(damaged());
        };
        let mut values = values.into_iter();
        while let Some(key) = values.next() {
            let (PickledValue::Text(key), Some(value)) = (key, values.next()) else {
                return Err("has a key that is not a text".into());
            };
            entries.insert(key, value);
        }
        Ok(())
    }

    /// `('storage', class, member, device, count)`.
    fn storage(&mut self) -> Result<(), String> {
        let PickledValue::Tuple(parts) = self.pop()? else {
            return Err(damaged());
        };
        let [
            PickledValue::Text(what),
            PickledValue::Name(PickledName::Storage(element)),
            PickledValue::Text(member),
            _,
            _,
        ] = &parts[..]
        else {
            return Err(damaged());
        };
        match what.as_str() {
            "storage" => self.push(PickledValue::Storage(member.clone(), *element)),
            _ => Err(damaged()),
        }
    }

    /// A call: of a tensor's place, or of an empty dictionary.
    fn reduce(&mut self) -> Result<(), String> {
        let (PickledValue::Tuple(arguments), PickledValue::Name(called)) =
            (self.pop()?, self.pop()?)
        else {
            return Err(damaged());
        };
        match (called, &arguments[..]) {
            (PickledName::Dictionary, []) => self.push(PickledValue::Dictionary(BTreeMap::new())),
            (
                PickledName::Tensor,
                [
                    PickledValue::Storage(storage, element),
                    PickledValue::Number(offset),
                    PickledValue::Tuple(shape),
                    PickledValue::Tuple(strides),
                    ..,
                ],
            ) => {
                let numbers = |values: &[PickledValue]| -> Option<Vec<usize>> {
                    let number = |value: &PickledValue| match value {
                        PickledValue::Number(number) => Some(*number),
                        _ => None,
                    };
                    values.iter().map(number).collect()
                };
                let (Some(shape), Some(strides)) = (numbers(shape), numbers(strides)) else {
                    return Err(damaged());
                };
                if !is_row_major(&shape, &strides) {
                    return Err("has a tensor whose numbers do not follow one another".into());
                }
                self.push(PickledValue::Tensor(TensorPlace {
                    storage: storage.clone(),
                    element: *element,
                    offset: *offset,
                    shape,
                }))
            }
            _ => Err(damaged()),
        }
    }
}

/// Checks that `values` may lie in another one.
fn check_depth(values: &[PickledValue]) -> Result<(), String> {
    match values.iter().any(|value| value.depth() >= MOST_DEPTH) {
        true => Err(format!("nests values more than {MOST_DEPTH} deep")),
        false => Ok(()),
    }
}

/// Whether numbers of a tensor follow one another, the last axis first; the step along a side of 1 does not matter.
fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    let mut step = Some(1_usize);
    let sides = shape.iter().zip(strides).rev();
    let mut follows = |(&side, &stride): (&usize, &usize)| {
        let is_right = side == 1 || step == Some(stride);
        step = step.and_then(|step| step.checked_mul(side));
        is_right
    };
    shape.len() == strides.len() && sides.into_iter().all(&mut follows)
}
