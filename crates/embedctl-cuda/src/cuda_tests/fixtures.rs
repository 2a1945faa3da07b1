//! Networks of every architecture, with rows, and what the native engine makes of them.

use std::fs;
use std::path::{Path, PathBuf};

use embedctl_kernels::Arithmetic;
use embedctl_native::{Encoder, Rows};
use serde_json::Value;

const FOLDER: &str = "../../fixtures/architectures";

/// A network and its rows.
pub(super) struct Fixture {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) rows: Vec<Row>,
}

/// A row's tokens.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) ids: Vec<u32>,
    pub(super) types: Vec<u32>,
}

/// Rows one after another.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) ids: Vec<u32>,
    pub(super) types: Vec<u32>,
    pub(super) ends: Vec<usize>,
}

impl Joined {
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut joined = Self::default();
        for row in rows {
            joined.ids.extend_from_slice(&row.ids);
            joined.types.extend_from_slice(&row.types);
            joined.ends.push(joined.ids.len());
        }
        joined
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            ids: &self.ids,
            types: &self.types,
            ends: &self.ends,
            seen: &[],
        }
    }
}

impl Fixture {
    /// What transformers makes of all rows in single precision.
    pub(super) fn states(&self) -> Vec<f32> {
        let npy = fs::read(self.folder.join("states.npy")).unwrap();
        let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
        let (words, rest) = npy[header..].as_chunks();
        assert!(rest.is_empty());
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }
}

/// The fixture of this name.
pub(super) fn fixture(name: &str) -> Fixture {
    let folder = Path::new(FOLDER).join(name);
    let rows: Value = serde_json::from_slice(&fs::read(folder.join("rows.json")).unwrap()).unwrap();
    let lists = |key: &str| -> Vec<Vec<u32>> {
        let lists = rows
            .get(key)
            .cloned()
            .unwrap_or_else(|| Value::Array(Vec::new()));
        serde_json::from_value(lists).unwrap()
    };
    let ids = lists("ids");
    let mut types = lists("types");
    types.resize(ids.len(), Vec::new());
    let rows = ids.into_iter().zip(types);
    Fixture {
        name: name.to_owned(),
        folder,
        rows: rows.map(|(ids, types)| Row { ids, types }).collect(),
    }
}

/// All fixtures.
pub(super) fn fixtures() -> Vec<Fixture> {
    let entries = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("rows.json").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 100, "only {} fixtures", names.len());
    names.iter().map(|name| fixture(name)).collect()
}

/// What the native engine makes of rows in single precision.
pub(super) fn exact(folder: &Path, rows: Rows<'_>) -> Vec<f32> {
    let encoder = Encoder::open(folder, None, Arithmetic::Fp32, 1, None).unwrap();
    encoder.worker().run(rows).unwrap().to_vec()
}

/// The greatest difference of two values; NaN is greater than all.
pub(super) fn apart(ours: &[f32], exact: &[f32]) -> f32 {
    assert_eq!(ours.len(), exact.len());
    let each = ours.iter().zip(exact).map(|(a, b)| (a - b).abs());
    each.fold(0.0, |worst, one| if one <= worst { worst } else { one })
}
