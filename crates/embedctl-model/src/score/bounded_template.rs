//! A chat template's program within the budget of its text: of the bytes that it makes, and of time.
//!
//! The interpreter limits the number of steps alone, and one step may double a text or copy a list. So a template's
//! instructions are rewritten: the result of each step that makes a value is weighed, and the weight is taken from the
//! budget. Functions that make more than they are given (`replace`, `join`, …) are counted before they run. The pages of
//! the interpreter's own documentation call its instructions unstable, so its version is fixed in `Cargo.toml`.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use minijinja::machinery::{CompiledTemplate, Instruction, Instructions, Vm, make_string_output};
use minijinja::value::{Rest, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, State, Value, escape_formatter, filters,
};

use super::jinja;
use super::python::text_of;
use super::template_source::ONE;
use embedctl_rows::budget::TextBudget;

/// What a value weighs beside the bytes of its text: its place in a list, and what the system adds.
const PLACE: usize = 64;

/// How deep values may be nested. The interpreter recurses over them, and so do their comparison and their end.
const MOST_DEPTH: usize = 200;

/// Functions of the rewritten program. No template can name them.
const WEIGH: &str = "\0weigh";
const REPEAT: &str = "\0repeat";
const CONCAT: &str = "\0concat";
const LISTED: &str = "\0listed";
const CONTAIN: &str = "\0contain";

thread_local! {
    /// The budget of the text that this thread renders. Each text has a thread of its own.
    static BUDGET: OnceCell<TextBudget> = const { OnceCell::new() };
}

/// Renders a template of `environment`, which [`prepare`] has prepared, on a thread that does nothing else.
///
/// # Errors
/// If the template fails or goes beyond `budget`.
pub(super) fn render(
    environment: &Environment<'_>,
    template: &CompiledTemplate<'_>,
    values: Value,
    budget: TextBudget,
) -> Result<String, Error> {
    BUDGET
        .with(|place| place.set(budget))
        .map_err(|_| failed("a thread renders two texts".into()))?;
    let program = rewritten(&template.instructions);
    let blocks = template.blocks.iter();
    let blocks: BTreeMap<_, _> = blocks
        .map(|(name, block)| (*name, rewritten(block)))
        .collect();
    let mut text = String::new();
    let mut output = make_string_output(&mut text);
    Vm::new(environment).eval(&program, values, &blocks, &mut output, AutoEscape::None)?;
    drop(output);
    Ok(text)
}

/// Puts functions within the budget in the place of the interpreter's.
pub(super) fn prepare(environment: &mut Environment<'static>) {
    environment.set_formatter(|output, state, value| {
        take(weight(value, 0)?)?;
        match value.kind() {
            ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
                output.write_str(&text_of(value)?).map_err(Error::from)
            }
            _ => escape_formatter(output, state, value),
        }
    });
    environment.set_unknown_method_callback(|state, value, method, arguments| {
        let mut all = vec![value.clone()];
        all.extend_from_slice(arguments);
        take(grown(method, &all)?)?;
        jinja::method(state, value, method, arguments)
    });
    environment.add_function(WEIGH, |value: Value| {
        take(weight(&value, 0)?)?;
        Ok(value)
    });
    environment.add_function(LISTED, |value: Value| match value.kind() {
        ValueKind::Iterable => Ok::<_, Error>(value.try_iter()?.collect()),
        _ => Ok(value),
    });
    environment.add_function(CONTAIN, |value: Value| {
        // A namespace that is a part of a value may get that value as its own part: a circle.
        match is_namespace(&value) {
            true => Err(failed("it puts a namespace into a value".into())),
            false => weight(&value, 1).map(|_| value),
        }
    });
    environment.add_global(ONE, 1);
    environment.add_function(REPEAT, |first: Value, second: Value| {
        repeated(&first, &second)
    });
    environment.add_function(CONCAT, |first: &Value, second: &Value| {
        check(weight(first, 0)?.saturating_add(weight(second, 0)?))?;
        Ok::<_, Error>(text_of(first)? + &text_of(second)?)
    });
    jinja::add_to(environment);
    add_filters(environment);
}

/// The filters that may make more than they are given. Others make a value of about the size of what they get.
fn add_filters(environment: &mut Environment<'static>) {
    let all = [
        ("replace", Value::from_function(jinja::replace)),
        ("join", Value::from_function(jinja::join)),
        ("format", Value::from_function(filters::format)),
        ("indent", Value::from_function(filters::indent)),
        ("batch", Value::from_function(filters::batch)),
        ("slice", Value::from_function(filters::slice)),
        ("tojson", Value::from_function(jinja::tojson)),
        ("list", Value::from_function(filters::list)),
        ("split", Value::from_function(filters::split)),
        ("lines", Value::from_function(filters::lines)),
    ];
    for (name, filter) in all {
        environment.add_filter(name, move |state: &State<'_, '_>, all: Rest<Value>| {
            take(grown(name, &all)?)?;
            filter.call(state, &all)
        });
    }
}

