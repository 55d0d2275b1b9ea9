/** The review over the connection to a hub: sent after each registration, and asked about. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Failure } from "../../src/common/failure";
import { HubConnection, type HubReceiver, type SharedReview } from "../../src/hub/connection";
import type { ReviewList } from "../../src/hub/messages";
import { silent } from "../common/silent";
import { FakeHub, TOKEN } from "./fake_hub";

const nothing = (): void => undefined;
const receiver: HubReceiver = {
  action: nothing,
  cancel: () => Promise.resolve(false),
  received: nothing,
  approval: nothing,
  left: nothing,
  superseded: nothing,
  ready: nothing,
};

let hub: FakeHub;
let connection: HubConnection;
let list: ReviewList;

const review: SharedReview = {
  list: () => list,
  show: ({ file }) => {
    if (file !== "known") throw new Failure("edit.conflict", `${file} has changed`);
    return { hunks: [], more: 3 };
  },
  answer: ({ files, by }) => {
    if (by !== "ann") return Promise.reject(new Error("broken"));
    return Promise.resolve({ done: files.length });
  },
};

beforeEach(async () => {
  hub = new FakeHub();
  await hub.start();
  list = { files: [], more: 1 };
  connection = new HubConnection(
    {
      hub: hub.url,
      token: TOKEN,
      identity: { window_id: "w", window_key: "k", host_id: "h" },
      describe: () => ({
        name: "name",
        folders: [],
        vscode_version: "1",
        extension_version: "0.1.0",
        platform: "linux",
        app: "test",
        remote: "local",
        capabilities: [],
        reviews_merges: true,
      }),
      probe: () => Promise.resolve(),
      review,
      retry: { firstMs: 10, mostMs: 50 },
    },
    receiver,
    { began: () => Promise.resolve(), ended: () => undefined, lost: () => undefined },
    silent,
  );
  await hub.until(() => hub.reviews.length === 1);
});

afterEach(async () => {
  connection.dispose();
  await hub.stop();
});

test("the list is sent after each registration and after each change", async () => {
  expect(hub.reviews).toEqual([{ files: [], more: 1 }]);
  list = { files: [], more: 2 };
  connection.reviewChanged();
  await hub.until(() => hub.reviews.length === 2);
  hub.cut();
  await hub.until(() => hub.reviews.length === 3);
  expect(hub.reviews.map(({ more }) => more)).toEqual([1, 2, 2]);
});

test("requests get a value or an error", async () => {
  const known = { file: "known", version: "1" };
  expect(await hub.review("review.show", known)).toEqual({ value: { hunks: [], more: 3 } });
  expect(await hub.review("review.show", { file: "a.py", version: "1" })).toEqual({
    error: { code: "edit.conflict", message: "a.py has changed" },
  });
  const answer = { answer: "keep", files: [known], by: "ann" };
  expect(await hub.review("review.answer", answer)).toEqual({ value: { done: 1 } });
  expect(await hub.review("review.answer", { ...answer, by: "" })).toEqual({
    error: { code: "internal", message: "broken" },
  });
});
