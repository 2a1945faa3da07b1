//! Amounts as people say them.

use std::time::Duration;

use embedctl::rows::Dimensions;
use embedctl::size::grouped;

pub use embedctl::size::words as bytes;

/// A count and its noun.
pub fn number(amount: u64, noun: &str) -> String {
    let plural = if amount == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(amount))
}

/// A count with commas between groups of three digits.
pub fn count(amount: u64) -> String {
    grouped(&amount.to_string())
}

/// A number for each second: whole, and with one digit behind the point where it is less than one.
pub fn rate(per_second: f64) -> String {
    match per_second {
        slow if slow > 0.0 && slow < 0.95 => format!("{:.1}", slow.max(0.1)),
        fast => count(fast.round() as u64),
    }
}

/// A share, 0 to 1, in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A share, 0 to 1, in whole percent; never 0 or 100 where it is neither.
pub fn whole_percent(share: f64) -> String {
    let percent = (100.0 * share).round();
    match share {
        share if share > 0.0 && percent < 1.0 => "less than 1 %".to_owned(),
        share if share < 1.0 && percent >= 100.0 => "more than 99 %".to_owned(),
        _ => format!("{percent:.0} %"),
    }
}

/// A time as people say it: `0.42 s`, `12.3 s`, `2 min 05 s`, `1 h 02 min`; whole seconds stay whole.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = seconds.round() as u64;
    if time.subsec_nanos() == 0 && whole < 60 {
        format!("{whole} s")
    } else if seconds < 0.995 {
        format!("{seconds:.2} s")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    }
}

/// `384 dimensions`, or `64, 256 dimensions`.
pub(super) fn dimensions(widths: &Dimensions) -> String {
    match &widths.0[..] {
        [one] => number(*one as u64, "dimension"),
        several => {
            let widths: Vec<String> = several.iter().map(usize::to_string).collect();
            format!("{} dimensions", widths.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_rates_have_a_fraction() {
        let all = [
            (0.0, "0"),
            (0.004, "0.1"),
            (0.42, "0.4"),
            (0.96, "1"),
            (3.4, "3"),
            (1234.5, "1,235"),
        ];
        for (per_second, text) in all {
            assert_eq!(rate(per_second), text);
        }
    }

    #[test]
    fn counts_are_grouped_by_three() {
        let all = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        for (amount, text) in all {
            assert_eq!(count(amount), text);
        }
    }

    #[test]
    fn sizes_are_rounded_to_a_tenth() {
        for (amount, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (90_405_214, "90.4 MB"),
            (999_960_000, "1.0 GB"),
            (2_270_000_000, "2.3 GB"),
        ] {
            assert_eq!(bytes(amount), text);
        }
    }

    #[test]
    fn shares_in_whole_percent_are_not_rounded_to_nothing_or_all() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.001, "less than 1 %"),
            (0.014, "1 %"),
            (0.91, "91 %"),
            (0.999, "more than 99 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(whole_percent(share), text);
        }
    }

    #[test]
    fn durations_are_as_exact_as_is_useful() {
        let all = [
            (0.004, "0.00 s"),
            (7.0, "7 s"),
            (0.42, "0.42 s"),
            (0.999, "1.0 s"),
            (12.34, "12.3 s"),
            (59.96, "1 min 00 s"),
            (125.0, "2 min 05 s"),
            (3599.9, "1 h 00 min"),
            (3725.0, "1 h 02 min"),
        ];
        for (seconds, text) in all {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!(number(1, "row"), "1 row");
        assert_eq!(number(0, "row"), "0 rows");
    }
}
