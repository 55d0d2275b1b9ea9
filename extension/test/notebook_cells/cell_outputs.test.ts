import { expect, test } from "vitest";
import { ImageList, readOutputs, type OutputForm } from "../../src/notebook_cells/cell_outputs";

function form(mime: string, data: string | Buffer): OutputForm {
  return { mime, data: Buffer.from(data) };
}

const STDOUT = "application/vnd.code.notebook.stdout";

test("pieces of a stream are one text without colours", () => {
  const pieces = [[form(STDOUT, "a\u001b[31mb")], [form(STDOUT, "c\u001b[0m\n")]];
  const { outputs, isCut } = readOutputs(pieces, new ImageList(), 100);
  expect(outputs).toEqual([{ type: "text", name: "stdout", text: "abc\n", image: null }]);
  expect(isCut).toBe(false);
});

test("of a picture the image and its text are read", () => {
  const images = new ImageList();
  const forms = [form("text/plain", "<Figure>"), form("image/png", Buffer.from([1, 2]))];
  const { outputs } = readOutputs([forms], images, 100);
  expect(outputs).toEqual([{ type: "image", name: "image/png", text: "<Figure>", image: 0 }]);
  expect(images.urls).toEqual(["data:image/png;base64,AQI="]);
});

test("images above the limit are left out", () => {
  const images = new ImageList();
  const big = Buffer.alloc(3 << 20);
  const { outputs } = readOutputs([[form("image/png", big)], [form("image/png", big)]], images, 9);
  expect(outputs.map(({ image }) => image)).toEqual([0, null]);
  expect([images.urls.length, images.leftOut]).toEqual([1, 1]);
});

test("an error has its name, its message and its traceback", () => {
  const error = { name: "ValueError", message: "no", stack: "Traceback\nValueError: no" };
  const forms = [form("application/vnd.code.notebook.error", JSON.stringify(error))];
  const { outputs } = readOutputs([forms], new ImageList(), 100);
  expect(outputs).toEqual([{ type: "error", name: "ValueError", text: error.stack, image: null }]);
});

test("the middle of a long text is left out, and later texts too", () => {
  const long = form(STDOUT, `${"a".repeat(50)}${"b".repeat(50)}`);
  const { outputs, isCut } = readOutputs([[long], [form("text/plain", "xyz")]], new ImageList(), 4);
  expect(isCut).toBe(true);
  expect(outputs.map(({ text }) => text)).toEqual([
    "aa\n[96 characters left out]\nbb",
    "\n[3 characters left out]\n",
  ]);
});
