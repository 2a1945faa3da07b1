use super::*;
use crate::bench::testing::{report, row};

fn verdict(before: &[f64], after: &[f64], allowed: f64) -> Verdict {
    let (old, new) = (
        report(vec![row("cpu", before)]),
        report(vec![row("cpu", after)]),
    );
    let comparison = BaselineComparison::of(&new, &old, allowed).unwrap();
    assert_eq!(
        comparison.has_regressed(),
        comparison.rows[0].verdict.is_regression()
    );
    comparison.rows[0].verdict
}

fn around(rate: f64, noise: f64) -> Vec<f64> {
    (0..9)
        .map(|i| rate * (1.0 + noise * (f64::from(i) - 4.0) / 4.0))
        .collect()
}

#[test]
fn a_loss_beyond_what_is_allowed_and_beyond_noise_is_a_regression() {
    assert_eq!(
        verdict(&around(100.0, 0.01), &around(90.0, 0.01), 0.05),
        Verdict::Regressed
    );
    assert_eq!(
        verdict(&around(100.0, 0.01), &around(96.0, 0.01), 0.05),
        Verdict::Kept
    );
    assert_eq!(
        verdict(&around(100.0, 0.01), &around(120.0, 0.01), 0.05),
        Verdict::Kept
    );
}

#[test]
fn what_noise_could_do_is_inconclusive() {
    assert_eq!(
        verdict(&around(100.0, 0.2), &around(90.0, 0.2), 0.05),
        Verdict::Inconclusive
    );
}

#[test]
fn changes_come_with_their_interval() {
    let (old, new) = (
        report(vec![row("cpu", &around(100.0, 0.01))]),
        report(vec![row("cpu", &around(80.0, 0.01))]),
    );
    let compared = &BaselineComparison::of(&new, &old, 0.05).unwrap().rows[0];
    assert!(
        (compared.change.unwrap() + 0.2).abs() < 1e-9,
        "{compared:?}"
    );
    let (low, high) = compared.interval.unwrap();
    assert!(low < -0.2 && -0.2 < high && high < 0.0, "{compared:?}");
}

#[test]
fn a_configuration_that_fails_now_is_a_regression_and_one_that_always_did_is_not() {
    let mut broken = row("cpu", &[]);
    broken.failed = Some("no library".into());
    let good = report(vec![row("cpu", &[1.0; 6]), row("rten", &[1.0; 6])]);
    let bad = report(vec![broken.clone(), row("rten", &[1.0; 6])]);
    let verdicts = |new: &BenchReport, old: &BenchReport| -> Vec<Verdict> {
        let comparison = BaselineComparison::of(new, old, 0.05).unwrap();
        comparison.rows.iter().map(|row| row.verdict).collect()
    };
    assert_eq!(verdicts(&bad, &good), [Verdict::Failed, Verdict::Kept]);
    assert_eq!(verdicts(&bad, &bad), [Verdict::New, Verdict::Kept]);
}

#[test]
fn configurations_of_one_report_alone_are_named() {
    let old = report(vec![row("cpu", &[1.0; 6]), row("rten", &[1.0; 6])]);
    let new = report(vec![row("cuda", &[9.0; 6]), row("cpu", &[1.0; 6])]);
    let comparison = BaselineComparison::of(&new, &old, 0.05).unwrap();
    let verdicts: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row.verdict))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("cuda", Verdict::New),
            ("cpu", Verdict::Kept),
            ("rten", Verdict::NotMeasured)
        ]
    );
    assert!(!comparison.has_regressed());
    let other = report(vec![row("cuda", &[9.0; 6])]);
    let error = BaselineComparison::of(&other, &old, 0.05).unwrap_err();
    assert!(error.to_string().contains("none of this run's"), "{error}");
}

#[test]
fn other_texts_cannot_be_compared_and_other_machines_with_a_note_only() {
    let new = report(vec![row("cpu", &[1.0; 6])]);
    let mut old = new.clone();
    old.workload.name = "long".into();
    assert!(BaselineComparison::of(&new, &old, 0.05).is_err());
    let mut old = new.clone();
    old.machine.cores += 6;
    let comparison = BaselineComparison::of(&new, &old, 0.05).unwrap();
    assert!(
        comparison.notes[0].contains("another machine"),
        "{comparison:?}"
    );
    let mut old = new.clone();
    old.machine.peak_gflops = Some(1000.0);
    let comparison = BaselineComparison::of(&new, &old, 0.05).unwrap();
    assert!(comparison.notes[0].contains("GFLOP/s"), "{comparison:?}");
}

#[test]
fn a_report_survives_its_file() {
    let report = report(vec![row("cpu", &[1.0, 2.0])]);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<BenchReport>(&json).unwrap(), report);
}
