//! A comparison of outputs as a picture: for each output a bar of the shared neighbours at each depth.

use super::comparison::OutputComparison;
use crate::chart::{self, Axis, Canvas, LEFT, RIGHT};

/// Height of a bar with the space around it.
const STEP: f64 = 30.0;

/// The comparison as an SVG document.
#[must_use]
pub fn svg(found: &OutputComparison) -> String {
    let mut canvas = Canvas::default();
    let title = format!("Nearest rows shared with {}", found.reference.name);
    canvas.text(LEFT, 34.0, "title", "start", &title);
    let machine = format!("{} rows; neighbours of {}", found.rows, found.queries);
    canvas.text(LEFT, 56.0, "soft", "start", &machine);
    canvas.y = 84.0;
    let depths = found
        .others
        .first()
        .map_or(0, |one| one.neighbours.overlaps.len());
    for place in 0..depths {
        let depth = found.others[0].neighbours.overlaps[place].depth;
        canvas.heading(&format!("The {depth} nearest"));
        let axis = Axis::new(100.0);
        let (top, right) = (canvas.y, RIGHT - 150.0);
        let bottom = top + STEP * found.others.len() as f64;
        let from = LEFT + chart::LABELS;
        let x = |value: f64| from + axis.share(value) * (right - from);
        canvas.ticks_across(&axis, top, bottom, x, "per cent shared");
        for (number, other) in found.others.iter().enumerate() {
            let y = top + STEP * (number as f64 + 0.5);
            let share = 100.0 * other.neighbours.overlaps[place].share;
            canvas.label(y, &other.output.name);
            canvas.bar(x(0.0), x(share), y, "s0");
            let bytes = other.output.bytes_per_row / found.reference.bytes_per_row;
            let figures = format!("{share:.1} % · {:.1} % of the size", 100.0 * bytes);
            canvas.text(x(share) + 8.0, y + 4.5, "figure", "start", &figures);
        }
        canvas.y = bottom + 66.0;
    }
    canvas.finish()
}
