//! Writes a graph node by node: values have names of their own, small tensors stand in the graph, and weights are only
//! declared.

use std::collections::HashMap;

use super::elements::TensorElement as _;
use super::{FloatType, GraphForm};
use embedctl_native::{PlainProduct, PlainTable};
use embedctl_onnx::{
    Attribute, Dimension, EXTERNAL, FLOAT, GraphProto, INT64, Node, Shape, Tensor, TensorType,
    TypeProto, ValueInfo,
};

/// A weight that the graph declares and that lies beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredWeight {
    /// Its name in the graph.
    pub name: String,
    /// Its shape in the graph.
    pub dims: Vec<usize>,
    /// The type of its elements.
    pub element: FloatType,
    /// Where its elements come from.
    pub(crate) source: WeightSource,
    /// Whether it is a product of fewer bits than the states, which is widened when it is used.
    pub is_widened: bool,
}

impl DeclaredWeight {
    /// The file that it is for a reader that is given it in memory. rten takes no other names.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.data", self.name)
    }

    /// How many elements it has.
    pub(crate) fn numbers(&self) -> usize {
        self.dims.iter().product()
    }

    /// Bytes of its elements.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.numbers() * self.element.size()
    }

    /// Whether it is a table of vectors, not a product.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.source, WeightSource::Table(_))
    }
}

/// Where a weight's elements come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WeightSource {
    /// A table, row by row.
    Table(PlainTable),
    /// A product, with a column for each output from the first one on.
    Product(PlainProduct, usize),
    /// The first products of a set's experts, one after another.
    ExpertsUp(usize),
    /// Their second products.
    ExpertsDown(usize),
}

/// A graph that is being written.
pub(super) struct GraphWriter {
    pub graph: GraphProto,
    pub weights: Vec<DeclaredWeight>,
    /// The type in which states are computed.
    pub float: FloatType,
    /// See [`GraphForm::widened_pieces`].
    pub widened_pieces: Option<usize>,
    /// The beginning of names.
    scope: String,
    /// Nodes so far, which number their names.
    count: usize,
    integers: HashMap<Vec<i64>, String>,
    scalars: HashMap<(i32, u32), String>,
    products: HashMap<String, String>,
}

impl GraphWriter {
    pub(super) fn new(form: GraphForm) -> Self {
        Self {
            graph: GraphProto {
                name: "embedctl".into(),
                ..GraphProto::default()
            },
            weights: Vec::new(),
            float: form.float,
            widened_pieces: form.widened_pieces.filter(|_| form.float == FloatType::F32),
            scope: String::new(),
            count: 0,
            integers: HashMap::new(),
            scalars: HashMap::new(),
            products: HashMap::new(),
        }
    }

    /// Names that follow begin with `scope`.
    pub(super) fn enter(&mut self, scope: String) {
        self.scope = scope;
    }

    /// Declares an input of integers, `[rows, length]`.
    pub(super) fn token_input(&mut self, name: &str) -> String {
        self.graph
            .input
            .push(value(name, INT64, &[Err("rows"), Err("length")]));
        name.to_owned()
    }

    /// Declares `name`, single precision with these sizes, as the output that `from` is.
    pub(super) fn output(&mut self, name: &str, from: &str, dims: &[Result<usize, &str>]) {
        self.graph.node.push(Node {
            input: vec![from.to_owned()],
            output: vec![name.to_owned()],
            name: name.to_owned(),
            op_type: "Cast".into(),
            attribute: vec![Attribute::int("to", FLOAT.into())],
            ..Node::default()
        });
        self.graph.output.push(value(name, FLOAT, dims));
    }

    /// Adds a node with one output; returns that.
    pub(super) fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> String {
        self.nodes(operator, inputs, attributes, 1).remove(0)
    }

    /// Adds a node; returns its outputs.
    pub(super) fn nodes(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attribute: Vec<Attribute>,
        outputs: usize,
    ) -> Vec<String> {
        let name = format!("{}{operator}_{}", self.scope, self.count);
        self.count += 1;
        let output: Vec<String> = match outputs {
            1 => vec![name.clone()],
            _ => (0..outputs).map(|part| format!("{name}.{part}")).collect(),
        };
        self.graph.node.push(Node {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: output.clone(),
            name,
            op_type: operator.to_owned(),
            attribute,
            ..Node::default()
        });
        output
    }

    /// A constant list of integers.
    pub(super) fn integers(&mut self, values: &[i64]) -> String {
        if let Some(name) = self.integers.get(values) {
            return name.clone();
        }
        let name = format!("integers_{}", self.integers.len());
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(&name, vec![values.len()], INT64, bytes.collect());
        self.integers.insert(values.to_vec(), name.clone());
        name
    }

    /// A constant integer without dimensions.
    pub(super) fn integer(&mut self, value: i64) -> String {
        let name = format!("integer_{value}");
        if !self.graph.initializer.iter().any(|one| one.name == name) {
            self.constant(&name, Vec::new(), INT64, value.to_le_bytes().to_vec());
        }
        name
    }

    /// A constant number in the type of states.
    pub(super) fn scalar(&mut self, value: f32) -> String {
        self.scalar_of(self.float, value)
    }

