//! Intervals and durations as PostgreSQL's `interval`: microseconds, days and months apart.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, TimeUnit,
};

/// Whether values of that type are intervals.
pub(super) fn is_interval(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_) | DataType::Duration(_))
}

/// Appends a value.
///
/// # Errors
/// Why PostgreSQL cannot hold it.
pub(super) fn push(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let finer = || "it has nanoseconds, but PostgreSQL counts microseconds".to_owned();
    let of_nanoseconds = |nanoseconds: i64| match nanoseconds % 1_000 {
        0 => Ok(nanoseconds / 1_000),
        _ => Err(finer()),
    };
    let times = |value: i64, factor: i64| {
        let beyond = || "it is an interval that PostgreSQL cannot count".to_owned();
        value.checked_mul(factor).ok_or_else(beyond)
    };
    macro_rules! value {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row)
        };
    }
    let (microseconds, days, months) = match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => (0, 0, value!(IntervalYearMonthType)),
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = value!(IntervalDayTimeType);
            (i64::from(value.milliseconds) * 1_000, value.days, 0)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = value!(IntervalMonthDayNanoType);
            (of_nanoseconds(value.nanoseconds)?, value.days, value.months)
        }
        DataType::Duration(TimeUnit::Second) => {
            (times(value!(DurationSecondType), 1_000_000)?, 0, 0)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            (times(value!(DurationMillisecondType), 1_000)?, 0, 0)
        }
        DataType::Duration(TimeUnit::Microsecond) => (value!(DurationMicrosecondType), 0, 0),
        DataType::Duration(TimeUnit::Nanosecond) => {
            (of_nanoseconds(value!(DurationNanosecondType))?, 0, 0)
        }
        other => return Err(format!("PostgreSQL has no interval for {other}")),
    };
    out.extend(microseconds.to_be_bytes());
    out.extend(days.to_be_bytes());
    out.extend(months.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DurationMillisecondArray, DurationNanosecondArray, DurationSecondArray,
        IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray,
    };
    use arrow::datatypes::{IntervalDayTime, IntervalMonthDayNano};

    use super::*;

    #[test]
    fn intervals_are_microseconds_days_and_months() {
        let day_time = IntervalDayTime::new(-3, 4);
        let nanoseconds = |nanoseconds| IntervalMonthDayNano::new(5, -6, nanoseconds);
        type Parts = (i64, i32, i32);
        let arrays: [(ArrayRef, Option<Parts>); 8] = [
            (
                Arc::new(IntervalYearMonthArray::from(vec![14])),
                Some((0, 0, 14)),
            ),
            (
                Arc::new(IntervalDayTimeArray::from(vec![day_time])),
                Some((4_000, -3, 0)),
            ),
            (
                Arc::new(IntervalMonthDayNanoArray::from(vec![nanoseconds(7_000)])),
                Some((7, -6, 5)),
            ),
            (
                Arc::new(IntervalMonthDayNanoArray::from(vec![nanoseconds(7_001)])),
                None,
            ),
            (
                Arc::new(DurationMillisecondArray::from(vec![-2])),
                Some((-2_000, 0, 0)),
            ),
            (
                Arc::new(DurationNanosecondArray::from(vec![9_000])),
                Some((9, 0, 0)),
            ),
            (Arc::new(DurationNanosecondArray::from(vec![9_001])), None),
            (Arc::new(DurationSecondArray::from(vec![i64::MAX])), None),
        ];
        for (array, expected) in arrays {
            assert!(is_interval(array.data_type()));
            let mut out = Vec::new();
            let pushed = push(&array, 0, &mut out);
            assert_eq!(pushed.is_ok(), expected.is_some(), "{array:?}");
            let Some((microseconds, days, months)) = expected else {
                continue;
            };
            let bytes = [
                &microseconds.to_be_bytes()[..],
                &days.to_be_bytes(),
                &months.to_be_bytes(),
            ];
            assert_eq!(out, bytes.concat());
        }
    }
}
