/** The HTML of a form, generated from a JSON Schema. Does not import vscode. */
import { Failure } from "../common/failure";
import { isObject, type Params } from "./messages";

export interface FormSpec {
  title: string;
  schema: Params;
  uiSchema: Params;
  value: Params;
}

const MAX_FIELDS = 100;

export function formPage(spec: FormSpec, nonce: string): string {
  const fields = fieldsOf(spec);
  const data = JSON.stringify({ names: fields.map(({ name, type }) => ({ name, type })) });
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'">
<title>${escaped(spec.title)}</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<form id="form">
<h1>${escaped(spec.title)}</h1>
${description(spec.schema)}
${fields.map(field).join("\n")}
<div class="buttons"><button type="submit">Submit</button><button type="button" id="cancel" class="secondary">Cancel</button></div>
</form>
<script nonce="${nonce}">const form = ${data.replaceAll("<", "\\u003c")};${SCRIPT}</script>
</body>
</html>`;
}

interface Field {
  name: string;
  schema: Params;
  type: "string" | "number" | "integer" | "boolean" | "enum";
  widget: string;
  value: unknown;
  isRequired: boolean;
}

function fieldsOf({ schema, uiSchema, value }: FormSpec): Field[] {
  const { properties, required } = schema;
  if (!isObject(properties))
    throw new Failure("bridge.invalid_params", "The form's schema has no 'properties'");
  const entries = Object.entries(properties);
  if (entries.length > MAX_FIELDS)
    throw new Failure("bridge.invalid_params", `A form has at most ${MAX_FIELDS} fields`);
  return entries.map(([name, given]) => {
    const each = isObject(given) ? given : {};
    const ui = isObject(uiSchema[name]) ? uiSchema[name] : {};
    return {
      name,
      schema: each,
      type: typeOf(name, each),
      widget: typeof ui["ui:widget"] === "string" ? ui["ui:widget"] : "",
      value: value[name] ?? each["default"],
      isRequired: Array.isArray(required) && required.includes(name),
    };
  });
}

function typeOf(name: string, schema: Params): Field["type"] {
  const { type = "string" } = schema;
  if (Array.isArray(schema["enum"])) return "enum";
  if (type === "string" || type === "number" || type === "integer" || type === "boolean")
    return type;
  throw new Failure(
    "bridge.invalid_params",
    `A form has no field for '${name}': its type is ${JSON.stringify(type)}`,
  );
}

function field(each: Field, index: number): string {
  const { name, schema, isRequired } = each;
  const title = typeof schema["title"] === "string" ? schema["title"] : name;
  const label = `${escaped(title)}${isRequired ? " *" : ""}`;
  if (each.type === "boolean")
    return `<div class="field"><label class="check">${control(each, index)} ${label}</label>${description(schema)}</div>`;
  return `<div class="field"><label for="f${index}">${label}</label>${description(schema)}${control(each, index)}</div>`;
}

function control(each: Field, index: number): string {
  const { schema, type, widget, value, isRequired } = each;
  const shown = typeof value === "string" || typeof value === "number" ? String(value) : "";
  const common = `id="f${index}" name="f${index}"${isRequired && type !== "boolean" ? " required" : ""}`;
  if (type === "boolean")
    return `<input type="checkbox" ${common}${value === true ? " checked" : ""}>`;
  if (type === "enum")
    return choices(schema["enum"] as unknown[], value, widget, common, index, isRequired);
  const limits = attributes(schema, ["minLength", "maxLength", "pattern"]);
  if (widget === "textarea")
    return `<textarea rows="5" ${common}${limits}>\n${escaped(shown)}</textarea>`;
  if (type === "string")
    return `<input type="${widget === "password" ? "password" : "text"}" ${common}${limits} value="${escaped(shown)}">`;
  const bounds = attributes(schema, ["minimum", "maximum"]);
  return `<input type="number" step="${type === "integer" ? "1" : "any"}" ${common}${bounds} value="${escaped(shown)}">`;
}

function choices(
  all: unknown[],
  chosen: unknown,
  widget: string,
  common: string,
  index: number,
  isRequired: boolean,
): string {
  const values = all.map((each) => ({
    text: escaped(String(each)),
    json: escaped(JSON.stringify(each)),
    isChosen: each === chosen,
  }));
  if (widget === "radio")
    return values
      .map(
        ({ text, json, isChosen }) =>
          `<label class="check"><input type="radio" name="f${index}" value="${json}"${isRequired ? " required" : ""}${isChosen ? " checked" : ""}> ${text}</label>`,
      )
      .join("");
  const options = values.map(
    ({ text, json, isChosen }) =>
      `<option value="${json}"${isChosen ? " selected" : ""}>${text}</option>`,
  );
  return `<select ${common}><option value=""></option>${options.join("")}</select>`;
}

function attributes(schema: Params, names: string[]): string {
  const html: Readonly<Record<string, string>> = { minimum: "min", maximum: "max" };
  return names
    .filter((name) => typeof schema[name] === "number" || typeof schema[name] === "string")
    .map((name) => ` ${html[name] ?? name.toLowerCase()}="${escaped(String(schema[name]))}"`)
    .join("");
}

function description(schema: Params): string {
  const { description: text } = schema;
  return typeof text === "string" && text ? `<p class="description">${escaped(text)}</p>` : "";
}

function escaped(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replaceAll(/[&<>"']/g, (each) => entities[each] ?? each);
}

const STYLE = `
body { font-family: var(--vscode-font-family); font-size: var(--vscode-font-size); color: var(--vscode-foreground); padding: 1rem 2rem; }
form { max-width: 40rem; }
h1 { font-size: 1.4em; font-weight: 600; }
.field { margin: 1rem 0; }
label { display: block; font-weight: 600; }
label.check { font-weight: normal; }
.description { margin: .2rem 0; color: var(--vscode-descriptionForeground); }
input:not([type=checkbox]):not([type=radio]), textarea, select { box-sizing: border-box; width: 100%; margin-top: .3rem; padding: .35rem; font: inherit; color: var(--vscode-input-foreground); background: var(--vscode-input-background); border: 1px solid var(--vscode-input-border, var(--vscode-widget-border, transparent)); }
:focus { outline: 1px solid var(--vscode-focusBorder); }
button { padding: .4rem 1rem; margin-right: .5rem; font: inherit; border: none; cursor: pointer; color: var(--vscode-button-foreground); background: var(--vscode-button-background); }
button.secondary { color: var(--vscode-button-secondaryForeground); background: var(--vscode-button-secondaryBackground); }
`;

/** Omits empty fields and converts numbers and choices back to values. */
const SCRIPT = `
const host = acquireVsCodeApi();
const element = document.getElementById("form");
const read = ({ type }, index) => {
  const controls = element.elements["f" + index];
  if (type === "boolean") return controls.checked;
  const text = controls.value;
  if (text === "") return undefined;
  if (type === "enum") return JSON.parse(text);
  return type === "string" ? text : Number(text);
};
element.addEventListener("submit", (event) => {
  event.preventDefault();
  const value = {};
  form.names.forEach((each, index) => { const got = read(each, index); if (got !== undefined) value[each.name] = got; });
  host.postMessage({ value });
});
document.getElementById("cancel").addEventListener("click", () => host.postMessage({ value: null }));
element.querySelector("input, textarea, select")?.focus();
`;
