// Runs an ONNX file with ONNX Runtime for the web, as WebAssembly.
//
// usage: node run.mjs FOLDER MODEL FEEDS
//
// FOLDER holds node_modules with the package of package.json. FEEDS is a JSON object: for each input a list of rows of
// integers, all of one length. The output `sentence_embedding` is printed: a list of numbers for each row.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [folder, model, feeds] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), "package.json"));
const ort = require("onnxruntime-web");

ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(readFileSync(model), { executionProviders: ["wasm"] });
const tensor = (rows) =>
  new ort.Tensor("int64", BigInt64Array.from(rows.flat().map(BigInt)), [rows.length, rows[0].length]);
const inputs = Object.entries(JSON.parse(feeds)).filter(([name]) => session.inputNames.includes(name));
const outputs = await session.run(Object.fromEntries(inputs.map(([name, rows]) => [name, tensor(rows)])));
const { data, dims } = outputs.sentence_embedding;
const [rows, width] = dims;
const row = (index) => Array.from(data.slice(index * width, (index + 1) * width));
console.log(JSON.stringify(Array.from({ length: rows }, (_, index) => row(index))));
