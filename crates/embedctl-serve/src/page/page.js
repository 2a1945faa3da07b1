
"use strict";

// Tokens and components that are shown of a text.
const MOST_TOKENS = 500;
const COMPONENTS = 16;
// Characters of a row's text that are shown.
const SHOWN = 300;

const element = (id) => document.getElementById(id);

/** A new element with this text, or with these children. */
function made(name, content, type) {
  const one = document.createElement(name);
  if (type) one.className = type;
  one.append(...[content].flat());
  return one;
}

/** The answer of a route of this server. An error has the words of the server. */
async function ask(path, body, signal) {
  // A page that was opened with a name and a key in its address cannot ask for paths relative to that.
  const options = { signal, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(location.origin + path, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(typeof content.error === "string" ? content.error : content.error.message);
  return content;
}

const number = (value) => value.toLocaleString("en");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** What the page knows of the server. */
let info = null;
let kind = "embedding";
let running = null;

function facts() {
  const prompt = info.prompt === "" ? "none" : JSON.stringify(info.prompt);
  const all = [];
  if (kind === "embedding" || kind === "sparse") {
    all.push(["Vectors", kind === "sparse" ? `sparse, ${number(info.dimensions[0])} terms`
      : `${info.dimensions.map(number).join(" and ")} components, ${info.model_dtype}, ${info.normalized ? "length 1" : "not normalized"}`]);
    all.push(["Prompt", prompt]);
    const named = Object.entries(info.prompts).map(([name, text]) => `${name} (${JSON.stringify(text)})`);
    if (named.length > 0) all.push(["Other prompts", named.join(", ")]);
  } else {
    all.push(["Scores", Object.values(info.model_type[kind].id2label ?? {}).join(", ")]);
  }
  if (info.max_input_length !== null) {
    all.push(["Length", `${plural(info.max_input_length, "token")} at most; longer texts are cut`]);
  }
  all.push(["Limits", `${plural(info.max_client_batch_size, "text")} in a request, ${number(info.max_concurrent_requests)} in the server`]);
  if (info.model_sha) all.push(["Revision", info.model_sha]);
  if (info.search) all.push(["Rows", info.search.file]);
  element("facts").replaceChildren(...all.flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
}

/** Requests for this server's vectors or scores: the name of the protocol, the path, the body. */
function requests() {
  const text = element("text").value || "some text";
  const documents = lines(element("documents").value);
  const ranked = documents.length > 0 ? documents : ["one text", "another text"];
  switch (kind) {
    case "sparse": return [
      ["Sparse vectors, text-embeddings-inference", "/embed_sparse", { inputs: text }],
      ["Tokens", "/tokenize", { inputs: text }],
      info.search ? ["Nearest rows", "/search", { query: text, k: 10 }] : ["Several texts", "/embed_sparse", { inputs: [text, "another text"] }],
    ];
    case "reranker": return [
      ["Cohere and Jina", "/v1/rerank", { query: text, documents: ranked, top_n: 3 }],
      ["text-embeddings-inference", "/rerank", { query: text, texts: ranked }],
      ["Scores of pairs", "/predict", { inputs: ranked.map((one) => [text, one]) }],
    ];
    case "classifier": return [
      ["text-embeddings-inference", "/predict", { inputs: text }],
      ["Several texts", "/predict", { inputs: [[text], ["another text"]] }],
      ["Tokens", "/tokenize", { inputs: text }],
    ];
    default: return [
      ["OpenAI", "/v1/embeddings", { input: text }],
      ["text-embeddings-inference", "/embed", { inputs: text }],
      info.search ? ["Nearest rows", "/search", { query: text, k: 10 }] : ["Ollama", "/api/embed", { input: text }],
    ];
  }
}

const lines = (text) => text.split("\n").filter((line) => line.trim() !== "");

/** A word of a shell's command line. */
const quoted = (word) => `'${word.replaceAll("'", "'\\''")}'`;

function commands() {
  const key = info.wants_keys ? " -H 'Authorization: Bearer KEY'" : "";
  const all = requests().flatMap(([name, path, body], at) => {
    const title = made("h3", name);
    title.id = `command-${at}`;
    const command = made("pre", `curl ${location.origin}${path}${key} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`);
    // Keys reach it, so that it can be marked and copied.
    command.tabIndex = 0;
    command.setAttribute("role", "group");
    command.setAttribute("aria-labelledby", title.id);
    return [title, command];
  });
  element("commands").replaceChildren(...all);
}

function showTokens(tokens) {
  const special = tokens.filter((token) => token.special).length;
  const most = info.max_input_length;
  const notes = [`${plural(tokens.length, "token")}, ${number(special)} of them special`];
  if (most !== null && tokens.length > most) notes.push(`the model reads ${number(most)} of them`);
  if (tokens.length > MOST_TOKENS) notes.push(`the first ${MOST_TOKENS} are shown`);
  element("tokens-note").textContent = notes.join("; ");
  const items = tokens.slice(0, MOST_TOKENS).map((token) =>
    made("li", [made("span", token.text), " ", made("span", String(token.id), "id")], token.special ? "special" : ""));
  element("tokens-list").replaceChildren(...items);
  element("tokens").hidden = false;
}

function showNumbers(title, note, content) {
  element("numbers-title").textContent = title;
  element("numbers-note").textContent = note;
  element("numbers-list").textContent = content;
  element("numbers").hidden = false;
}

const rounded = (value) => value.toFixed(4);

function showVector(vector) {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  const shown = vector.slice(0, COMPONENTS).map(rounded).join(", ");
  const more = vector.length > COMPONENTS ? ", …" : "";
  showNumbers("Vector", `${plural(vector.length, "component")}, of length ${rounded(length)}; the first ones:`, shown + more);
}

function showEntries(entries) {
  const best = entries.toSorted((one, other) => other.value - one.value).slice(0, COMPONENTS);
  const shown = best.map((entry) => `${entry.index}: ${rounded(entry.value)}`).join(", ");
  showNumbers("Sparse vector", `${plural(entries.length, "entry").replace("entrys", "entries")} that are not 0; the greatest ones:`, shown);
}

function showTable(title, note, names, found) {
  element("rows-title").textContent = title;
  element("rows-note").textContent = note;
  [element("rows-id").textContent, element("rows-text").textContent] = names;
  const row = ([rank, score, id, text]) => made("tr", [
    made("td", String(rank), "number"), made("td", rounded(score), "number"), made("td", id), made("td", text, "text"),
  ]);
  element("rows-list").replaceChildren(...found.map(row));
  element("rows").hidden = false;
}

function short(text) {
  const characters = Array.from(text);
  return characters.length > SHOWN ? characters.slice(0, SHOWN).join("") + "…" : text;
}

function showHits(answer) {
  const prompt = answer.prompt === "" ? "without a prompt" : `behind the prompt ${JSON.stringify(answer.prompt)}`;
  const notes = [`The rows of ${answer.file} that are nearest to the text, ${prompt}.`];
  if (answer.hits.every((hit) => hit.text === null)) notes.push("The file holds no texts: embed --keep text keeps them.");
  showTable("Nearest rows", notes.join(" "), ["Id", "Text"], answer.hits.map((hit) => {
    const id = hit.id === null ? `row ${hit.row}` : typeof hit.id === "string" ? hit.id : JSON.stringify(hit.id);
    return [hit.rank, hit.score, id, short(hit.text ?? "")];
  }));
}

/** Asks for everything about the text, and shows it. */
async function run(text, signal) {
  const name = element("prompt").value;
  const prompt = name === "" ? {} : { prompt_name: name };
  const scored = kind === "reranker" || kind === "classifier";
  const tokens = ask("/tokenize", { inputs: [text], ...(scored ? {} : prompt) }, signal);
  const all = [tokens.then((rows) => showTokens(rows[0]))];
  if (kind === "embedding") {
    all.push(ask("/embed", { inputs: [text], ...prompt }, signal).then((rows) => showVector(rows[0])));
  } else if (kind === "sparse") {
    all.push(ask("/embed_sparse", { inputs: [text], ...prompt }, signal).then((rows) => showEntries(rows[0])));
  } else if (kind === "classifier") {
    all.push(ask("/predict", { inputs: text }, signal).then((labels) =>
      showTable("Labels", "The best first.", ["Label", ""], labels.map((one, at) => [at + 1, one.score, one.label, ""]))));
  } else {
    const documents = lines(element("documents").value);
    if (documents.length === 0) throw new Error("there is no text to rank; write one on each line");
    all.push(ask("/rerank", { query: text, texts: documents }, signal).then((ranked) =>
      showTable("Ranking", "The best first.", ["Line", "Text"], ranked.map((one, at) => [at + 1, one.score, String(one.index + 1), short(documents[one.index])]))));
  }
  if (info.search?.is_open) {
    all.push(ask("/search", { query: text, ...prompt }, signal).then(showHits));
  }
  await Promise.all(all);
}

async function submit(event) {
  event.preventDefault();
  running?.abort();
  const own = running = new AbortController();
  const text = element("text").value;
  element("error").textContent = "";
  if (text === "") {
    element("error").textContent = "There is no text: write one into the box.";
    element("text").focus();
    return;
  }
  element("status").textContent = "Running …";
  const start = performance.now();
  try {
    await run(text, own.signal);
    if (own === running) element("status").textContent = `Done in ${Math.round(performance.now() - start)} ms.`;
  } catch (error) {
    if (own !== running) return;
    own.abort();
    element("status").textContent = "";
    element("error").textContent = `It did not work: ${error.message}.`;
  }
}

async function start() {
  try {
    info = await ask("/info");
  } catch (error) {
    element("error").textContent = `The model cannot be asked for: ${error.message}.`;
    return;
  }
  kind = Object.keys(info.model_type)[0];
  const name = info.model_id;
  element("model").textContent = name;
  document.title = `${name.split("/").at(-1)} · embedctl serve`;
  element("submit").textContent = { reranker: "Rank", classifier: "Classify" }[kind] ?? "Embed";
  if (kind === "reranker") element("text-label").textContent = "Query";
  element("documents-field").hidden = kind !== "reranker";
  const prompts = kind === "embedding" || kind === "sparse" ? Object.keys(info.prompts) : [];
  element("prompt-field").hidden = prompts.length === 0;
  const usual = made("option", "that of the server");
  usual.value = "";
  element("prompt").replaceChildren(usual, ...prompts.map((prompt) => made("option", prompt)));
  facts();
  commands();
  element("form").addEventListener("submit", submit);
  for (const id of ["text", "documents"]) {
    element(id).addEventListener("input", commands);
    element(id).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element("form").requestSubmit();
    });
  }
}

start();
