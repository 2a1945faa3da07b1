//! The modules of each crate: two that need each other could be neither understood nor changed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::sandbox::in_repository;

/// A module, as the names that lead to it from its crate's root.
type ModulePath = Vec<String>;

/// The modules below `folder`, each with its code. Tests don't count.
fn modules(folder: &Path, at: &[String], found: &mut BTreeMap<ModulePath, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name.contains("test") || path.ends_with("src/bin") {
            continue;
        }
        let mut module = at.to_vec();
        if !["mod", "lib", "main"].contains(&name.as_str()) {
            module.push(name);
        }
        if path.is_dir() {
            modules(&path, &module, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let code = fs::read_to_string(&path).unwrap();
            found.entry(module).or_default().push_str(&code);
        }
    }
}

/// The paths that `tokens` name from `crate`, `super` or `self` on, each as its names.
fn paths(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            // Attributes, documentation among them; what is compiled for tests alone goes with its attribute.
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                at += 1;
                if matches!(tokens.get(at), Some(TokenTree::Punct(inner)) if inner.as_char() == '!')
                {
                    at += 1;
                }
                let attribute = tokens.get(at).map(ToString::to_string).unwrap_or_default();
                if attribute.replace(' ', "") == "[cfg(test)]" {
                    let ends = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        other => other.to_string() == ";",
                    };
                    at += tokens[at..].iter().position(ends).unwrap_or(0);
                }
            }
            TokenTree::Group(group) => paths(group.stream(), found),
            TokenTree::Ident(ident)
                if ["crate", "super", "self"].contains(&ident.to_string().as_str()) =>
            {
                let beginning = vec![ident.to_string()];
                at = path(&tokens, at + 1, beginning, found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Follows a path that began with `names` before the token `at`; gives the token behind it.
fn path(
    tokens: &[TokenTree],
    mut at: usize,
    mut names: Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    while colon(at) && colon(at + 1) {
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(ident)) => names.push(ident.to_string()),
            Some(TokenTree::Group(list)) => {
                let list: Vec<TokenTree> = list.stream().into_iter().collect();
                for each in list.split(|token| token.to_string() == ",") {
                    if let Some(TokenTree::Ident(first)) = each.first() {
                        let mut names = names.clone();
                        names.push(first.to_string());
                        path(each, 1, names, found);
                    }
                }
                return at + 3;
            }
            _ => break,
        }
        at += 3;
    }
    found.push(names);
    at
}

/// The module that `names` lead to from `module`.
fn resolved(module: &[String], names: &[String], all: &BTreeMap<ModulePath, String>) -> ModulePath {
    let mut place = match names[0].as_str() {
        "crate" => Vec::new(),
        _ => module.to_vec(),
    };
    for name in names {
        match name.as_str() {
            "super" => drop(place.pop()),
            "crate" | "self" => {}
            _ => {
                place.push(name.clone());
                if !all.contains_key(&place) {
                    place.pop();
                    break;
                }
            }
        }
    }
    place
}

/// For each folder of a crate the modules in it that stand in a circle or need one that does, each with those that it
/// needs.
fn circles(src: &Path) -> BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> {
    let mut all = BTreeMap::new();
    modules(src, &[], &mut all);
    let mut folders: BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, code) in &all {
        let mut named = Vec::new();
        paths(code.parse().unwrap(), &mut named);
        for names in named {
            let needed = resolved(module, &names, &all);
            let shared = module
                .iter()
                .zip(&needed)
                .take_while(|(a, b)| a == b)
                .count();
            if let (Some(one), Some(other)) = (module.get(shared), needed.get(shared)) {
                let folder = folders.entry(module[..shared].to_vec()).or_default();
                folder.entry(one.clone()).or_default().insert(other.clone());
            }
        }
    }
    for left in folders.values_mut() {
        // A module that needs none that is left goes; one that stays stands in a circle, or needs one.
        loop {
            let before = left.clone();
            left.retain(|_, needed| needed.iter().any(|module| before.contains_key(module)));
            if left.len() == before.len() {
                break;
            }
        }
    }
    folders.retain(|_, left| !left.is_empty());
    folders
}

#[test]
fn modules_need_each_other_in_no_circle() {
    let mut sources = vec![in_repository("src"), in_repository("src/bin/embedctl")];
    for entry in fs::read_dir(in_repository("crates")).unwrap() {
        sources.push(entry.unwrap().path().join("src"));
    }
    assert!(sources.len() > 5, "{sources:?}");
    let found = sources.iter().map(|src| (src, circles(src)));
    let found: Vec<_> = found.filter(|(_, circles)| !circles.is_empty()).collect();
    assert!(found.is_empty(), "these need each other: {found:#?}");
}

/// A reader of the program, and of what runs for every record, sees all of its parts at a glance.
#[test]
fn the_root_has_few_modules() {
    for root in [
        "src",
        "crates/embedctl-pipeline/src",
        "crates/embedctl-outputs/src",
    ] {
        let mut all = BTreeMap::new();
        modules(&in_repository(root), &[], &mut all);
        let roots: BTreeSet<&String> = all.keys().filter_map(|module| module.first()).collect();
        assert!((2..=13).contains(&roots.len()), "{root}: {roots:?}");
    }
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, code: &str| fs::write(folder.path().join(name), code).unwrap();
    write("a.rs", "use crate::b::Thing;");
    write(
        "b.rs",
        "use super::{\n    none::Thing,\n    c::{self, Other},\n};",
    );
    write("c.rs", "fn of() -> crate::b::Thing { crate::b::Thing }");
    write(
        "d.rs",
        "//! [`crate::e`]\n#[cfg(test)]\nmod tests {\n    use crate::e::Thing;\n}\n",
    );
    write("e.rs", "use crate::d::Thing;");
    fs::create_dir(folder.path().join("f")).unwrap();
    write("f/mod.rs", "mod g;\nmod h;");
    write("f/g.rs", "matches!(h, super::h::Thing)");
    write("f/h.rs", "impl super::g::Thing {}");
    let found = circles(folder.path());
    let names = |path: &[&str]| -> Vec<String> {
        let path: ModulePath = path.iter().map(ToString::to_string).collect();
        found[&path].keys().cloned().collect()
    };
    assert_eq!(names(&[]), ["a", "b", "c"]);
    assert_eq!(names(&["f"]), ["g", "h"]);
    assert_eq!(found.len(), 2);
}
