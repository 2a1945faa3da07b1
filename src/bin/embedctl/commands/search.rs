//! `embedctl search`: the rows of an output that are nearest to queries.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use embedctl::cancel::CancelToken;
use embedctl::engine::{EngineOptions, Resolved};
use embedctl::error::Error;
use embedctl::input::RecordReader;
use embedctl::model::ModelOptions;
use embedctl::output::{self, OutputFormat, RunFiles, Terms};
use embedctl::record::Numbers;
use embedctl::search::{self, Corpus, Hit, QueryModel};
use embedctl::setting::OUTPUT;
use embedctl::storage::{Location, Storage};

use super::stores;
use crate::args::{HitFormat, MessageArgs, RecordArgs, SearchArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, TextTable};

/// Characters of a text that people are shown where the width of their terminal is not known.
const SHOWN: usize = 200;

/// Characters of a text that people are shown, however narrow their terminal is.
const LEAST_SHOWN: usize = 20;

/// Queries with their ids.
struct Queries {
    ids: Vec<String>,
    texts: Vec<String>,
    vectors: Numbers,
    /// The row that is the query.
    row: Option<u64>,
}

/// Finds the rows and shows them.
pub fn run(
    args: &SearchArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    if args.filter.is_some() {
        return Err(CommandFailure::usage(format!(
            "--where: search compares every row and filters none; filter in a database, such as DuckDB: SELECT * FROM '{}' \
             WHERE ... ORDER BY array_cosine_similarity(...) DESC",
            args.out.display()
        )));
    }
    let output = args
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    let format = format(args, output)?;
    refuse_files_as_words(&args.query)?;
    if let Some(path) = output {
        if let Location::Remote(address) = Location::of(path)? {
            return Err(Error::usage(format!(
                "{OUTPUT} {address}: hits are written to files of this machine"
            ))
            .with_remedy("name one, and copy it there")
            .into());
        }
        let read = std::iter::once(&args.out).chain(&args.queries);
        output::refuse_to_replace((OUTPUT.into(), path), read.map(PathBuf::as_path))?;
    }
    let files = RunFiles::new();
    let cancel = interrupt::watch(files.clone())?;
    let paths = std::iter::once(&args.out).chain(&args.queries);
    let storage = stores::storage(
        paths.map(PathBuf::as_path),
        &args.stores.options,
        messages,
        &cancel,
    )?;
    let kinds: Vec<_> = args.kind.vectors.iter().cloned().collect();
    let mut corpus = Corpus::open(&args.out, storage.as_ref(), &kinds)?;
    if corpus.lacks_terms() {
        let (given, engine) = asked_model(args, messages);
        let (named, asked) = (args.model.as_deref(), (&given, &engine));
        let resolved =
            recorded_model(&args.out, &corpus, named, asked, messages, printer, &cancel)?;
        corpus.know_terms(Terms::named(resolved.open_files()?.terms()));
    }
    for warning in &corpus.warnings {
        printer.warning(warning);
    }
    let queries = match &args.like_row {
        Some(id) => like_row(&corpus, id, &cancel)?,
        None => embedded(args, &corpus, messages, printer, storage.as_ref(), &cancel)?,
    };
    let hits = match format {
        Some(HitFormat::Trec) => {
            refuse_equal_ids(&queries)?;
            nearest_texts(&corpus, &queries, args.k, &cancel)?
        }
        _ => nearest(&corpus, &queries, args.k, &cancel)?,
    };
    show((output, args.force), format, &hits, &files, printer)?;
    let shows_texts = format.is_none_or(|format| format == HitFormat::Jsonl);
    if shows_texts && !hits.is_empty() && hits.iter().all(|hit| hit.fields.text.is_none()) {
        printer.note(match corpus.has_readable_texts() {
            true => {
                "the output holds no texts: they come along with `embed --keep text` (the field of the texts), of chunks with \
                 `--chunk-text`"
            }
            false => "ids and texts of PostgreSQL's COPY are not read back; those of all other formats are",
        });
    }
    Ok(ExitCode::Done)
}

/// The `most` nearest rows to each query.
fn nearest(
    corpus: &Corpus,
    queries: &Queries,
    most: usize,
    cancel: &CancelToken,
) -> Result<Vec<Hit>, CommandFailure> {
    let found = corpus.nearest(&queries.vectors, most, queries.row, cancel)?;
    let rows: BTreeSet<u64> = found.iter().flatten().map(|hit| hit.row).collect();
    let fields = corpus.fields(&rows)?;
    let hits = found.iter().enumerate().flat_map(|(query, found)| {
        let fields = &fields;
        (1..).zip(found).map(move |(rank, hit)| Hit {
            query_number: query,
            query_id: queries.ids[query].clone(),
            query: queries.texts[query].clone(),
            rank,
            row: hit.row,
            fields: fields.get(&hit.row).cloned().unwrap_or_default(),
            score: hit.score,
        })
    });
    Ok(hits.collect())
}

