/**
 * Reads JUnit XML, which most test programs can write, with the additions of pytest.
 *
 * These files are written by programs and use a small part of XML: elements, attributes, text,
 * CDATA, comments and the usual entities. DTDs and entities of their own are ignored.
 */
import { shortMessage, type Outcome, type TestResult } from "./test_results";

interface XmlElement {
  name: string;
  attributes: Readonly<Record<string, string>>;
  text: string;
  children: XmlElement[];
}

const TOKEN =
  /<!--[\s\S]*?-->|<!\[CDATA\[([\s\S]*?)\]\]>|<[?!][^>]*>|<(\/?)([\w:.-]+)((?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(\/?)>|([^<]+)/g;
const ATTRIBUTE = /([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g;
const OUTCOME_ELEMENTS: Readonly<Record<string, Outcome>> = {
  failure: "failed",
  error: "error",
  skipped: "skipped",
};
/** A line of pytest's tracebacks, `path:line: …`. */
const PYTEST_PLACE = /^(\S.*?):(\d+): /gm;

/** Undefined if the JUnit XML is incomplete, for example after a crash of the test program. */
export function parseJUnit(text: string, results: "junit" | "pytest"): TestResult[] | undefined {
  const root = parseXml(text);
  if (!root || !["testsuites", "testsuite"].includes(root.name)) return undefined;
  const make = results === "pytest" ? pytestResult : junitResult;
  // A test whose fixture fails in its teardown has two elements. The later one has the error.
  const byId = new Map<string, TestResult>();
  for (const result of casesOf(root).map(make)) {
    const known = byId.get(result.id);
    if (!known || known.outcome === "passed") byId.set(result.id, result);
  }
  return [...byId.values()];
}

function casesOf(element: XmlElement): XmlElement[] {
  return element.children.flatMap((each) => (each.name === "testcase" ? [each] : casesOf(each)));
}

function junitResult(element: XmlElement): TestResult {
  const { name = "", classname = "", file = null, line = "", time = "" } = element.attributes;
  const found = element.children.find((each) => each.name in OUTCOME_ELEMENTS);
  return {
    id: classname ? `${classname}::${name}` : name,
    outcome: (found && OUTCOME_ELEMENTS[found.name]) ?? "passed",
    message: found ? messageOf(found) : "",
    duration: Number(time.replace(",", "")) || 0,
    path: file,
    line: /^\d+$/.test(line) ? Number(line) : null,
  };
}

/** Ids as on pytest's command line. A failure in the test's own file sets the line. */
function pytestResult(element: XmlElement): TestResult {
  const { name = "", classname = "", file } = element.attributes;
  const result = junitResult(element);
  if (file === undefined) return result;
  const module = file.replace(/\.py$/, "").replaceAll("/", ".");
  if (!classname && name === module)
    return { ...result, id: file, line: failedLine(result, file) ?? null };
  const classes = classname.startsWith(`${module}.`)
    ? classname.slice(module.length + 1).split(".")
    : [];
  const id = [file, ...classes, name].join("::");
  // pytest counts these lines from 0.
  const line = result.line === null ? null : result.line + 1;
  return { ...result, id, line: failedLine(result, file) ?? line };
}

function failedLine({ outcome, message }: TestResult, file: string): number | undefined {
  if (outcome !== "failed" && outcome !== "error") return undefined;
  const places = [...message.matchAll(PYTEST_PLACE)].filter(([, path]) => path === file);
  const line = places.at(-1)?.[2];
  return line === undefined ? undefined : Number(line);
}

/** The text of the element, preceded by the message unless the text repeats it. */
function messageOf({ attributes, text, name }: XmlElement): string {
  const { message = "" } = attributes;
  const body = text.trim();
  if (name === "skipped") return shortMessage(message || body);
  const first = message.split("\n")[0] ?? "";
  return shortMessage(body.includes(first) ? body : [message, body].filter(Boolean).join("\n"));
}

function parseXml(text: string): XmlElement | undefined {
  const top: XmlElement = { name: "", attributes: {}, text: "", children: [] };
  const open = [top];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index !== end) return undefined; // the text between two matches is not XML
    end = match.index + match[0].length;
    const [, cdata, closing, name, attributes = "", isEmpty, characters] = match;
    const element = open.at(-1) ?? top;
    if (cdata !== undefined) element.text += cdata;
    else if (characters !== undefined) element.text += unescaped(characters);
    else if (name !== undefined && closing) {
      if (open.length < 2 || element.name !== name) return undefined;
      open.pop();
    } else if (name !== undefined) {
      const made = { name, attributes: attributesOf(attributes), text: "", children: [] };
      element.children.push(made);
      if (!isEmpty) open.push(made);
    }
  }
  return open.length === 1 && end === text.length ? top.children[0] : undefined;
}

function attributesOf(text: string): Record<string, string> {
  const found = [...text.matchAll(ATTRIBUTE)];
  return Object.fromEntries(
    found.map(([, name = "", one, other]) => [name, unescaped(one ?? other ?? "")]),
  );
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};

function unescaped(text: string): string {
  return text.replace(/&(#\d+|#x[0-9a-fA-F]+|\w+);/g, (whole: string, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name] ?? whole;
    const code = name.startsWith("#x") ? parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
