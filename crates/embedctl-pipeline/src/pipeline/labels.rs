//! The columns that name a row's scores: its label, and the highest scores with theirs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Builder, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use embedctl_rows::score::ScoreKind;

/// The labels of a model, as columns of rows.
#[derive(Debug, Clone)]
pub(crate) struct LabelColumns {
    labels: Arc<[String]>,
    /// How many of the highest scores have columns of their own.
    top: Option<usize>,
}

impl LabelColumns {
    /// Those of a model's rows; none where a row has one score alone, which needs no label.
    pub(crate) fn of(scores: Option<&ScoreKind>, top: Option<usize>) -> Option<Self> {
        let scores = scores.filter(|scores| !scores.is_single())?;
        let most = scores.labels.len();
        Some(Self {
            labels: scores.labels.clone().into(),
            top: top.map(|top| top.min(most)),
        })
    }

    /// Arrow's fields.
    pub(super) fn fields(&self) -> Vec<FieldRef> {
        let label = Field::new("label", DataType::Utf8, true);
        let list = |name, kind| {
            let item = Arc::new(Field::new_list_field(kind, true));
            Field::new(name, DataType::List(item), true)
        };
        let mut fields = vec![label];
        if self.top.is_some() {
            fields.push(list("top_labels", DataType::Utf8));
            fields.push(list("top_scores", DataType::Float32));
        }
        fields.into_iter().map(Arc::new).collect()
    }

    /// The columns of rows with these scores; null where a row has none.
    pub(super) fn arrays<'a>(
        &self,
        rows: impl Iterator<Item = Option<&'a [f32]>>,
    ) -> Vec<ArrayRef> {
        let mut best = StringBuilder::new();
        let mut labels = ListBuilder::new(StringBuilder::new());
        let mut highest = ListBuilder::new(Float32Builder::new());
        for scores in rows {
            best.append_option(scores.map(|scores| &self.labels[ScoreKind::best(scores)]));
            let top = scores.zip(self.top);
            if let Some((scores, top)) = top {
                // Of equal scores the first label goes first.
                let mut order: Vec<usize> = (0..scores.len()).collect();
                order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
                for label in order.into_iter().take(top) {
                    labels.values().append_value(&self.labels[label]);
                    highest.values().append_value(scores[label]);
                }
            }
            labels.append(top.is_some());
            highest.append(top.is_some());
        }
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(best.finish())];
        if self.top.is_some() {
            arrays.push(Arc::new(labels.finish()));
            arrays.push(Arc::new(highest.finish()));
        }
        arrays
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Float32Type;

    use super::*;

    #[test]
    fn the_highest_scores_come_first_and_of_equal_ones_the_first() {
        let columns = LabelColumns {
            labels: ["a", "b", "c"].map(String::from).into(),
            top: Some(2),
        };
        let rows: [Option<&[f32]>; 3] = [Some(&[0.5, 2.0, 2.0]), None, Some(&[-1.0, -2.0, -3.0])];
        let arrays = columns.arrays(rows.into_iter());
        let best: Vec<Option<&str>> = arrays[0].as_string::<i32>().iter().collect();
        assert_eq!(best, [Some("b"), None, Some("a")]);
        let labels = arrays[1].as_list::<i32>();
        let first: Vec<Option<&str>> = labels
            .value(0)
            .as_string::<i32>()
            .iter()
            .map(|it| it.map(|it| if it == "b" { "b" } else { "c" }))
            .collect();
        assert_eq!(first, [Some("b"), Some("c")]);
        let scores = arrays[2].as_list::<i32>().value(2);
        assert_eq!(scores.as_primitive::<Float32Type>().values(), &[-1.0, -2.0]);
        assert_eq!(columns.fields().len(), arrays.len());
    }
}
