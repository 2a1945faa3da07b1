// Loads what `-f pgcopy` wrote into PostgreSQL with pgvector, and asks it.
//
// usage: node load.mjs FOLDER JOBS ANSWER
//
// FOLDER holds node_modules with the packages of package.json. JOBS is a JSON file: a list of tables, each
// with a `file`, its `columns` in SQL, and `queries` on the table `t`. The rows that they give are written to
// ANSWER: a list for each query, of each table.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [folder, jobs, answer] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), "package.json"));
const { PGlite } = require("@electric-sql/pglite");
const { vector } = require("@electric-sql/pglite-pgvector");

async function main() {
  const database = await PGlite.create({ extensions: { vector } });
  await database.exec("create extension vector; set time zone 'UTC'");
  const answers = [];
  for (const { file, columns, queries } of JSON.parse(readFileSync(jobs, "utf8"))) {
    await database.exec(`drop table if exists t; create table t (${columns})`);
    const blob = new Blob([readFileSync(file)]);
    await database.query("copy t from '/dev/blob' with (format binary)", [], { blob });
    const results = [];
    for (const query of queries) {
      results.push((await database.query(query, [], { rowMode: "array" })).rows);
    }
    answers.push(results);
  }
  writeFileSync(answer, JSON.stringify(answers));
}

// What else an error says of itself is the whole of a bundled file.
main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
