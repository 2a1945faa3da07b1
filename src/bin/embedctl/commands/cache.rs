//! `embedctl cache`: what is kept on this machine, and its removal.

use embedctl::cache::{CacheEntry, CacheKind, Caches};
use embedctl::hub;
use serde_json::{Value, json};

use crate::args::{CacheAction, CacheArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::{Printer, TextTable, bytes, number};

/// Lists, counts or removes.
pub fn run(
    args: &CacheArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let hub = messages.cache_dir.clone();
    let caches = Caches::of_user(hub.unwrap_or_else(hub::default_cache));
    let entries = chosen(&caches, args)?;
    let sizes = || sizes(&entries, &args.kind);
    match args.cache_action {
        CacheAction::List if args.json => printer.pretty(&fields(&caches, &entries))?,
        CacheAction::List => {
            printer.text(&table(&entries))?;
            places(&caches, printer);
        }
        CacheAction::Size if args.json => {
            let kinds = sizes().into_iter();
            let kinds = kinds.map(
                |(kind, count, bytes)| json!({"kind": kind, "entries": count, "bytes": bytes}),
            );
            printer.pretty(&json!({
                "schema": 1,
                "bytes": total(&entries),
                "kinds": kinds.collect::<Vec<_>>(),
            }))?;
        }
        CacheAction::Size => {
            let mut table = TextTable::default();
            for (kind, count, size) in sizes() {
                let (kind, size) = (kind.name(), bytes(size));
                table.line(&format!("{kind:<10} {size:>9}  {}", number(count, "item")));
            }
            table.line(&format!("{:<10} {:>9}", "all", bytes(total(&entries))));
            printer.text(&table)?;
            places(&caches, printer);
        }
        CacheAction::Remove => remove(&caches, &entries, args, printer)?,
    }
    Ok(ExitCode::Done)
}

/// The entries that are asked for.
fn chosen(caches: &Caches, args: &CacheArgs) -> Result<Vec<CacheEntry>, CommandFailure> {
    let names = &args.cache_name;
    if args.dry_run && args.cache_action != CacheAction::Remove {
        return Err(CommandFailure::usage(
            "--dry-run is for `embedctl cache remove`; leave it out",
        ));
    }
    if args.cache_action == CacheAction::Remove && names.is_empty() && args.kind.is_empty() {
        return Err(CommandFailure::usage(
            "remove: name what is to go, as `embedctl cache` lists it, or give --kind models, weights, kernels or engines",
        ));
    }
    let mut entries = caches.entries(&args.kind);
    for name in names {
        if !entries.iter().any(|entry| is_called(entry, name)) {
            return Err(CommandFailure::usage(format!(
                "nothing in the cache is called {name}; `embedctl cache` lists all names"
            )));
        }
    }
    if !names.is_empty() {
        entries.retain(|entry| names.iter().any(|name| is_called(entry, name)));
    }
    Ok(entries)
}

/// Whether an entry has this name. A key may be given in full.
fn is_called(entry: &CacheEntry, name: &str) -> bool {
    match entry.kind {
        CacheKind::Models => entry.name == name,
        _ => !entry.name.is_empty() && name.starts_with(&entry.name),
    }
}

fn remove(
    caches: &Caches,
    entries: &[CacheEntry],
    args: &CacheArgs,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    if !args.dry_run {
        for entry in entries {
            caches.remove(entry)?;
        }
    }
    match args.json {
        true => printer.pretty(&fields(caches, entries))?,
        false => printer.text(&table(entries))?,
    }
    let verb = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let count = number(entries.len() as u64, "item");
    printer.info(format!("{verb} {count}, {}", bytes(total(entries))));
    Ok(())
}

fn total(entries: &[CacheEntry]) -> u64 {
    entries.iter().map(|entry| entry.bytes).sum()
}

/// How many entries of each kind there are, and their bytes.
fn sizes(entries: &[CacheEntry], kinds: &[CacheKind]) -> Vec<(CacheKind, u64, u64)> {
    let wanted = CacheKind::ALL.into_iter();
    let wanted = wanted.filter(|kind| kinds.is_empty() || kinds.contains(kind));
    let size = |kind| {
        let own = entries.iter().filter(|entry| entry.kind == kind);
        own.fold((kind, 0, 0), |(kind, count, bytes), entry| {
            (kind, count + 1, bytes + entry.bytes)
        })
    };
    wanted.map(size).collect()
}

fn fields(caches: &Caches, entries: &[CacheEntry]) -> Value {
    json!({
        "schema": 1,
        "models_folder": caches.hub,
        "own_folder": caches.own,
        "bytes": total(entries),
        "entries": entries,
    })
}

fn table(entries: &[CacheEntry]) -> TextTable {
    let mut table = TextTable::default();
    for entry in entries {
        let (kind, size) = (entry.kind.name(), bytes(entry.bytes));
        let day = entry.day().unwrap_or_default();
        table.line(&format!("{kind:<8} {size:>9}  {day:<10}  {}", entry.name));
    }
    table
}

/// Says where the entries are.
fn places(caches: &Caches, printer: &Printer) {
    printer.info(format!("models: {}", caches.hub.display()));
    match &caches.own {
        Some(own) => printer.info(format!("all else: {}", own.display())),
        None => printer.info(
            "nothing else is kept: there is no home folder, or other users may write to its cache",
        ),
    }
}
