//! Single values as text: numbers, truth, decimals, and times by ISO 8601.

use chrono::{DateTime, NaiveTime, SecondsFormat, TimeDelta, Utc};

use super::array::{Array, AsArray, Int64Array, downcast_integer, make_array, timezone::Tz};
use super::datatypes::*;

/// The text of a row's value; `None` where it is a time beyond the calendar.
pub(crate) type Shown<'a> = Box<dyn Fn(usize) -> Option<String> + 'a>;

/// For zones that have a name, which need a table of the world's.
const NAMELESS: &str = "+00:00";

/// How the values of an array are shown that are not null; `None` where they are not single ones.
pub fn shown(array: &dyn Array) -> Option<Shown<'_>> {
    macro_rules! number {
        ($type:ty) => {{
            let numbers = array.as_primitive::<$type>();
            Box::new(|row| Some(format!("{:?}", numbers.value(row))))
        }};
    }
    macro_rules! decimal {
        ($type:ty) => {{
            let decimals = array.as_primitive::<$type>();
            Box::new(|row| Some(decimals.value_as_string(row)))
        }};
    }
    Some(downcast_integer! {
        array.data_type() => (number),
        DataType::Float16 => number!(Float16Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Boolean => Box::new(|row| Some(array.as_boolean().value(row).to_string())),
        DataType::Decimal32(..) => decimal!(Decimal32Type),
        DataType::Decimal64(..) => decimal!(Decimal64Type),
        DataType::Decimal128(..) => decimal!(Decimal128Type),
        DataType::Decimal256(..) => decimal!(Decimal256Type),
        DataType::Interval(unit) => Box::new(|row| Some(interval(array, *unit, row))),
        kind => time(array, kind)?,
    })
}

fn time<'a>(array: &dyn Array, kind: &'a DataType) -> Option<Shown<'a>> {
    let times = times(array)?;
    Some(match kind {
        DataType::Date32 => {
            Box::new(move |row| Some(format!("{:?}", times.point(row)?.date_naive())))
        }
        DataType::Timestamp(_, Some(zone)) => {
            let zone: Tz = zone.parse().or_else(|_| NAMELESS.parse()).ok()?;
            Box::new(move |row| {
                let time = times.point(row)?.with_timezone(&zone);
                Some(time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
            })
        }
        DataType::Date64 | DataType::Timestamp(..) => {
            Box::new(move |row| Some(format!("{:?}", times.point(row)?.naive_utc())))
        }
        DataType::Duration(_) => Box::new(move |row| {
            let (seconds, nanoseconds) = times.split(row);
            Some(TimeDelta::new(seconds, nanoseconds)?.to_string())
        }),
        _ => Box::new(move |row| {
            let (seconds, nanoseconds) = times.split(row);
            let seconds = seconds.try_into().ok()?;
            let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanoseconds)?;
            Some(format!("{time:?}"))
        }),
    })
}

/// Times as counts.
struct Times {
    counts: Int64Array,
    /// How many make a second.
    second: i64,
}

impl Times {
    /// Seconds, and nanoseconds beyond them.
    fn split(&self, row: usize) -> (i64, u32) {
        let count = self.counts.value(row);
        let rest = count.rem_euclid(self.second) * (1_000_000_000 / self.second);
        let rest = u32::try_from(rest).expect("less than a second");
        (count.div_euclid(self.second), rest)
    }

    fn point(&self, row: usize) -> Option<DateTime<Utc>> {
        let (seconds, nanoseconds) = self.split(row);
        DateTime::from_timestamp(seconds, nanoseconds)
    }
}

fn times(array: &dyn Array) -> Option<Times> {
    let (second, whole) = match array.data_type() {
        DataType::Date32 => (1, DataType::Int32),
        DataType::Date64 => (1_000, DataType::Int64),
        DataType::Time32(unit) => (per_second(*unit), DataType::Int32),
        DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            (per_second(*unit), DataType::Int64)
        }
        _ => return None,
    };
    let each = match array.data_type() {
        DataType::Date32 => 86_400,
        _ => 1,
    };
    let counts = array.to_data().into_builder().data_type(whole);
    let counts = make_array(counts.build().ok()?);
    let counts = match counts.as_primitive_opt::<Int32Type>() {
        Some(narrow) => narrow.unary(|count| i64::from(count) * each),
        None => counts.as_primitive().clone(),
    };
    Some(Times { counts, second })
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
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

    use arrow_buffer::i256;

    use super::*;
    use crate::arrow::array::*;

    #[test]
    fn times_are_shown_by_iso_8601() {
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
            let found = shown(&array).unwrap()(0);
            assert_eq!(found.as_deref(), Some(text), "{}", array.data_type());
        }
    }

    #[test]
    fn times_beyond_the_calendar_have_no_text() {
        let array = TimestampSecondArray::from(vec![i64::MAX]);
        assert_eq!(shown(&array).unwrap()(0), None);
        let array = Time32SecondArray::from(vec![-1]);
        assert_eq!(shown(&array).unwrap()(0), None);
        assert!(shown(&NullArray::new(1)).is_none());
    }
}