/// The `most` nearest texts to each query: of a text in chunks its nearest row alone.
fn nearest_texts(
    corpus: &Corpus,
    queries: &Queries,
    most: usize,
    cancel: &CancelToken,
) -> Result<Vec<Hit>, CommandFailure> {
    let mut rows = most;
    loop {
        let hits = nearest(corpus, queries, rows, cancel)?;
        let mut of_query: HashMap<usize, (usize, HashSet<TextOf>)> = HashMap::new();
        for hit in &hits {
            let (count, ids) = of_query.entry(hit.query_number).or_default();
            *count += 1;
            ids.insert(TextOf::hit(hit));
        }
        let mut counts = of_query.values();
        let is_enough = counts.all(|(count, ids)| ids.len() >= most || *count < rows);
        if is_enough || !corpus.has_chunks() {
            let mut ranks: HashMap<usize, HashSet<TextOf>> = HashMap::new();
            let is_first = |mut hit: Hit| {
                let known = ranks.entry(hit.query_number).or_default();
                let is_new = known.len() < most && known.insert(TextOf::hit(&hit));
                hit.rank = known.len() as u64;
                is_new.then_some(hit)
            };
            return Ok(hits.into_iter().filter_map(is_first).collect());
        }
        rows = rows.saturating_mul(4);
    }
}

/// What tells a text from others: its id, or the number of its row, where it has none.
#[derive(PartialEq, Eq, Hash)]
enum TextOf {
    Id(String),
    Row(u64),
}

impl TextOf {
    fn hit(hit: &Hit) -> Self {
        (hit.fields.id_text()).map_or(Self::Row(hit.row), Self::Id)
    }
}

/// Refuses queries of one id: a run of TREC's tools would take their hits for those of one query.
fn refuse_equal_ids(queries: &Queries) -> Result<(), CommandFailure> {
    let mut known = HashSet::new();
    match queries.ids.iter().find(|id| !known.insert(id.as_str())) {
        Some(id) => Err(CommandFailure::usage(format!(
            "--output-format trec: two queries have the id {id:?}, which names a query there; give each its own, or choose \
             jsonl or parquet"
        ))),
        None => Ok(()),
    }
}

/// The format of the hits; `None`: lines for people.
fn format(args: &SearchArgs, output: Option<&Path>) -> Result<Option<HitFormat>, CommandFailure> {
    let Some(path) = output else {
        let format = args.output_format.or(args.json.then_some(HitFormat::Jsonl));
        return match format {
            Some(HitFormat::Parquet | HitFormat::Arrow) => Err(CommandFailure::usage(
                "--output-format: tables of hits are written to files; name one with --output",
            )),
            format => Ok(format),
        };
    };
    let by_name = || match path.extension()?.to_str()? {
        "parquet" => Some(HitFormat::Parquet),
        "arrow" | "ipc" | "feather" => Some(HitFormat::Arrow),
        "jsonl" | "ndjson" => Some(HitFormat::Jsonl),
        "trec" | "run" => Some(HitFormat::Trec),
        _ => None,
    };
    if args.json && by_name().is_some_and(|format| format != HitFormat::Jsonl) {
        return Err(CommandFailure::usage(format!(
            "--json: the ending of --output {} names another format; leave one of them out",
            path.display()
        )));
    }
    let said = args.output_format.or(args.json.then_some(HitFormat::Jsonl));
    match said.or_else(by_name) {
        Some(format) => Ok(Some(format)),
        None => Err(CommandFailure::usage(format!(
            "--output {}: its ending names no format of hits; end it in .parquet, .arrow, .jsonl or .trec, or give --output-format",
            path.display()
        ))),
    }
}

/// Refuses a query with the name of an output in it: a shell has put several in the place of a pattern.
fn refuse_files_as_words(query: &[String]) -> Result<(), CommandFailure> {
    let is_output = |word: &&String| {
        let path = Path::new(word.as_str());
        OutputFormat::from_path(path).is_some() && path.is_file()
    };
    match query.iter().find(is_output) {
        Some(file) => Err(Error::usage(format!(
            "search looks at one output, and {file} is a file beside it, not a word of a query"
        ))
        .with_remedy(
            "name the folder of the parts; a query with such a word goes into a file of --queries",
        )
        .into()),
        None => Ok(()),
    }
}

