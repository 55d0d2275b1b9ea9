/** The values of `command_values` as VS Code's own classes. */
import * as vscode from "vscode";
import type { FourNumbers, ValueForm, ValueTypes } from "./command_values";

/** At least two letters, so that a drive letter (`c:`) is not taken for a scheme. */
const SCHEME = /^[a-z][a-z0-9+.-]+:/i;

/** `absolute` resolves a path of the agent. */
export function vscodeValues(absolute: (path: string) => string): ValueTypes {
  return {
    uri: (given) =>
      SCHEME.test(given) ? vscode.Uri.parse(given, true) : vscode.Uri.file(absolute(given)),
    position: (line, character) => new vscode.Position(line, character),
    range: (...numbers) => new vscode.Range(...numbers),
    selection: (...numbers) => new vscode.Selection(...numbers),
    location: (uri, range) => new vscode.Location(uri as vscode.Uri, range as vscode.Range),
    formOf,
  };
}

function formOf(value: object): ValueForm | undefined {
  if (value instanceof vscode.Uri) return { $uri: textOf(value) };
  if (value instanceof vscode.Position) return { $position: [value.line, value.character] };
  if (value instanceof vscode.Selection)
    return { $selection: numbersOf(value.anchor, value.active) };
  if (value instanceof vscode.Range) return { $range: numbersOf(value.start, value.end) };
  if (value instanceof vscode.Location)
    return {
      $location: {
        uri: textOf(value.uri),
        range: numbersOf(value.range.start, value.range.end),
      },
    };
  return undefined;
}

function textOf(uri: vscode.Uri): string {
  return uri.scheme === "file" ? uri.fsPath : uri.toString();
}

function numbersOf(one: vscode.Position, other: vscode.Position): FourNumbers {
  return [one.line, one.character, other.line, other.character];
}
