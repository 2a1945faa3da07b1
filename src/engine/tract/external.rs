//! Weights in files of their own, where a link leads to them.
//!
//! tract reads no weights outside the model's folder, and takes a link for what it leads to: in the Hub's
//! cache, where every file is a link to a blob, it would read none. So such a graph is told where its weights
//! really are. Names that climb out of the folder are refused all the same.

use std::path::{Component, Path};

use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};
use tract_onnx::prelude::TractResult;
use tract_onnx::tract_hir::internal::{anyhow, bail};

/// Makes the graph name weights by where they really are, if links lead out of `folder`; returns the folder
/// that its names are relative to.
pub(super) fn resolve(model: &mut ModelProto, folder: &Path) -> TractResult<String> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = folder.canonicalize()?;
    let mut outside = false;
    each_location(model, &mut |location| {
        let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&*location).components().all(stays) {
            bail!("it keeps weights in {location}, which is outside its folder");
        }
        outside |= !folder.join(&*location).canonicalize()?.starts_with(&folder);
        Ok(())
    })?;
    if !outside {
        return text(&folder);
    }
    let root = folder.ancestors().last().unwrap_or(&folder);
    each_location(model, &mut |location| {
        let place = folder.join(&*location).canonicalize()?;
        *location = text(place.strip_prefix(root)?)?;
        Ok(())
    })?;
    text(root)
}

/// Every name of a file with weights, subgraphs included.
fn each_location(
    model: &mut ModelProto,
    work: &mut dyn FnMut(&mut String) -> TractResult<()>,
) -> TractResult<()> {
    model
        .graph
        .as_mut()
        .map_or(Ok(()), |graph| walk(graph, work))
}

fn walk(
    graph: &mut GraphProto,
    work: &mut dyn FnMut(&mut String) -> TractResult<()>,
) -> TractResult<()> {
    for tensor in &mut graph.initializer {
        locations(tensor, work)?;
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        for tensor in attribute.t.iter_mut().chain(&mut attribute.tensors) {
            locations(tensor, work)?;
        }
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            walk(graph, work)?;
        }
    }
    Ok(())
}

fn locations(
    tensor: &mut TensorProto,
    work: &mut dyn FnMut(&mut String) -> TractResult<()>,
) -> TractResult<()> {
    for entry in &mut tensor.external_data {
        if entry.key == "location" {
            work(&mut entry.value)?;
        }
    }
    Ok(())
}

fn text(path: &Path) -> TractResult<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| anyhow!("{} is no Unicode", path.display()))
}
