/** Completion for nets in YAML, if no other extension provides it from the schema. */
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";
import { suggestionsAt, type Schema } from "./schema_keys";

/** An extension that completes YAML from contributed schemas, including the schema of nets. */
const YAML_EXTENSION = "redhat.vscode-yaml";

export class NetCompletion implements vscode.CompletionItemProvider {
  private schema: Promise<Schema> | undefined;

  constructor(private readonly file: string) {}

  async provideCompletionItems(
    document: vscode.TextDocument,
    position: vscode.Position,
  ): Promise<vscode.CompletionItem[]> {
    if (vscode.extensions.getExtension(YAML_EXTENSION)) return [];
    this.schema ??= readFile(this.file, "utf8").then((text) => JSON.parse(text) as Schema);
    const before = document.getText(new vscode.Range(new vscode.Position(0, 0), position));
    return suggestionsAt(before, await this.schema).map(({ text, description, isKey }) => {
      const { Property, EnumMember } = vscode.CompletionItemKind;
      const item = new vscode.CompletionItem(text, isKey ? Property : EnumMember);
      item.documentation = description;
      if (isKey) item.insertText = `${text}: `;
      return item;
    });
  }
}
