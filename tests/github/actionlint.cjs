// Lints the workflows that are named with the package that is named first; prints what it finds.
const { readFileSync } = require("node:fs");

const [linter, ...paths] = process.argv.slice(2);
const { runLintForFiles } = require(`${linter}/build/run-lint.js`);
const files = paths.map((path) => ({ path, data: readFileSync(path, "utf8") }));
runLintForFiles(files).then((found) => {
  console.log(JSON.stringify(found));
  process.exit(0); // it would wait for more
});
