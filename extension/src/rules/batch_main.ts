/** The entry point of `dist/rules-batch.js`. */
import { runBatch } from "./batch";

void runBatch(process.stdin, {
  write: (line) => process.stdout.write(`${line}\n`),
  fail: (message) => process.stderr.write(`rules-batch: ${message}\n`),
}).then((status) => {
  process.exitCode = status;
});