    /// A constant number of type `element`.
    pub(super) fn scalar_of(&mut self, element: FloatType, value: f32) -> String {
        let key = (element.number(), value.to_bits());
        if let Some(name) = self.scalars.get(&key) {
            return name.clone();
        }
        let name = format!("scalar_{}", self.scalars.len());
        self.constant(
            &name,
            Vec::new(),
            element.number(),
            element.encoded(&[value]),
        );
        self.scalars.insert(key, name.clone());
        name
    }

    /// A constant table of integers.
    pub(super) fn integer_table(&mut self, dims: &[usize], values: &[i64]) -> String {
        let name = self.fresh("integers");
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(&name, dims.to_vec(), INT64, bytes.collect());
        name
    }

    /// Constant numbers in the type of states.
    pub(super) fn floats(&mut self, dims: &[usize], values: &[f32]) -> String {
        self.floats_of(self.float, dims, values)
    }

    /// Constant numbers of type `element`.
    pub(super) fn floats_of(
        &mut self,
        element: FloatType,
        dims: &[usize],
        values: &[f32],
    ) -> String {
        let name = self.fresh("floats");
        self.constant(
            &name,
            dims.to_vec(),
            element.number(),
            element.encoded(values),
        );
        name
    }

    fn fresh(&self, kind: &str) -> String {
        format!("{}{kind}_{}", self.scope, self.graph.initializer.len())
    }

    fn constant(&mut self, name: &str, dims: Vec<usize>, data_type: i32, raw_data: Vec<u8>) {
        self.graph.initializer.push(Tensor {
            dims: dims.into_iter().map(|dim| dim as i64).collect(),
            data_type,
            name: name.to_owned(),
            raw_data,
            ..Tensor::default()
        });
    }

    /// Declares a weight; one that is declared again (layers may share weights) is the same.
    pub(super) fn weight(
        &mut self,
        name: &str,
        dims: &[usize],
        element: FloatType,
        source: WeightSource,
    ) -> String {
        if let Some(name) = self.products.get(name) {
            return name.clone();
        }
        self.graph.initializer.push(Tensor {
            dims: dims.iter().map(|&dim| dim as i64).collect(),
            data_type: element.number(),
            name: name.to_owned(),
            data_location: EXTERNAL,
            ..Tensor::default()
        });
        self.weights.push(DeclaredWeight {
            name: name.to_owned(),
            dims: dims.to_vec(),
            element,
            source,
            is_widened: element != self.float && !matches!(source, WeightSource::Table(_)),
        });
        self.products.insert(name.to_owned(), name.to_owned());
        name.to_owned()
    }

    pub(super) fn add(&mut self, a: &str, b: &str) -> String {
        self.node("Add", &[a, b], Vec::new())
    }

    pub(super) fn sub(&mut self, a: &str, b: &str) -> String {
        self.node("Sub", &[a, b], Vec::new())
    }

    pub(super) fn mul(&mut self, a: &str, b: &str) -> String {
        self.node("Mul", &[a, b], Vec::new())
    }

    pub(super) fn matmul(&mut self, a: &str, b: &str) -> String {
        self.node("MatMul", &[a, b], Vec::new())
    }

    /// `value` times a number; itself where that is 1.
    pub(super) fn scaled(&mut self, value: &str, by: f32) -> String {
        if by.to_bits() == 1.0_f32.to_bits() {
            return value.to_owned();
        }
        let by = self.scalar(by);
        self.mul(value, &by)
    }

    pub(super) fn cast(&mut self, value: &str, to: i32) -> String {
        self.node("Cast", &[value], vec![Attribute::int("to", to.into())])
    }

    pub(super) fn transpose(&mut self, value: &str, order: &[i64]) -> String {
        self.node("Transpose", &[value], vec![Attribute::ints("perm", order)])
    }

    /// 0 keeps a size, -1 takes the rest.
    pub(super) fn reshape(&mut self, value: &str, shape: &[i64]) -> String {
        let shape = self.integers(shape);
        self.node("Reshape", &[value, &shape], Vec::new())
    }

    pub(super) fn unsqueeze(&mut self, value: &str, axes: &[i64]) -> String {
        let axes = self.integers(axes);
        self.node("Unsqueeze", &[value, &axes], Vec::new())
    }

    /// Parts of these sizes along an axis.
    pub(super) fn split(&mut self, value: &str, axis: i64, sizes: &[usize]) -> Vec<String> {
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        let parts = self.integers(&sizes);
        self.nodes(
            "Split",
            &[value, &parts],
            vec![Attribute::int("axis", axis)],
            sizes.len(),
        )
    }

    /// An operator that reduces along axes and keeps them.
    pub(super) fn reduce(&mut self, operator: &str, value: &str, axes: &[i64]) -> String {
        let axes = self.integers(axes);
        self.node(
            operator,
            &[value, &axes],
            vec![Attribute::int("keepdims", 1)],
        )
    }
}

/// A value's declaration; sizes that vary have a name.
fn value(name: &str, elem_type: i32, dims: &[Result<usize, &str>]) -> ValueInfo {
    let dims = dims.iter().map(|dim| match dim {
        Ok(size) => Dimension {
            dim_value: Some(*size as i64),
            dim_param: None,
        },
        Err(name) => Dimension {
            dim_value: None,
            dim_param: Some((*name).to_owned()),
        },
    });
    ValueInfo {
        name: name.into(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorType {
                elem_type,
                shape: Some(Shape {
                    dim: dims.collect(),
                }),
            }),
        }),
    }
}