fn failed(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// Takes bytes from the budget, and looks at the time.
fn take(bytes: usize) -> Result<(), Error> {
    BUDGET.with(|budget| {
        let Some(budget) = budget.get() else {
            return Ok(());
        };
        budget.take_bytes(bytes).map_err(failed)?;
        budget.check_time().map_err(failed)
    })
}

/// Whether the budget has so many bytes left.
fn check(bytes: usize) -> Result<(), Error> {
    BUDGET.with(|budget| match budget.get() {
        Some(budget) => budget.check_bytes(bytes).map_err(failed),
        None => Ok(()),
    })
}

fn is_namespace(value: &Value) -> bool {
    let object = value.as_object();
    object.is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// What a value takes once it is written out, each part counted as often as it is there.
fn weight(value: &Value, depth: usize) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(PLACE + text.len());
    }
    let is_map = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => false,
        ValueKind::Map => true,
        ValueKind::Bytes => return Ok(PLACE + value.as_bytes().map_or(0, <[u8]>::len)),
        _ => return Ok(PLACE),
    };
    if depth > MOST_DEPTH {
        return Err(failed(format!(
            "it nests values more than {MOST_DEPTH} deep"
        )));
    }
    if depth > 0 && is_namespace(value) {
        return Err(failed("it puts a namespace into a value".into()));
    }
    let mut all = PLACE;
    for item in value.try_iter()? {
        if is_map {
            all += weight(&value.get_item(&item)?, depth + 1)?;
        }
        all += weight(&item, depth + 1)?;
        check(all)?;
    }
    Ok(all)
}

/// Bytes that a function makes beyond those it is given, at most; what it gives back is weighed afterwards.
fn grown(name: &str, arguments: &[Value]) -> Result<usize, Error> {
    let [first, others @ ..] = arguments else {
        return Ok(0);
    };
    let text = |at: usize| others.get(at).and_then(Value::as_str);
    let of = first.as_str().unwrap_or_default();
    let matches = |sought: &str| match sought {
        "" => of.len() + 1,
        sought => of.matches(sought).count(),
    };
    Ok(match name {
        "replace" => {
            let (from, to) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
            matches(from).saturating_mul(to.len())
        }
        // The filter gets the parts first, and the method of a text what stands between them.
        "join" => {
            let parts =
                |of: &Value| Ok::<_, Error>(of.as_str().map_or(weight(of, 0)? / PLACE, str::len));
            let second = others.first().map_or(Ok(0), parts)?;
            let between = text(0).unwrap_or_default().len();
            let filled = parts(first)?.saturating_mul(between);
            filled.saturating_add(second.saturating_mul(of.len()))
        }
        "split" | "rsplit" => {
            let separator = text(0).filter(|it| !it.is_empty());
            let parts = separator.map_or_else(|| of.split_whitespace().count(), matches);
            parts.saturating_mul(PLACE)
        }
        "lines" | "splitlines" => of.lines().count().saturating_mul(PLACE),
        "list" => of.len().saturating_mul(PLACE),
        // Widths are numbers of the text, or arguments where it has a star.
        "format" => numbers_in(of).saturating_add(largest(others)),
        "indent" => matches("\n")
            .saturating_add(1)
            .saturating_mul(largest(others)),
        "tojson" => {
            let lines = weight(first, 0)? / PLACE;
            lines
                .saturating_mul(MOST_DEPTH)
                .saturating_mul(largest(others))
        }
        "ljust" | "rjust" | "center" | "zfill" => largest(others).saturating_mul(4),
        "batch" | "slice" => largest(others).saturating_mul(PLACE),
        _ => 0,
    })
}

/// The sum of the numbers in a text.
fn numbers_in(text: &str) -> usize {
    let numbers = text.split(|one: char| !one.is_ascii_digit());
    let numbers = numbers.filter(|number| !number.is_empty());
    numbers.fold(0, |sum, number| {
        sum.saturating_add(number.parse().unwrap_or(usize::MAX))
    })
}

/// The largest number among arguments, and among those with a name.
fn largest(arguments: &[Value]) -> usize {
    let number = |value: &Value| value.as_usize().unwrap_or(0);
    let named = arguments.iter().filter(|value| value.is_kwargs());
    let named = named.flat_map(|all| {
        let names = all.try_iter().into_iter().flatten();
        names.filter_map(|name| all.get_item(&name).ok())
    });
    let named: Vec<_> = named.collect();
    arguments
        .iter()
        .chain(&named)
        .map(number)
        .max()
        .unwrap_or(0)
}

