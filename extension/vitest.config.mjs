import { defineConfig } from "vitest/config";

// Some tests start IPython or run thousands of random cases; on a busy machine that takes a minute.
export default defineConfig({ test: { include: ["test/**/*.test.ts"], testTimeout: 120_000 } });
