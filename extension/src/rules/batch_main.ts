/** The entry point of `dist/rules-batch.js`. */
import { runBatch } from "./batch";

void runBatch(process.stdin, {
  write: (line) => process.stdout.write(`${line}\n`),
  warn: (message) => process.stderr.write(`rules-batch: ${message}\n`),
});
