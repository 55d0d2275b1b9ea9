/** The HTML page of a net's drawing. Does not import vscode. */

/** Message to the page. `tokens` has a text for each place with tokens. */
export interface ToPage {
  svg?: string;
  /** The text is currently not a valid net; the drawing shows the last valid one. */
  isStale?: boolean;
  marking?: { tokens: Record<string, string>; fired: string } | null;
}

/** Message from the page: it is ready, or the user wants to see a node in the text. */
export interface FromPage {
  ready?: true;
  reveal?: string;
}

export function drawingPage(nonce: string): string {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'">
<title>Net</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<p id="note" hidden>The text is not a valid net right now. The Problems view shows why.</p>
<div id="paper"></div>
<script nonce="${nonce}">const nonce = "${nonce}";${SCRIPT}</script>
</body>
</html>`;
}

const STYLE = `
body { padding: 0; }
#note { margin: 0; padding: .4rem 1rem; color: var(--vscode-descriptionForeground); }
#paper.stale { opacity: .5; }
#paper svg { max-width: 100%; height: auto; display: block; margin: auto; }
#paper [data-id] { cursor: pointer; }
#paper [data-id]:hover .shape { stroke: var(--vscode-focusBorder); }
#paper .fired .shape { stroke: var(--vscode-charts-green, #388a34); stroke-width: 3; }
`;

/**
 * The SVG is parsed instead of set as HTML, so nothing in it can run; its style gets the nonce.
 * Tokens are placed as in the original drawing.
 */
const SCRIPT = `
const host = acquireVsCodeApi();
const paper = document.getElementById("paper");
let initial = {};
let marking = null;
const place = (node) => node.querySelector(".tokens");
const write = (node, text) => {
  const tokens = place(node), circle = node.querySelector(".shape");
  const y = Number(circle.getAttribute("cy"));
  const r = Number(circle.getAttribute("r"));
  tokens.textContent = text;
  tokens.setAttribute("y", String([...text].length <= 4 ? y + 4 : y - r - 5));
};
const draw = (text) => {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const svg = document.importNode(parsed, true);
  for (const style of svg.querySelectorAll("style")) {
    const own = document.createElementNS("http://www.w3.org/2000/svg", "style");
    own.setAttribute("nonce", nonce);
    own.textContent = style.textContent;
    style.replaceWith(own);
  }
  paper.replaceChildren(svg);
  initial = {};
  for (const node of svg.querySelectorAll(".place")) initial[node.dataset.id] = place(node).textContent;
};
const mark = () => {
  for (const node of paper.querySelectorAll(".place"))
    write(node, (marking ? marking.tokens[node.dataset.id] : initial[node.dataset.id]) || "");
  for (const node of paper.querySelectorAll(".transition"))
    node.classList.toggle("fired", Boolean(marking) && node.dataset.id === marking.fired);
};
addEventListener("message", ({ data }) => {
  if (data.svg !== undefined) draw(data.svg);
  if (data.isStale !== undefined) {
    paper.classList.toggle("stale", data.isStale);
    document.getElementById("note").hidden = !data.isStale;
  }
  if (data.marking !== undefined) marking = data.marking;
  mark();
});
paper.addEventListener("click", ({ target }) => {
  const node = target.closest("[data-id]");
  if (node) host.postMessage({ reveal: node.dataset.id });
});
host.postMessage({ ready: true });
`;
