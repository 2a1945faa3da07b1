//! The table of token vectors in a graph: the greatest token id that it can be fed.

use std::collections::{BTreeMap, BTreeSet};

use crate::Node;
use crate::skeleton::{GraphSkeleton, TensorSkeleton};

/// Operators that pass token ids on as they are, in their first input.
const PASS_IDS: [&str; 7] = [
    "Cast",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Slice",
];

/// Operators that pass a stored table on with all of its rows, in their first input.
const PASS_TABLE: [&str; 3] = ["Cast", "Identity", "DequantizeLinear"];

/// Rows of the table from which the graph takes a vector for each id in its input `ids`: the least, if there are
/// several. `None` if it is not found.
pub(crate) fn rows(graph: &GraphSkeleton, ids: &str) -> Option<usize> {
    let mut stored: BTreeMap<&str, &TensorSkeleton> = BTreeMap::new();
    for tensor in &graph.initializer {
        stored.insert(&tensor.name, tensor);
    }
    let mut passed = BTreeSet::from([ids]);
    let mut least = None;
    // A graph's nodes stand in an order in which each value is made before it is used.
    for node in &graph.node {
        let Some(output) = node.output.first() else {
            continue;
        };
        let operator = node.op_type.as_str();
        let first = node.input.first().map(String::as_str);
        if operator == "Constant" {
            let tensor = node.attribute.iter().find_map(|one| one.t.as_ref());
            stored.extend(tensor.map(|tensor| (output.as_str(), tensor)));
        } else if PASS_TABLE.contains(&operator)
            && let Some(&tensor) = first.and_then(|name| stored.get(name))
        {
            stored.insert(output, tensor);
        } else if PASS_IDS.contains(&operator) && first.is_some_and(|name| passed.contains(name)) {
            passed.insert(output);
        } else if let Some((table, indices)) = lookup(node)
            && passed.contains(indices)
            && let Some(rows) = stored.get(table).and_then(|table| table.dims.first())
            && let Ok(rows) = usize::try_from(*rows)
        {
            least = Some(least.map_or(rows, |least: usize| least.min(rows)));
        }
    }
    least
}

/// The names of the table and of the ids, if the node takes rows of a table by ids.
fn lookup(node: &Node) -> Option<(&str, &str)> {
    let (table, ids) = match node.op_type.as_str() {
        "Gather" if node.integer("axis").unwrap_or(0) == 0 => (0, 1),
        "GatherBlockQuantized" if node.integer("gather_axis").unwrap_or(0) == 0 => (0, 1),
        "EmbedLayerNormalization" => (2, 0),
        _ => return None,
    };
    Some((node.input.get(table)?, node.input.get(ids)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            op_type: operator.into(),
            input: inputs.iter().map(|&input| input.into()).collect(),
            output: vec![output.into()],
            ..Node::default()
        }
    }

    fn table(name: &str, rows: i64) -> TensorSkeleton {
        TensorSkeleton {
            name: name.into(),
            dims: vec![rows, 8],
            ..TensorSkeleton::default()
        }
    }

    fn graph(nodes: Vec<Node>) -> GraphSkeleton {
        GraphSkeleton {
            node: nodes,
            initializer: vec![table("words", 100), table("places", 7)],
            ..GraphSkeleton::default()
        }
    }

    #[test]
    fn the_table_is_found_however_it_is_stored_and_the_ids_are_passed_on() {
        let gather = |table, ids| node("Gather", &[table, ids], "vectors");
        for (nodes, expected) in [
            (vec![gather("words", "input_ids")], Some(100)),
            (
                vec![
                    node("Cast", &["input_ids"], "cast"),
                    gather("words", "cast"),
                ],
                Some(100),
            ),
            (
                vec![
                    node("DequantizeLinear", &["words", "scale"], "floats"),
                    gather("floats", "input_ids"),
                ],
                Some(100),
            ),
            (
                vec![node(
                    "EmbedLayerNormalization",
                    &["input_ids", "types", "words", "places"],
                    "vectors",
                )],
                Some(100),
            ),
            (
                vec![node(
                    "GatherBlockQuantized",
                    &["words", "input_ids", "scales"],
                    "vectors",
                )],
                Some(100),
            ),
            // Positions, which other ids name.
            (vec![gather("places", "position_ids")], None),
            // Computed ids are not the tokenizer's.
            (
                vec![
                    node("Add", &["input_ids", "one"], "more"),
                    gather("words", "more"),
                ],
                None,
            ),
            (vec![gather("computed", "input_ids")], None),
            (
                vec![gather("words", "input_ids"), gather("places", "input_ids")],
                Some(7),
            ),
            (Vec::new(), None),
        ] {
            let said = format!("{nodes:?}");
            assert_eq!(rows(&graph(nodes), "input_ids"), expected, "{said}");
        }
    }

    #[test]
    fn a_table_in_a_constant_is_found_and_columns_are_no_rows() {
        let mut constant = node("Constant", &[], "inside");
        constant.attribute.push(Attribute {
            name: "value".into(),
            t: Some(table("", 55)),
            ..Attribute::default()
        });
        let gather = node("Gather", &["inside", "input_ids"], "vectors");
        let found = rows(&graph(vec![constant, gather]), "input_ids");
        assert_eq!(found, Some(55));
        let mut columns = node("Gather", &["words", "input_ids"], "vectors");
        columns.attribute.push(Attribute {
            name: "axis".into(),
            i: Some(1),
            ..Attribute::default()
        });
        assert_eq!(rows(&graph(vec![columns]), "input_ids"), None);
    }
}
