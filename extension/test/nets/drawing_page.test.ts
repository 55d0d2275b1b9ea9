import { expect, test } from "vitest";
import { drawingPage } from "../../src/nets/drawing_page";

test("the page runs its own script and style alone, and loads nothing", () => {
  const page = drawingPage("n0nce");

  expect(page).toContain(
    `content="default-src 'none'; style-src 'nonce-n0nce'; script-src 'nonce-n0nce'"`,
  );
  expect(page.match(/<(script|style)(?! nonce="n0nce")/g)).toBeNull();
  expect(page).not.toMatch(/\son\w+=|innerHTML|https?:\/\/(?!www\.w3\.org)/);
});
