//! The rooms of each crate, which are the folders and files directly in its src/: two that need each other could be
//! neither understood nor changed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::sandbox::in_repository;

/// Adds the rooms that the code below `path`, which belongs to `room`, names. Tests and words about code don't count.
fn needs(path: &Path, room: &str, all: &BTreeSet<String>, needed: &mut BTreeSet<String>) {
    if path.file_stem().unwrap().to_string_lossy().contains("test") {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            needs(&entry.unwrap().path(), room, all, needed);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    for line in code.lines().filter(|line| !line.trim().starts_with("//")) {
        for after in line.split("crate::").skip(1) {
            let names = after.split([';', ')', '>']).next().unwrap();
            let names = match names.strip_prefix('{') {
                Some(list) => list.split(',').collect(),
                None => vec![names],
            };
            let first = |name: &str| {
                let name = name.trim();
                let end = name.find(|c: char| c != '_' && !c.is_ascii_lowercase());
                name[..end.unwrap_or(name.len())].to_owned()
            };
            needed.extend(
                names
                    .into_iter()
                    .map(first)
                    .filter(|name| all.contains(name) && name != room),
            );
        }
    }
}

/// The rooms below `src` that stand in a circle or need one that does, each with the rooms that it needs.
fn circles(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut paths: Vec<_> = fs::read_dir(src)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| !["bin", "lib"].contains(&name(path).as_str()));
    let all = paths.iter().map(|path| name(path)).collect();
    let mut left = BTreeMap::new();
    for path in &paths {
        let needed = left.entry(name(path)).or_default();
        needs(path, &name(path), &all, needed);
    }
    // A room that needs none that is left goes; one that stays stands in a circle, or needs one.
    loop {
        let stays: BTreeMap<String, BTreeSet<String>> = left
            .iter()
            .filter(|(_, needed)| needed.iter().any(|room| left.contains_key(room)))
            .map(|(room, needed)| (room.clone(), needed.clone()))
            .collect();
        if stays.len() == left.len() {
            return left;
        }
        left = stays;
    }
}

#[test]
fn rooms_need_each_other_in_no_circle() {
    let mut sources = vec![in_repository("src")];
    for entry in fs::read_dir(in_repository("crates")).unwrap() {
        sources.push(entry.unwrap().path().join("src"));
    }
    assert!(sources.len() > 5, "{sources:?}");
    for src in sources {
        let left = circles(&src);
        assert!(
            left.is_empty(),
            "{}: these need each other: {left:#?}",
            src.display()
        );
    }
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for (room, needed) in [("a", "b"), ("b", "c"), ("c", "b"), ("d", "none")] {
        let text = format!("use crate::{needed}::Thing;\n");
        fs::write(folder.path().join(format!("{room}.rs")), text).unwrap();
    }
    let left: Vec<String> = circles(folder.path()).into_keys().collect();
    assert_eq!(left, ["a", "b", "c"]);
}
