import { expect, test } from "vitest";
import { revealTarget, type EditorGroup } from "../../src/views/reveal_target";

const idle: EditorGroup = { isActive: false, tabCount: 1, isDirty: false };
const active: EditorGroup = { ...idle, isActive: true };

test("a window without editors shows the file in its only group", () => {
  expect(revealTarget([])).toBe("active");
  expect(revealTarget([{ ...active, tabCount: 0 }])).toBe("active");
});

test("a shown editor is never covered in the active group", () => {
  expect(revealTarget([active])).toBe("beside");
  expect(revealTarget([active, idle])).toBe("beside");
});

test("nothing is opened while the active editor has unsaved changes", () => {
  expect(revealTarget([{ ...active, isDirty: true }])).toBeUndefined();
  expect(revealTarget([{ ...active, isDirty: true }, idle])).toBeUndefined();
  expect(revealTarget([active, { ...idle, isDirty: true }])).toBe("beside");
});

test("a user in the last of several groups gets no further group", () => {
  expect(revealTarget([idle, active])).toBeUndefined();
});
