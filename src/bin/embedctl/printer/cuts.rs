//! Words about tokens that are cut off, and about the options that keep them.

use embedctl::pipeline::{CutRemedy, CutTokens};

use super::words::{count, number, whole_percent};

/// The share of all tokens from which their loss is a warning.
const MUCH: f64 = 0.05;

/// Whether so many tokens are lost, of those that would run and did, that a user must know.
pub fn is_much(cut: &CutTokens, run: u64) -> bool {
    cut.share_of_all(run) >= MUCH
}

/// `23 of 23 texts were cut to 64 tokens; about 91 % of their tokens had no effect`, after a run of `rows`: long texts are
/// not tokenized to their end.
pub fn loss(cut: &CutTokens, rows: u64, noun: &str, limit: Option<usize>) -> String {
    let were = if cut.rows == 1 { "was" } else { "were" };
    format!(
        "{} of {} {were} cut{}; about {} of {} tokens had no effect",
        count(cut.rows),
        number(rows, noun),
        to(limit),
        whole_percent(cut.share_of_cut_rows()),
        if cut.rows == 1 { "its" } else { "their" },
    )
}

/// The same where little is lost: `4 of 300 texts were cut to 256 tokens; about 1 % of all tokens had no effect`.
pub fn little_loss(
    cut: &CutTokens,
    run: u64,
    rows: u64,
    noun: &str,
    limit: Option<usize>,
) -> String {
    let were = if cut.rows == 1 { "was" } else { "were" };
    format!(
        "{} of {} {were} cut{}; about {} of all tokens had no effect",
        count(cut.rows),
        number(rows, noun),
        to(limit),
        whole_percent(cut.share_of_all(run)),
    )
}

fn to(limit: Option<usize>) -> String {
    limit.map_or_else(String::new, |limit| {
        format!(" to {}", number(limit as u64, "token"))
    })
}

/// `` `--chunk sentences` keeps WHAT; `--max-length 512` keeps 40 % of them ``, with a point; `None` if no option helps. After
/// a run, whose numbers `are_about` right, `about 40 %`.
pub fn remedy(cut: &CutTokens, remedy: CutRemedy, what: &str, are_about: bool) -> Option<String> {
    let about = if are_about { "about " } else { "" };
    let chunk = remedy
        .chunk
        .map(|by| format!("`--chunk {by}` keeps {what}"));
    let longer = remedy.max_length.map(|most| {
        let kept = match (cut.reachable == cut.lost, &chunk) {
            (true, _) if are_about => "about all of them".to_owned(),
            (true, Some(_)) => "them, too".to_owned(),
            (true, None) => what.to_owned(),
            (false, _) => format!("{about}{} of them", whole_percent(cut.reachable_share())),
        };
        format!("`--max-length {most}` keeps {kept}")
    });
    let both: Vec<String> = chunk.into_iter().chain(longer).collect();
    (!both.is_empty()).then(|| both.join("; ") + ".")
}

#[cfg(test)]
mod tests {
    use embedctl::tokenize::chunks::ChunkBy;

    use super::*;

    #[test]
    fn losses_are_told_with_what_helps() {
        let cut = CutTokens {
            rows: 23,
            kept: 1472,
            lost: 14_887,
            reachable: 5955,
        };
        assert_eq!(
            loss(&cut, 23, "text", Some(64)),
            "23 of 23 texts were cut to 64 tokens; about 91 % of their tokens had no effect"
        );
        assert!(is_much(&cut, 1472));
        let both = CutRemedy {
            chunk: Some(ChunkBy::Markdown),
            max_length: Some(512),
        };
        assert_eq!(
            remedy(&cut, both, "them", true).unwrap(),
            "`--chunk markdown` keeps them; `--max-length 512` keeps about 40 % of them."
        );
        let all = CutTokens {
            reachable: cut.lost,
            ..cut
        };
        assert_eq!(
            remedy(&all, both, "them", false).unwrap(),
            "`--chunk markdown` keeps them; `--max-length 512` keeps them, too."
        );
        assert_eq!(
            remedy(&all, both, "them", true).unwrap(),
            "`--chunk markdown` keeps them; `--max-length 512` keeps about all of them."
        );
        assert_eq!(remedy(&cut, CutRemedy::default(), "them", true), None);
        let little = CutTokens {
            rows: 1,
            kept: 64,
            lost: 36,
            reachable: 0,
        };
        assert!(!is_much(&little, 3243));
        assert_eq!(
            little_loss(&little, 3243, 301, "text", Some(64)),
            "1 of 301 texts was cut to 64 tokens; about 1 % of all tokens had no effect"
        );
    }
}