/// The row with that id as a query.
fn like_row(corpus: &Corpus, id: &str, cancel: &CancelToken) -> Result<Queries, CommandFailure> {
    let row = corpus.row_of(id)?;
    Ok(Queries {
        ids: vec![id.to_owned()],
        texts: vec![id.to_owned()],
        vectors: corpus.vector(row, cancel)?,
        row: Some(row),
    })
}

/// The queries of the command line or of a file, embedded.
fn embedded(
    args: &SearchArgs,
    corpus: &Corpus,
    messages: &MessageArgs,
    printer: &Printer,
    storage: Option<&Storage>,
    cancel: &CancelToken,
) -> Result<Queries, CommandFailure> {
    let (ids, texts) = match &args.queries {
        Some(path) => queries(path, &args.records, storage)?,
        None => (vec!["1".to_owned()], vec![args.query.join(" ")]),
    };
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(CommandFailure::usage("a query is empty; give it words"));
    }
    let (given, engine) = asked_model(args, messages);
    let asked = (&given, &engine);
    let named = args.model.as_deref();
    let mut model = open_query_model(&args.out, corpus, named, asked, messages, printer, cancel)?;
    Ok(Queries {
        vectors: embed(&mut model, &texts, printer)?,
        ids,
        texts,
        row: None,
    })
}

/// What the user said of the model and its engine.
fn asked_model(args: &SearchArgs, messages: &MessageArgs) -> (ModelOptions, EngineOptions) {
    let given = ModelOptions {
        cache_dir: messages.cache_dir.clone(),
        prompt: args.prompt.clone(),
        prompt_name: args.prompt_name.clone(),
        text_task: args.task.clone(),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: args.providers.provider.clone(),
        runtime: super::runtime(None),
        ..EngineOptions::default()
    };
    (given, engine)
}

/// The model that made an output, here: as it was, or in the place `named`.
fn recorded_model(
    out: &Path,
    corpus: &Corpus,
    named: Option<&str>,
    (given, engine): (&ModelOptions, &EngineOptions),
    messages: &MessageArgs,
    printer: &Printer,
    cancel: &CancelToken,
) -> Result<Resolved, CommandFailure> {
    let (model, engine) = corpus.model(named, given, engine)?;
    if !super::is_of_hub(&model.model) && !Path::new(&model.model).exists() {
        return Err(Error::usage(format!(
            "the model that made {}, {}, is not here",
            out.display(),
            model.model
        ))
        .with_remedy("say where it is with --model")
        .into());
    }
    super::resolve_here(&model, &engine, messages, printer, cancel)
}

/// Opens the model of an output's queries, and says what it does to them. `named` is another place of the model; `given` and
/// the engine are what the user said.
pub(super) fn open_query_model(
    out: &Path,
    corpus: &Corpus,
    named: Option<&str>,
    asked: (&ModelOptions, &EngineOptions),
    messages: &MessageArgs,
    printer: &Printer,
    cancel: &CancelToken,
) -> Result<QueryModel, CommandFailure> {
    let resolved = recorded_model(out, corpus, named, asked, messages, printer, cancel)?;
    let given = asked.0;
    let model = corpus.open_model(&resolved, given, cancel)?;
    if let Some(warning) = &model.warning {
        printer.warning(warning);
    }
    if !model.prompt.is_empty() {
        printer.info(format!("queries get the prompt {:?}", model.prompt));
    }
    Ok(model)
}

/// The vectors of queries. Those of which the model takes only the beginning are told of.
pub(super) fn embed(
    model: &mut QueryModel,
    texts: &[String],
    printer: &Printer,
) -> Result<Numbers, CommandFailure> {
    let found = model.embed(texts)?;
    if found.truncated > 0 {
        printer.warning(format!(
            "{} of {} queries are longer than the {} tokens that the model takes: their ends have no effect",
            found.truncated,
            texts.len(),
            found.limit
        ));
    }
    Ok(found.vectors)
}

/// Ids and texts of a file's records; the number of a record that has no id is its id.
pub(super) fn queries(
    path: &Path,
    records: &RecordArgs,
    storage: Option<&Storage>,
) -> Result<(Vec<String>, Vec<String>), CommandFailure> {
    let options = records.options();
    let sources = stores::sources(&[path.to_path_buf()], options.format, storage)?;
    let mut reader = RecordReader::open(&sources, options)?;
    let (mut ids, mut texts) = (Vec::new(), Vec::new());
    while let Some(window) = reader.next_window()? {
        if let Some(reject) = window.rejects().next() {
            // No option leaves a query out.
            return Err(CommandFailure::usage(format!(
                "{}:{}: {}; write a query there, or take the line out",
                path.display(),
                reject.origin.line,
                reject.cause.reason
            )));
        }
        let own = embedctl_records::value_text::IdTexts::of(window.columns.column(0).as_ref());
        for (number, (text, origin)) in window.texts.iter().zip(window.origins()).enumerate() {
            let id = own.as_ref().and_then(|ids| ids.get(number));
            ids.push(id.unwrap_or_else(|| origin.line.to_string()));
            if text.trim().is_empty() {
                let line = origin.line;
                return Err(CommandFailure::usage(format!(
                    "{}: line {line} is empty; write a query there, or take the line out",
                    path.display()
                )));
            }
            texts.push(text.to_owned());
        }
    }
    match texts.is_empty() {
        true => Err(CommandFailure::usage(format!(
            "--queries {}: it holds no query; write one on each line",
            path.display()
        ))),
        false => Ok((ids, texts)),
    }
}

