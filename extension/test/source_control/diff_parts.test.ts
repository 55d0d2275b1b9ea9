import { expect, test } from "vitest";
import { diffParts, partsBelow } from "../../src/source_control/diff_parts";

const DIFF = `diff --git a/src/a b.txt b/src/a b.txt
index 1..2 100644
--- a/src/a b.txt\t
+++ b/src/a b.txt\t
@@ -1 +1 @@
-diff --git a/x b/x
+one
diff --git a/old.txt b/src/new.txt
similarity index 100%
rename from old.txt
rename to src/new.txt
diff --git "a/caf\\303\\251" "b/caf\\303\\251"
deleted file mode 100644
--- "a/caf\\303\\251"
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/empty b/empty
new file mode 100644
`;

test("a difference has one part for each file", () => {
  const parts = diffParts(DIFF);
  expect(parts.map(({ path, oldPath }) => [path, oldPath])).toEqual([
    ["src/a b.txt", "src/a b.txt"],
    ["src/new.txt", "old.txt"],
    ["café", "café"],
    ["empty", "empty"],
  ]);
  expect(parts.flatMap(({ lines }) => lines).join("\n") + "\n").toBe(DIFF);
});

test("parts are chosen by file or directory, also by the old name", () => {
  const chosen = (path: string) => partsBelow(diffParts(DIFF), path).map((part) => part.path);
  expect(chosen("src")).toEqual(["src/a b.txt", "src/new.txt"]);
  expect(chosen("old.txt")).toEqual(["src/new.txt"]);
  expect(chosen("sr")).toEqual([]);
  expect(chosen("")).toHaveLength(4);
});

test("an empty difference has no parts", () => {
  expect(diffParts("")).toEqual([]);
});
