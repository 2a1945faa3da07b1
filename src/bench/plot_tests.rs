use super::*;
use crate::bench::testing::{report, row};
use embedctl_search::chart::{Axis, escaped, number};

/// Two providers with three budgets each, and one that failed.
pub fn example() -> BenchReport {
    let mut rows = Vec::new();
    for (provider, rates) in [
        ("cpu", [900.0, 1015.0, 940.0]),
        ("rten", [350.0, 380.0, 372.0]),
    ] {
        for (budget, rate) in [256, 512, 1024].into_iter().zip(rates) {
            let values: Vec<f64> = (0..9)
                .map(|i| rate * (0.98 + 0.005 * f64::from(i)))
                .collect();
            let mut row = row(provider, &values);
            row.configuration.batch_tokens = Some(budget);
            row.measured.as_mut().unwrap().opened.batch_tokens = budget;
            rows.push(row);
        }
    }
    let mut failed = row("cuda", &[]);
    failed.failed =
        Some("libcuda.so.1 is not here <&>; install the driver of the graphics card".into());
    rows.push(failed);
    let all: Vec<Configuration> = rows.iter().map(|row| row.configuration.clone()).collect();
    for row in &mut rows {
        row.name = row.configuration.label(&all);
    }
    report(rows)
}

/// Elements are closed, and no text of the report becomes markup.
fn assert_well_formed(svg: &str) {
    for name in ["svg", "text", "style"] {
        let opened = svg.matches(&format!("<{name}")).count();
        assert_eq!(opened, svg.matches(&format!("</{name}>")).count(), "{name}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
}

#[test]
fn a_picture_says_what_it_shows() {
    let picture = svg(&example());
    assert_well_formed(&picture);
    for words in [
        "Embedding speed of model",
        "Test Processor 9000",
        "2026-11-21",
        "rows per second",
        "padded tokens in a batch at most",
        "Where time goes",
        "limited by infer",
        "tokenize",
        "not here &lt;&amp;&gt;",
    ] {
        assert!(picture.contains(words), "{words}");
    }
    assert_eq!(picture.matches("<polyline").count(), 2);
}

#[test]
fn one_budget_makes_no_curve() {
    let picture = svg(&report(vec![
        row("cpu", &[100.0; 6]),
        row("rten", &[50.0; 6]),
    ]));
    assert_well_formed(&picture);
    assert!(
        !picture.contains("<polyline") && !picture.contains("token budget"),
        "{picture}"
    );
}

#[test]
fn nothing_measured_is_still_a_picture() {
    let mut failed = row("cuda", &[]);
    failed.failed = Some("no device".into());
    let picture = svg(&report(vec![failed]));
    assert_well_formed(&picture);
    assert!(picture.contains("cuda: no device"));
}

#[test]
fn axes_have_round_ticks() {
    let ticks = |most: f64| Axis::new(most).ticks().collect::<Vec<_>>();
    assert_eq!(ticks(1020.0), [0.0, 250.0, 500.0, 750.0, 1000.0, 1250.0]);
    assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(ticks(0.0).len(), 6);
}

#[test]
fn figures_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (0.1234, "0.123"),
        (2.5, "2.5"),
        (9.999, "10"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (1_234_567.0, "1,234,567"),
    ] {
        assert_eq!(number(value), text);
    }
}

#[test]
fn words_are_escaped() {
    assert_eq!(escaped("<a & \"b\">\n"), "&lt;a &amp; &quot;b&quot;&gt; ");
}
