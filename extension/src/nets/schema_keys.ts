/** Completion suggestions for a net in YAML, from its JSON Schema. Does not import vscode. */

export interface Schema {
  $ref?: string;
  $defs?: Readonly<Record<string, Schema>>;
  description?: string;
  properties?: Readonly<Record<string, Schema>>;
  items?: Schema;
  oneOf?: readonly Schema[];
  anyOf?: readonly Schema[];
  enum?: readonly unknown[];
  type?: string | readonly string[];
}

export interface Suggestion {
  text: string;
  description: string;
  isKey: boolean;
}

const LINE = /^(?<indent>\s*)(?<dashes>(?:-\s+)*)(?:"?(?<key>[\w@-]+)"?\s*:(?<value>.*))?/;
const BLOCK = /^\s*[|>][-+\d]*\s*(?:#.*)?$/;

/** Suggestions at the cursor. `before` is the text up to the cursor. */
export function suggestionsAt(before: string, root: Schema): Suggestion[] {
  const lines = before.split(/\r?\n/);
  const last = lines.pop() ?? "";
  const typed = /^(\s*(?:-\s+)*)(?:([\w@-]+):\s+)?[\w@.-]*$/.exec(last);
  if (!typed) return [];
  const [, lead = "", key] = typed;
  const path = pathTo(lines, lead);
  if (!path) return [];
  const here = schemasAt(root, path);
  return key === undefined ? keys(here, root) : values(here, key, root);
}

/** The keys that lead to a column, outermost first; undefined inside a block scalar. */
function pathTo(lines: readonly string[], lead: string): string[] | undefined {
  const path: string[] = [];
  let limit = limitOf(lead.length, lead);
  for (const line of lines.toReversed()) {
    if (!line.trim() || line.trimStart().startsWith("#")) continue;
    const { indent = "", dashes = "", key, value = "" } = LINE.exec(line)?.groups ?? {};
    const column = indent.length + dashes.length;
    if (key !== undefined && column < limit) {
      if (BLOCK.test(value)) return undefined;
      path.unshift(key);
      limit = limitOf(column, indent + dashes);
    } else if (dashes && column === limit) limit = indent.length + 1;
  }
  return path;
}

/** A list may start at the column of its key, so its dash counts as indented further. */
function limitOf(column: number, lead: string): number {
  const dash = lead.indexOf("-");
  return dash >= 0 ? dash + 1 : column;
}

function schemasAt(root: Schema, path: readonly string[]): Schema[] {
  let here = alternatives(root, root);
  for (const key of path)
    here = here.flatMap(({ properties }) => {
      const next = properties?.[key];
      return next ? alternatives(next, root) : [];
    });
  return here;
}

/** Resolves a schema to its alternatives; for a list, those of its items. */
function alternatives(schema: Schema, root: Schema): Schema[] {
  if (schema.$ref !== undefined) {
    const found = root.$defs?.[schema.$ref.replace("#/$defs/", "")];
    return found ? alternatives(found, root) : [];
  }
  if (schema.items) return alternatives(schema.items, root);
  const kinds = schema.oneOf ?? (schema.properties ? undefined : schema.anyOf);
  return kinds ? kinds.flatMap((kind) => alternatives(kind, root)) : [schema];
}

function keys(here: readonly Schema[], root: Schema): Suggestion[] {
  const all = new Map<string, Suggestion>();
  for (const { properties = {} } of here)
    for (const [text, schema] of Object.entries(properties)) {
      const description = schema.description ?? alternatives(schema, root)[0]?.description ?? "";
      if (!text.startsWith("@")) all.set(text, { text, description, isKey: true });
    }
  return [...all.values()];
}

function values(here: readonly Schema[], key: string, root: Schema): Suggestion[] {
  const kinds = here.flatMap(({ properties }) => {
    const found = properties?.[key];
    return found ? alternatives(found, root) : [];
  });
  const all = kinds.flatMap(({ enum: some = [], type }) =>
    some.length ? some.map(String) : type === "boolean" ? ["true", "false"] : [],
  );
  return [...new Set(all)].map((text) => ({ text, description: "", isKey: false }));
}
