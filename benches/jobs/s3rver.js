// S3 by s3rver (npm), with a bucket called `bucket`, for the kills of store.py.
//
//     NODE_PATH=FOLDER/node_modules node s3rver.js
//
// s3rver writes objects in place and knows no conditional requests that write. This front makes both as S3 has them: an
// object is taken once all of its bytes are here, one request at a time, and `If-None-Match: *` is decided before it.
// Prints its port. Ends with its standard input.
const fs = require("fs"), http = require("http"), os = require("os"), path = require("path");
const S3rver = require("s3rver");

const directory = fs.mkdtempSync(path.join(os.tmpdir(), "s3rver-"));
const store = new S3rver({
  address: "127.0.0.1", port: 0, directory, silent: true, allowMismatchedSignatures: true,
  configureBuckets: [{ name: "bucket" }],
});
const refusal = "<Error><Code>PreconditionFailed</Code><Message>there is such an object</Message></Error>";
let last = Promise.resolve();

function forward(port, request, body, response) {
  const name = decodeURIComponent(request.url.split("?")[0]);
  const is_taken = fs.existsSync(path.join(directory, name + "._S3rver_object"));
  if (request.method === "PUT" && request.headers["if-none-match"] === "*" && is_taken) {
    response.writeHead(412, { "Content-Type": "application/xml" }).end(refusal);
    return Promise.resolve();
  }
  return new Promise((done) => {
    const { method, url, headers } = request;
    const asked = http.request({ port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.on("end", done).on("close", done).pipe(response);
      response.on("close", () => answer.resume());
    });
    asked.on("error", () => { response.destroy(); done(); }).end(body);
  });
}

store.run((error, address) => {
  if (error) throw error;
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part)).on("end", () => {
      last = last.then(() => forward(address.port, request, Buffer.concat(parts), response));
    });
  });
  server.listen(0, "127.0.0.1", () => console.log("port", server.address().port));
});
process.stdin.resume().on("end", () => {
  fs.rmSync(directory, { recursive: true, force: true });
  process.exit(0);
});
