/** Changes during a merge are those of the fork, and no others are. */
import { expect, test } from "vitest";
import { AgentCommands } from "../../src/review/agent_commands";
import { Merges } from "../../src/review/merges";

const LATER_MS = 10_000;

function made({ isOn = true, prepare = (): Promise<void> => Promise.resolve() } = {}): {
  merges: Merges;
  commands: AgentCommands;
  pass: () => number;
} {
  let now = 1_000_000;
  const commands = new AgentCommands(() => now);
  const has = ({ inode }: { inode: string }): boolean => inode === "7";
  const merges = new Merges({ commands, isOn: () => isOn, has, prepare });
  return { merges, commands, pass: () => (now += LATER_MS) };
}

test("what changes during a merge counts as the fork's", async () => {
  const { merges, commands, pass } = made();
  await merges.began({ id: "1", agent: "fork a" });
  const during = pass();
  pass();
  merges.ended("1");
  const after = pass();
  expect(commands.agentAt(during)).toBe("fork a");
  expect(commands.agentAt(after)).toBeUndefined();
  merges.ended("unknown");
});

test("a lost connection ends all merges", async () => {
  const { merges, commands, pass } = made();
  await merges.began({ id: "1", agent: "fork a" });
  await merges.began({ id: "2", agent: "fork b" });
  merges.lost();
  expect(commands.agentAt(pass())).toBeUndefined();
});

test("a merge that ended before the files were read is not begun", async () => {
  let isRead = (): void => undefined;
  const reading = new Promise<void>((resolve) => (isRead = resolve));
  const { merges, commands, pass } = made({ prepare: () => reading });
  const beginning = merges.began({ id: "1", agent: "fork a" });
  merges.ended("1");
  isRead();
  await beginning;
  expect(commands.agentAt(pass())).toBeUndefined();
});

test("a merge into another folder, or without a review, does not count", async () => {
  const [{ merges, commands, pass }, off] = [made(), made({ isOn: false })];
  await merges.began({ id: "1", agent: "fork a", folder: { device: "1", inode: "8" } });
  await off.merges.began({ id: "1", agent: "fork a" });
  expect(commands.agentAt(pass())).toBeUndefined();
  expect(off.commands.agentAt(off.pass())).toBeUndefined();
  await merges.began({ id: "2", agent: "fork a", folder: { device: "1", inode: "7" } });
  expect(commands.agentAt(pass())).toBe("fork a");
});
