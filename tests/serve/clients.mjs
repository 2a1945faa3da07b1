// Asks a server by clients in Node, and compares with the vectors of the batch job.
// node clients.mjs FOLDER URL KEY: the folder's node_modules holds the clients (package.json), and the working folder
// texts.json and vectors.json.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, url, key] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const OpenAI = require("openai");
const { Ollama } = require("ollama");
const texts = JSON.parse(readFileSync("texts.json", "utf8"));
const expected = JSON.parse(readFileSync("vectors.json", "utf8"));

const same = (vectors, who) => {
  assert.equal(vectors.length, expected.length, who);
  for (const [row, vector] of vectors.entries()) {
    assert.deepEqual(Array.from(vector, Math.fround), expected[row].map(Math.fround), `${who}, row ${row}`);
  }
};

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const models = await client.models.list();
assert.equal(models.data.length, 1);
const model = models.data[0].id;
assert.equal((await client.models.retrieve(model)).id, model);
// Without a form, it asks for base64 and reads that.
for (const encoding_format of [undefined, "float"]) {
  const answer = await client.embeddings.create({ model, input: texts, encoding_format });
  same(answer.data.map((one) => one.embedding), `openai, ${encoding_format}`);
  assert.equal(answer.model, model);
  assert.ok(answer.usage.prompt_tokens > texts.length);
}
await assert.rejects(client.embeddings.create({ model: "text-embedding-3-small", input: "a" }), OpenAI.NotFoundError);
await assert.rejects(client.embeddings.create({ model, input: [] }), OpenAI.BadRequestError);
const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);

const ollama = new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
const { models: listed } = await ollama.list();
assert.equal(listed[0].model, model);
assert.equal((await ollama.ps()).models[0].model, model);
const shown = await ollama.show({ model });
assert.deepEqual(shown.capabilities, ["embedding"]);
const embedded = await ollama.embed({ model, input: texts });
same(embedded.embeddings, "ollama");
const one = await ollama.embeddings({ model, prompt: texts[0] });
assert.deepEqual(one.embedding.map(Math.fround), expected[0].map(Math.fround));
await assert.rejects(ollama.embed({ model: "llama3", input: "a" }), /no model/);

console.log("all clients agree");