/// Prints the hits, or writes them to a file.
fn show(
    (output, force): (Option<&Path>, bool),
    format: Option<HitFormat>,
    hits: &[Hit],
    files: &RunFiles,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let lines = match format {
        None => return printer.text(&for_people(hits, Printer::result_width())),
        Some(HitFormat::Jsonl) => json_lines(hits)?,
        Some(HitFormat::Trec) => trec(hits)?,
        Some(HitFormat::Parquet | HitFormat::Arrow) => String::new(),
    };
    let Some(path) = output else {
        return match format {
            Some(HitFormat::Jsonl) => printer.json(&lines),
            _ => printer.data(lines.as_bytes()),
        };
    };
    output::publish_file(path, force, files, |file| match format {
        Some(HitFormat::Parquet) => {
            output::write_table(&search::table(hits)?, OutputFormat::Parquet, file)
        }
        Some(HitFormat::Arrow) => {
            output::write_table(&search::table(hits)?, OutputFormat::Arrow, file)
        }
        _ => (file.write_all(lines.as_bytes())).map_err(|error| Error::io("write", path, error)),
    })?;
    printer.info(format!("wrote {}", path.display()));
    Ok(())
}

fn json_lines(hits: &[Hit]) -> Result<String, CommandFailure> {
    let mut lines = String::new();
    for hit in hits {
        let line =
            serde_json::to_string(hit).map_err(|error| Error::internal(error.to_string()))?;
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// The run format of TREC's tools, whose fields are separated by spaces. Where no row has an id, rows have their numbers.
fn trec(hits: &[Hit]) -> Result<String, CommandFailure> {
    let mut lines = String::new();
    let has_ids = hits.iter().any(|hit| hit.fields.id.is_some());
    if let Some(hit) = hits.iter().find(|hit| has_ids && hit.fields.id.is_none()) {
        return Err(CommandFailure::usage(format!(
            "--output-format trec: row {} has no id, and others do; choose jsonl or parquet",
            hit.row
        )));
    }
    for hit in hits {
        let id = (hit.fields.id_text()).unwrap_or_else(|| hit.row.to_string());
        for id in [&hit.query_id, &id] {
            if id.is_empty() || id.contains(char::is_whitespace) {
                return Err(CommandFailure::usage(format!(
                    "--output-format trec: the id {id:?} has spaces, which separate fields there; choose jsonl or parquet"
                )));
            }
        }
        let Hit {
            query_id,
            rank,
            score,
            ..
        } = hit;
        let _ = writeln!(lines, "{query_id} Q0 {id} {rank} {score} embedctl");
    }
    Ok(lines)
}

/// Score, id and text of each hit, as much as a line of so many `columns` holds; with several queries, each above its hits.
fn for_people(hits: &[Hit], columns: Option<usize>) -> TextTable {
    let mut table = TextTable::default();
    let id = |hit: &Hit| {
        let id = hit.fields.shown_id();
        id.unwrap_or_else(|| format!("row {}", hit.row))
    };
    let width = hits.iter().map(|hit| id(hit).chars().count()).max();
    let width = width.unwrap_or(0).min(40);
    let mut queries = hits.iter().map(|hit| hit.query_number);
    let first = queries.next();
    let has_several = queries.any(|query| Some(query) != first);
    for hit in hits {
        if has_several && hit.rank == 1 {
            table.line(&hit.query);
        }
        let text = hit.fields.text.as_deref().unwrap_or_default();
        // A hit is a line.
        let shown = text
            .chars()
            .map(|own| if own.is_whitespace() { ' ' } else { own });
        let start = format!("{:>8.4}  {:<width$}  ", hit.score, id(hit));
        let room = columns.map_or(SHOWN, |columns| {
            columns
                .saturating_sub(start.chars().count() + 1)
                .max(LEAST_SHOWN)
        });
        let mut shown: String = shown.take(room).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        table.line(&format!("{start}{shown}"));
    }
    table
}
