//! Lines, bars and words of a chart, as SVG.

use std::fmt::Write as _;

use crate::safe_text::wrapped;
use crate::size::grouped;

/// Width of the picture, in pixels.
pub const WIDTH: f64 = 860.0;
/// Where content begins.
pub const LEFT: f64 = 30.0;
/// Where it ends.
pub const RIGHT: f64 = WIDTH - 20.0;
/// Width of the labels left of bars.
pub const LABELS: f64 = 170.0;
/// Colours there are for series.
pub const SERIES: usize = 6;

/// Thickness of a bar.
const BAR: f64 = 18.0;

/// Classes of everything that is drawn.
const STYLE: &str = include_str!("style.css");

/// A scale from zero, with round ticks.
#[derive(Debug)]
pub struct Axis {
    step: f64,
    end: f64,
}

impl Axis {
    /// An axis that holds `most`.
    #[must_use]
    pub fn new(most: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 {
            most
        } else {
            1.0
        };
        let rough = most / 5.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        Self {
            step,
            end: (most / step).ceil() * step,
        }
    }

    /// Where a value lies, 0 to 1.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        value / self.end
    }

    /// Values that get a line and a figure.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = (self.end / self.step).round() as u32;
        let step = self.step;
        (0..=count).map(move |tick| f64::from(tick) * step)
    }
}

/// A figure with three significant digits at least, and commas.
#[must_use]
pub fn number(value: f64) -> String {
    if value >= 99.95 {
        return grouped(&format!("{value:.0}"));
    }
    let decimals = match value {
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A text as it may stand in XML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// A picture of the usual width that grows downwards.
#[derive(Debug, Default)]
pub struct Canvas {
    body: String,
    /// Where the next part begins.
    pub y: f64,
}

impl Canvas {
    /// The whole document.
    #[must_use]
    pub fn finish(self) -> String {
        let height = self.y;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// Writes `text` at this place; `anchor` is `start`, `middle` or `end`, as in SVG.
    pub fn text(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Writes a heading over what follows.
    pub fn heading(&mut self, text: &str) {
        let y = self.y + 6.0;
        self.text(LEFT, y, "heading", "start", text);
        self.y += 24.0;
    }

    /// Draws a line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// The name of a row, left of its bar; long ones in two lines.
    pub fn label(&mut self, y: f64, name: &str) {
        const CHARACTERS: usize = 24;
        let x = LEFT + LABELS - 10.0;
        let mut lines = wrapped(name, CHARACTERS, CHARACTERS);
        lines.truncate(2);
        for line in &mut lines {
            if line.chars().count() > CHARACTERS {
                *line = line.chars().take(CHARACTERS - 1).chain(['…']).collect();
            }
        }
        let first = y + 4.5 - 7.0 * (lines.len() - 1) as f64;
        for (index, line) in lines.iter().enumerate() {
            self.text(x, first + 14.0 * index as f64, "label", "end", line);
        }
    }

    /// Draws a bar whose middle has this height.
    pub fn bar(&mut self, from: f64, to: f64, middle: f64, class: &str) {
        let (top, width) = (middle - BAR / 2.0, (to - from).max(0.0));
        self.add(format_args!(
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\" class=\"{class} bar\"/>"
        ));
    }

    /// Draws a small square in the colour of a series.
    pub fn swatch(&mut self, x: f64, y: f64, class: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" class=\"{class} bar\"/>"
        ));
    }

    /// An interval, lying.
    pub fn whisker(&mut self, low: f64, high: f64, y: f64) {
        self.line((low, y), (high, y), "whisker");
        for end in [low, high] {
            self.line((end, y - 4.0), (end, y + 4.0), "whisker");
        }
    }

    /// Draws a line through all points.
    pub fn curve(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        // The class of the series fills; a style goes before it.
        self.add(format_args!(
            "<polyline points=\"{}\" class=\"{class} curve\" style=\"fill:none\"/>",
            points.join(" ")
        ));
    }

    /// Draws a dot.
    pub fn dot(&mut self, (x, y): (f64, f64), class: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"{class} dot\"/>"
        ));
    }

    /// Lines and figures of a scale that runs to the right.
    pub fn ticks_across(
        &mut self,
        axis: &Axis,
        top: f64,
        bottom: f64,
        x: impl Fn(f64) -> f64,
        name: &str,
    ) {
        for tick in axis.ticks() {
            let class = if tick == 0.0 { "axis" } else { "grid" };
            self.line((x(tick), top), (x(tick), bottom), class);
            self.text(x(tick), bottom + 16.0, "tick", "middle", &number(tick));
        }
        let middle = f64::midpoint(x(0.0), x(axis.end));
        self.text(middle, bottom + 35.0, "axis-name", "middle", name);
    }

    /// Lines and figures of a scale that runs upwards.
    pub fn ticks_up(
        &mut self,
        axis: &Axis,
        left: f64,
        right: f64,
        y: impl Fn(f64) -> f64,
        name: &str,
    ) {
        for tick in axis.ticks() {
            let class = if tick == 0.0 { "axis" } else { "grid" };
            self.line((left, y(tick)), (right, y(tick)), class);
            self.text(left - 8.0, y(tick) + 4.0, "tick", "end", &number(tick));
        }
        let (x, middle) = (LEFT + 8.0, f64::midpoint(y(0.0), y(axis.end)));
        let name = escaped(name);
        self.add(format_args!(
            "<text transform=\"translate({x:.1} {middle:.1}) rotate(-90)\" class=\"axis-name\" \
             text-anchor=\"middle\">{name}</text>"
        ));
    }
}
