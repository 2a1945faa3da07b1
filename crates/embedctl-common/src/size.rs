//! Amounts: parsing sizes of options, formatting sizes and counts, and rates.

/// A size in bytes: `65536`, `512KiB`, `4MiB`, `1GiB`; `K`, `M` and `G` mean the same, `kB`, `MB` and
/// `GB` count in thousands.
///
/// # Errors
/// If it is not a size, or more than this machine can address.
pub fn parse(text: &str) -> Result<usize, String> {
    const EXPECTED: &str = "must be a size such as 65536, 512KiB or 4MiB";
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: usize = number.parse().map_err(|_| EXPECTED.to_owned())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(EXPECTED.to_owned()),
    };
    match number.checked_mul(factor) {
        Some(0) => Err("must be at least 1 byte".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err("is more than this machine can address".to_owned()),
    }
}

/// A size for people, in powers of ten: `312 B`, `4.5 kB`, `90.4 MB`, `1.2 GB`.
#[must_use]
pub fn words(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let amount = bytes as f64;
    // From where a unit would be shown as 1.0 of the next.
    units
        .into_iter()
        .find(|(unit, _)| amount >= unit * 0.99995)
        .map_or_else(
            || format!("{bytes} B"),
            |(unit, name)| format!("{:.1} {name}", amount / unit),
        )
}

/// A whole number's digits with commas between groups of three.
#[must_use]
pub fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `amount` divided by `of`, such as seconds; 0 if `of` is 0.
#[must_use]
pub fn per(amount: f64, of: f64) -> f64 {
    if of > 0.0 { amount / of } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_to_none() {
        assert_eq!(per(5.0, 0.0), 0.0);
        assert_eq!(per(5.0, 2.0), 2.5);
    }

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        assert_eq!(parse("4MiB"), Ok(4 << 20));
        assert_eq!(parse("512KiB"), Ok(512 << 10));
        assert_eq!(parse("512 k"), Ok(512 << 10));
        assert_eq!(parse("2MB"), Ok(2_000_000));
        assert_eq!(parse("65536"), Ok(65_536));
        for wrong in [
            "",
            "MiB",
            "-1",
            "1.5MiB",
            "4 bananas",
            "0",
            "0MiB",
            "99999999999GiB",
            "4é",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
