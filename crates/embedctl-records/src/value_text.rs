//! The text of single values: numbers, truth values, decimals, and times by ISO 8601.

use arrow::array::{Array, AsArray, timezone::Tz};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The text of a row's value; `None` where it is a time beyond the calendar.
pub(crate) type ValueText<'a> = Box<dyn Fn(usize) -> Option<String> + 'a>;

/// How the values of an array are written that are not null; `None` for lists, structs and other types without a single
/// value.
///
/// Arrow's own display does it, except for floats (it writes 0.00001 for 1e-5, and an id must stay as it was), for
/// intervals (it has no ISO 8601 for them), and for time zones by name (they need a table of the world's zones).
pub(crate) fn value_text(array: &dyn Array) -> Option<ValueText<'_>> {
    macro_rules! float {
        ($type:ty) => {{
            let floats = array.as_primitive::<$type>();
            Box::new(|row| Some(format!("{:?}", floats.value(row))))
        }};
    }
    Some(match array.data_type() {
        DataType::Float16 => float!(Float16Type),
        DataType::Float32 => float!(Float32Type),
        DataType::Float64 => float!(Float64Type),
        DataType::Interval(unit) => Box::new(|row| Some(interval(array, *unit, row))),
        DataType::Timestamp(unit, Some(zone)) if zone.parse::<Tz>().is_err() => {
            let utc = DataType::Timestamp(*unit, Some("+00:00".into()));
            let array = cast(array, &utc).ok()?;
            Box::new(move |row| displayed(&formatter(&array)?, row))
        }
        kind if kind.is_primitive() || *kind == DataType::Boolean => {
            let formatter = formatter(array)?;
            Box::new(move |row| displayed(&formatter, row))
        }
        _ => return None,
    })
}

/// The ids of records as text.
pub struct IdTexts<'a> {
    ids: &'a dyn Array,
    text: ValueText<'a>,
}

impl<'a> IdTexts<'a> {
    /// Those of a column; `None` if it has a type that ids do not have.
    #[must_use]
    pub fn of(ids: &'a dyn Array) -> Option<Self> {
        let text = match value_text(ids) {
            Some(text) => text,
            None if ids.data_type().is_nested() => return None,
            None => {
                let formatter = formatter(ids)?;
                Box::new(move |row| displayed(&formatter, row))
            }
        };
        Some(Self { ids, text })
    }

    /// The id of a row; `None` if it is null, or a time beyond the calendar.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<String> {
        match self.ids.is_valid(row) {
            true => (self.text)(row),
            false => None,
        }
    }
}

fn formatter(array: &dyn Array) -> Option<ArrayFormatter<'_>> {
    const OPTIONS: FormatOptions<'static> = FormatOptions::new();
    ArrayFormatter::try_new(array, &OPTIONS).ok()
}

fn displayed(formatter: &ArrayFormatter<'_>, row: usize) -> Option<String> {
    let text = formatter.value(row).try_to_string().ok()?;
    // A duration beyond chrono's range is not an error there, but `<invalid>`.
    (!text.starts_with('<')).then_some(text)
}

fn interval(array: &dyn Array, unit: IntervalUnit, row: usize) -> String {
    let (months, days, nanoseconds) = match unit {
        IntervalUnit::YearMonth => (
            array.as_primitive::<IntervalYearMonthType>().value(row),
            0,
            0,
        ),
        IntervalUnit::DayTime => {
            let span = array.as_primitive::<IntervalDayTimeType>().value(row);
            (0, span.days, i64::from(span.milliseconds) * 1_000_000)
        }
        IntervalUnit::MonthDayNano => {
            let span = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            (span.months, span.days, span.nanoseconds)
        }
    };
    let (sign, rest) = (
        if nanoseconds < 0 { "-" } else { "" },
        nanoseconds.unsigned_abs(),
    );
    let (seconds, rest) = (rest / 1_000_000_000, rest % 1_000_000_000);
    format!("P{months}M{days}DT{sign}{seconds}.{rest:09}S")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::*;

    #[test]
    fn times_are_written_by_iso_8601() {
        let zone = |zone: &str| TimestampMillisecondArray::from(vec![-1]).with_timezone(zone);
        let span = IntervalMonthDayNanoType::make_value(14, -3, -1_500_000_000);
        let columns: [(ArrayRef, &str); 12] = [
            (Arc::new(Date32Array::from(vec![-1])), "1969-12-31"),
            (
                Arc::new(Date64Array::from(vec![1])),
                "1970-01-01T00:00:00.001",
            ),
            (Arc::new(Time32SecondArray::from(vec![86_399])), "23:59:59"),
            (
                Arc::new(Time64NanosecondArray::from(vec![1_000])),
                "00:00:00.000001",
            ),
            (
                Arc::new(TimestampSecondArray::from(vec![-1])),
                "1969-12-31T23:59:59",
            ),
            (Arc::new(zone("+01:30")), "1970-01-01T01:29:59.999+01:30"),
            (Arc::new(zone("+00:00")), "1969-12-31T23:59:59.999Z"),
            (Arc::new(zone("Europe/Berlin")), "1969-12-31T23:59:59.999Z"),
            (
                Arc::new(DurationMillisecondArray::from(vec![-1_500])),
                "-PT1.5S",
            ),
            (
                Arc::new(IntervalMonthDayNanoArray::from(vec![span])),
                "P14M-3DT-1.500000000S",
            ),
            (
                Arc::new(
                    Decimal256Array::from(vec![Some(i256::from(-5))])
                        .with_precision_and_scale(40, 2)
                        .unwrap(),
                ),
                "-0.05",
            ),
            (Arc::new(Float64Array::from(vec![1e300])), "1e300"),
        ];
        for (array, text) in columns {
            let found = value_text(&array).unwrap()(0);
            assert_eq!(found.as_deref(), Some(text), "{}", array.data_type());
        }
    }

    #[test]
    fn times_beyond_the_calendar_have_no_text() {
        let array = TimestampSecondArray::from(vec![i64::MAX]);
        assert_eq!(value_text(&array).unwrap()(0), None);
        let array = Time32SecondArray::from(vec![-1]);
        assert_eq!(value_text(&array).unwrap()(0), None);
        assert!(value_text(&NullArray::new(1)).is_none());
    }
}
