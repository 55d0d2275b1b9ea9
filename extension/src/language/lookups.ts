/** Lookups with the language features of VS Code: definitions, references, hovers and so on. */
import * as vscode from "vscode";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { CodeActionFinder } from "./code_actions";
import { execute } from "./language_command";
import {
  symbolOrLines,
  symbolRange,
  type LanguageDocuments,
  type OpenedDocument,
} from "./language_documents";
import {
  waitNote,
  type LanguageServers,
  type WaitLimit,
  type ServerAnswer,
} from "./language_servers";
import {
  callItem,
  codeActionItem,
  hoverText,
  itemLine,
  locationItem,
  shortLine,
  symbolItem,
  type LookupItem,
} from "./lookup_items";

const MAX_LIMIT = 1000;

type Lookup = ArgsOf<"language">;
type LocationKind = "definition" | "type_definition" | "implementations" | "references";

const LOCATION_COMMANDS: Readonly<Record<LocationKind, string>> = {
  definition: "vscode.executeDefinitionProvider",
  type_definition: "vscode.executeTypeDefinitionProvider",
  implementations: "vscode.executeImplementationProvider",
  references: "vscode.executeReferenceProvider",
};

export class Lookups {
  constructor(
    private readonly documents: LanguageDocuments,
    private readonly servers: LanguageServers,
    private readonly codeActions: CodeActionFinder,
  ) {}

  async lookup(
    args: Lookup,
    cwd: string,
    waitLimit: WaitLimit,
  ): Promise<ObservationBody<"language">> {
    const { offset = 0, limit = 100, what } = args;
    const answer = await this.find(args, cwd, waitLimit);
    const total = answer.found.length;
    const end = offset + Math.min(Math.max(1, limit), MAX_LIMIT);
    const items = answer.found.slice(offset, end);
    await this.addLines(items);
    const content = items.map(itemLine).join("\n") || nothing(args, total);
    const more = end < total ? `${total} results in total; continue with \`offset\` ${end}` : "";
    const note = [more, waitNote(answer)].filter(Boolean).join("\n");
    const { waited } = answer;
    const extras = { what, items, total, truncated: end < total, waited };
    return { ...observe("language", content, extras), ...(note ? { note } : {}) };
  }

  private async find(
    args: Lookup,
    cwd: string,
    waitLimit: WaitLimit,
  ): Promise<ServerAnswer<LookupItem>> {
    if (args.what === "workspace_symbols") return this.symbols(args, cwd, waitLimit);
    const opened = await this.documents.open(args.path, cwd);
    const { document } = opened;
    // Fail at once if the place is wrong. The request finds it again: the text may change meanwhile.
    if (args.what !== "code_actions") symbolRange(opened, args);
    else symbolOrLines(opened, args);
    const ask = <T>(question: () => Promise<readonly T[] | undefined>): Promise<ServerAnswer<T>> =>
      this.servers.ask(document, question, waitLimit);
    switch (args.what) {
      case "code_actions":
        return mapped(
          await ask(() => this.codeActions.find(opened, args, waitLimit)),
          codeActionItem,
        );
      case "call_hierarchy":
        return flattened(await ask(() => calls(opened, args)));
      case "hover": {
        const found = await ask(() =>
          at<vscode.Hover>("vscode.executeHoverProvider", opened, args),
        );
        const texts = found.found.map(hoverText).filter(Boolean);
        return { ...found, found: texts.map((text) => ({ text })) };
      }
      default: {
        const command = LOCATION_COMMANDS[args.what];
        const found = ask(() => at<vscode.Location | vscode.LocationLink>(command, opened, args));
        return mapped(await found, locationItem);
      }
    }
  }

  /** With a `path`, asks the language server of that file; otherwise all running servers. */
  private async symbols(
    { query = "", path }: Lookup,
    cwd: string,
    waitLimit: WaitLimit,
  ): Promise<ServerAnswer<LookupItem>> {
    const question = (): Promise<vscode.SymbolInformation[] | undefined> =>
      execute("vscode.executeWorkspaceSymbolProvider", query);
    if (path) {
      const { document } = await this.documents.open(path, cwd);
      return mapped(await this.servers.ask(document, question, waitLimit), symbolItem);
    }
    await this.documents.openWritten();
    const found = ((await question()) ?? []).map(symbolItem);
    return { found, waited: 0, isUnsure: false };
  }

  /** Adds the text of the line to places that have no name, if the agent may read the file. */
  private async addLines(items: readonly LookupItem[]): Promise<void> {
    for (const item of items) {
      const { path, line, name } = item as { path?: string; line?: number; name?: string };
      if (path === undefined || line === undefined || name !== undefined) continue;
      item["text"] = (await this.documents.mayRead(path)) ? await textAt(path, line) : "";
    }
  }
}

function at<T>(command: string, opened: OpenedDocument, args: Lookup): Promise<T[] | undefined> {
  return execute(command, opened.document.uri, symbolRange(opened, args).start);
}

/** One list, with the calls, for each function at the place. */
async function calls(opened: OpenedDocument, args: Lookup): Promise<LookupItem[][]> {
  const items = await at<vscode.CallHierarchyItem>("vscode.prepareCallHierarchy", opened, args);
  return Promise.all((items ?? []).map((item) => callsOf(item, args.direction ?? "incoming")));
}

async function callsOf(
  item: vscode.CallHierarchyItem,
  direction: "incoming" | "outgoing",
): Promise<LookupItem[]> {
  if (direction === "incoming") {
    const found = await execute<vscode.CallHierarchyIncomingCall[]>(
      "vscode.provideIncomingCalls",
      item,
    );
    return (found ?? []).map(({ from, fromRanges }) => callItem(from, fromRanges));
  }
  const found = await execute<vscode.CallHierarchyOutgoingCall[]>(
    "vscode.provideOutgoingCalls",
    item,
  );
  return (found ?? []).map(({ to, fromRanges }) => callItem(to, fromRanges));
}

function mapped<T, U>(answer: ServerAnswer<T>, convert: (each: T) => U): ServerAnswer<U> {
  return { ...answer, found: answer.found.map(convert) };
}

function flattened<T>(answer: ServerAnswer<T[]>): ServerAnswer<T> {
  return { ...answer, found: answer.found.flat() };
}

async function textAt(path: string, line: number): Promise<string> {
  try {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.file(path));
    return shortLine(document.lineAt(line - 1).text);
  } catch {
    return ""; // a virtual file, or one that has changed since
  }
}

function nothing({ what, symbol = "", query = "" }: Lookup, total: number): string {
  if (total) return `No more results; there are ${total}`;
  const about = symbol || query;
  return `No ${what.replaceAll("_", " ")}${about ? ` for '${about}'` : ""}`;
}