/// A product: of numbers, or of a text or a list and a number.
fn repeated(first: &Value, second: &Value) -> Result<Value, Error> {
    let pair = |first: &Value, second: &Value| {
        let is_long = first.as_str().is_some() || first.as_object().is_some();
        is_long.then(|| second.as_usize()).flatten()
    };
    let (long, times) = match (pair(first, second), pair(second, first)) {
        (Some(times), _) => (first, times),
        (None, Some(times)) => (second, times),
        (None, None) => return product(first, second),
    };
    check(weight(long, 0)?.saturating_mul(times))?;
    Ok(match long.as_str() {
        Some(text) => Value::from(text.repeat(times)),
        None => {
            let items: Vec<Value> = long.try_iter()?.collect();
            let all = items.iter().cycle().take(items.len() * times);
            all.cloned().collect()
        }
    })
}

/// A product as the interpreter makes it.
fn product(first: &Value, second: &Value) -> Result<Value, Error> {
    let environment = Environment::empty();
    let product = environment.compile_expression("first * second")?;
    product.eval(minijinja::context! { first, second })
}

/// The instructions of a template with those that weigh.
fn rewritten<'source>(old: &Instructions<'source>) -> Instructions<'source> {
    let count = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let all = || (0..count).filter_map(|at| Some((at, old.get(at)?)));
    // Where each of them begins, and the end.
    let mut places = vec![0];
    for (_, instruction) in all() {
        places.push(places[places.len() - 1] + steps(instruction).len());
    }
    let place = |at: &u32| {
        let place = places.get(*at as usize).copied();
        place
            .and_then(|it| u32::try_from(it).ok())
            .unwrap_or(u32::MAX)
    };
    let mut new = Instructions::new(old.name(), old.source());
    for (at, instruction) in all() {
        for step in steps(instruction) {
            let step = match step {
                Instruction::Iterate(to) => Instruction::Iterate(place(&to)),
                Instruction::Jump(to) => Instruction::Jump(place(&to)),
                Instruction::JumpIfFalse(to) => Instruction::JumpIfFalse(place(&to)),
                Instruction::JumpIfFalseOrPop(to) => Instruction::JumpIfFalseOrPop(place(&to)),
                Instruction::JumpIfTrueOrPop(to) => Instruction::JumpIfTrueOrPop(place(&to)),
                Instruction::BuildMacro(name, to, flags) => {
                    Instruction::BuildMacro(name, place(&to), flags)
                }
                other => other,
            };
            let line = old.get_line(at).and_then(|line| u16::try_from(line).ok());
            new.add_with_line(step, line.unwrap_or(0));
        }
    }
    new
}

/// What stands in the place of an instruction.
fn steps<'source>(instruction: &Instruction<'source>) -> Vec<Instruction<'source>> {
    let weigh = Instruction::CallFunction(WEIGH, Some(1));
    match instruction {
        // The formatter counts what is written.
        Instruction::EmitRaw(text) => {
            vec![
                Instruction::LoadConst(Value::from(*text)),
                Instruction::Emit,
            ]
        }
        Instruction::Mul => vec![Instruction::CallFunction(REPEAT, Some(2)), weigh],
        Instruction::StringConcat => vec![Instruction::CallFunction(CONCAT, Some(2)), weigh],
        Instruction::PushLoop(_) => vec![weigh, instruction.clone()],
        // The namespace lies on the value that it gets.
        Instruction::SetAttr(_) => vec![
            Instruction::Swap,
            Instruction::CallFunction(CONTAIN, Some(1)),
            Instruction::Swap,
            instruction.clone(),
        ],
        Instruction::Slice => vec![
            instruction.clone(),
            weigh,
            // The interpreter's slices of lists are no lists.
            Instruction::CallFunction(LISTED, Some(1)),
        ],
        Instruction::GetItem
        | Instruction::BuildMap(_)
        | Instruction::BuildList(_)
        | Instruction::Add
        | Instruction::Eq
        | Instruction::Ne
        | Instruction::Gt
        | Instruction::Gte
        | Instruction::Lt
        | Instruction::Lte
        | Instruction::In
        | Instruction::CompareAndPreserve(_)
        | Instruction::ApplyFilter(..)
        | Instruction::PerformTest(..)
        | Instruction::EndCapture
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => vec![instruction.clone(), weigh],
        _ => vec![instruction.clone()],
    }
}
