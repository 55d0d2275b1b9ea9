import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Some tests start IPython or run thousands of random cases; on a busy machine that takes a minute.
// Many wait for a program, so one file per core. Vitest leaves a core free, which is half of two.
export default defineConfig({
    test: {
        include: ["test/**/*.test.ts"],
        testTimeout: 120_000,
        hookTimeout: 120_000,
        maxWorkers: availableParallelism(),
    },
});
