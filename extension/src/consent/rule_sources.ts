/**
 * The rules that apply in this window: the user's own file, and files of the workspace, which can
 * only ask and deny. Files are read for every decision, so a change applies at once.
 */
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { codeOf, messageOf } from "../common/failure";
import { replaceFile } from "../common/atomic_write";
import { KeyedLocks } from "../common/locks";
import type { CommandRules } from "../rules/decision";
import { realPath } from "../rules/real_path";
import {
  readRules,
  RuleFileError,
  type FileRule,
  type RuleFile,
  type RuleOwner,
} from "../rules/rule_files";
import type { CommandRule } from "../rules/rule_matching";
import { withAllowRules, withoutRule, type NewRules } from "./rule_edits";

/** The file of a workspace folder. The user is asked before an agent writes below `.vscode`. */
export const WORKSPACE_FILE = path.join(".vscode", "bascule-rules.toml");
const MAX_FILE_BYTES = 256 << 10;

/** The user's own file, which `bascule rules check` reads too. */
export function personFile(env: NodeJS.ProcessEnv = process.env): string {
  const given = env["XDG_CONFIG_HOME"] ?? "";
  const config = path.isAbsolute(given) ? given : path.join(os.homedir(), ".config");
  return path.join(config, "bascule", "rules.toml");
}

export interface RulesInForce {
  readonly rules: readonly FileRule[];
  /** Why files could not be read. With a problem, the user is asked about every command. */
  readonly problems: readonly string[];
}

export interface RuleSourcesSettings {
  personFile: string;
  /** Absolute paths of the workspace folders. */
  folders: () => readonly string[];
  /** Called once for each new problem or warning. */
  onProblem: (message: string) => void;
}

interface ReadFile extends RuleFile {
  /** Undefined if the file could not be read; empty if it is missing. */
  readonly text: string | undefined;
  readonly problem: string | undefined;
}

export class RuleSources {
  private readonly files = new Map<string, ReadFile>();
  private readonly counts = new Map<string, number>();
  private readonly writing = new KeyedLocks();

  constructor(private readonly settings: RuleSourcesSettings) {}

  get personFile(): string {
    return this.settings.personFile;
  }

  /**
   * Whether a resolved path is the user's own file. The user is asked before an agent writes it.
   */
  isPersonFile(real: string): boolean {
    return real === realPath(this.personFile) || real === this.personFile;
  }

  current(): RulesInForce {
    const { folders } = this.settings;
    const read = [
      this.read(this.personFile, "person"),
      ...folders().map((folder) => this.read(path.join(folder, WORKSPACE_FILE), "workspace")),
    ];
    return {
      rules: read.flatMap(({ rules }) => rules),
      problems: read.flatMap(({ problem }) => (problem === undefined ? [] : [problem])),
    };
  }

  /** Adds 1 to the number of commands that the rule decided on since the window opened. */
  countUse(rule: FileRule): void {
    const key = countKey(rule);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
  }

  countOf(rule: FileRule): number {
    return this.counts.get(countKey(rule)) ?? 0;
  }

  /** Adds allow rules to the user's file, which is created if it is missing. */
  async add(added: NewRules): Promise<void> {
    await this.write((text) => withAllowRules(text, added));
  }

  /** Removes a rule of the user's file. False if the file must be edited by hand. */
  async remove(rule: FileRule): Promise<boolean> {
    let isRemoved = false;
    await this.write((text) => {
      const { rules } = readRules(text, this.personFile, "person");
      const same = rules.find((each) => countKey(each) === countKey(rule));
      const rest = same && withoutRule(text, same);
      isRemoved = rest !== undefined;
      return rest ?? text;
    });
    return isRemoved;
  }

  private write(change: (text: string) => string): Promise<void> {
    return this.writing.hold(this.personFile, async () => {
      // The file may be a link into a repository of settings; the link stays.
      const file = realPath(this.personFile);
      const before = textOf(file) ?? "";
      const after = change(before);
      if (after === before) return;
      await fs.promises.mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
      if (fs.existsSync(file)) await replaceFile(file, Buffer.from(after));
      else await createFile(file, after);
    });
  }

  private read(file: string, owner: RuleOwner): ReadFile {
    const known = this.files.get(file);
    let text: string;
    try {
      text = textOf(file) ?? "";
      if (known?.text === text) return known;
    } catch (error) {
      return this.keep(file, broken(undefined, messageOf(error)));
    }
    try {
      return this.keep(file, { text, problem: undefined, ...readRules(text, file, owner) });
    } catch (error) {
      if (!(error instanceof RuleFileError)) throw error;
      return this.keep(file, broken(text, error.message));
    }
  }

  private keep(file: string, read: ReadFile): ReadFile {
    const known = this.files.get(file);
    this.files.set(file, read);
    const reported = [...(known?.warnings ?? []), known?.problem];
    for (const each of [...read.warnings, read.problem])
      if (each !== undefined && !reported.includes(each)) this.settings.onProblem(each);
    return read;
  }
}

/** Lists of words as `decideCommand` expects them, and the rule that each list comes from. */
export function rulesFor(
  agent: string,
  rules: readonly FileRule[],
): { lists: CommandRules; origins: ReadonlyMap<CommandRule, FileRule> } {
  const own = rules.filter((rule) => rule.agent === undefined || rule.agent === agent);
  const words = (kind: FileRule["kind"]): CommandRule[] =>
    own.filter((rule) => rule.kind === kind).map((rule) => rule.words);
  return {
    lists: { allow: words("allow"), ask: words("ask"), deny: words("deny") },
    origins: new Map(own.map((rule) => [rule.words, rule])),
  };
}

function broken(text: string | undefined, problem: string): ReadFile {
  return { text, problem, rules: [], warnings: [] };
}

/** Undefined if the file does not exist. Throws a `RuleFileError` if it cannot be read. */
function textOf(file: string): string | undefined {
  try {
    const found = fs.statSync(file);
    // Opening a FIFO would wait for a writer.
    if (!found.isFile()) throw new RuleFileError(`${file}: is not a file`);
    if (found.size > MAX_FILE_BYTES)
      throw new RuleFileError(`${file}: has ${found.size} bytes; the limit is ${MAX_FILE_BYTES}`);
    return new TextDecoder("utf-8", { fatal: true }).decode(fs.readFileSync(file));
  } catch (error) {
    if (error instanceof RuleFileError) throw error;
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error))) return undefined;
    const reason = error instanceof TypeError ? "is not UTF-8 text" : messageOf(error);
    throw new RuleFileError(`${file}: ${reason}`);
  }
}

async function createFile(file: string, text: string): Promise<void> {
  const temporary = path.join(path.dirname(file), `.${randomUUID()}.bascule-tmp`);
  await fs.promises.writeFile(temporary, text, { flag: "wx", mode: 0o600 });
  await fs.promises.rename(temporary, file);
}

function countKey({ kind, words, agent, file }: FileRule): string {
  return JSON.stringify([kind, words, agent, file]);
}
