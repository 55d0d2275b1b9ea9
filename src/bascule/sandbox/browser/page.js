// Runs inside a page and reads its text and its elements. Evaluates to a reader object; the page's
// own scripts have no reference to it, and it changes nothing in the page. An element keeps its
// number (its bid) as long as the document lives.
({ prefix, first }) => {
  const bids = new WeakMap();
  const elements = new Map();
  let last = first;

  const bidOf = (element) => {
    let bid = bids.get(element);
    if (bid === undefined) {
      last += 1;
      bid = `${prefix}${last}`;
      bids.set(element, bid);
      elements.set(bid, new WeakRef(element));
    }
    return bid;
  };

  const find = (bid) => {
    const element = elements.get(bid)?.deref();
    return element?.isConnected ? element : null;
  };

  // Children and visibility --------------------------------------------------------------

  const SILENT = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "TITLE", "META", "LINK"]);

  const childrenOf = (node) => {
    if (node.tagName === "SLOT") {
      const assigned = node.assignedNodes({ flatten: true });
      return assigned.length ? assigned : node.childNodes;
    }
    return (node.shadowRoot ?? node).childNodes;
  };

  /** "shown", "unseen" (its own text is invisible, but a child may be visible) or "gone". */
  const presence = (element) => {
    if (element.checkVisibility({ visibilityProperty: true })) return "shown";
    const { display, visibility } = getComputedStyle(element);
    if (display === "contents") return visibility === "visible" ? "shown" : "unseen";
    return element.checkVisibility() ? "unseen" : "gone";
  };

  const squeezed = (text) => text.replace(/\s+/g, " ");

  // As text ------------------------------------------------------------------------------

  const BLOCKS = new Set(
    ("ADDRESS ARTICLE ASIDE BLOCKQUOTE BODY CAPTION DD DETAILS DIALOG DIV DL DT FIELDSET FIGCAPTION FIGURE FOOTER " +
      "FORM H1 H2 H3 H4 H5 H6 HEADER HGROUP HR LI MAIN MENU NAV OL P PRE SECTION SUMMARY TABLE TBODY TFOOT THEAD TR UL").split(" "),
  );
  const SPACED = new Set("BLOCKQUOTE DL FIGURE H1 H2 H3 H4 H5 H6 OL P PRE TABLE UL".split(" "));

  const asText = () => {
    const out = [];
    let breaks = 2; // number of newlines at the end of the output so far
    let space = false; // whether a space is needed before the next word

    const write = (text) => {
      if (!text) return;
      if (space && breaks === 0) out.push(" ");
      space = false;
      out.push(text);
      breaks = 0;
    };
    const line = (count) => {
      space = false;
      while (breaks < count) {
        out.push("\n");
        breaks += 1;
      }
    };
    const words = (text) => {
      const squashed = squeezed(text);
      if (squashed.startsWith(" ")) space = true;
      const core = squashed.trim();
      if (core) write(core);
      if (squashed.endsWith(" ") && core) space = true;
    };
    const each = (node, walk) => {
      for (const child of childrenOf(node)) walk(child);
    };
    const literal = (element) => {
      line(2);
      write("```\n" + (element.innerText ?? element.textContent).replace(/\n$/, "") + "\n```");
      line(2);
    };
    const link = (element, walk) => {
      const href = element.getAttribute("href");
      if (!href || /^javascript:/i.test(href)) return each(element, walk);
      if (space && breaks === 0) out.push(" ");
      space = false;
      const at = out.length;
      out.push("[");
      const before = breaks;
      breaks = 1;
      each(element, walk);
      if (out.length === at + 1) {
        out.pop();
        breaks = before;
        return undefined;
      }
      while (out[out.length - 1] === "\n") out.pop();
      space = false;
      out.push(`](${href})`);
      breaks = 0;
      return undefined;
    };
    const item = (element, depth, walk) => {
      const list = element.parentElement;
      const numbered = list?.tagName === "OL";
      const mark = numbered ? `${[...list.children].indexOf(element) + (list.start || 1)}. ` : "* ";
      line(1);
      out.push("  ".repeat(depth) + mark);
      breaks = 1;
      each(element, walk);
      line(1);
    };
    const walker = (depth, shown) => (node) => {
      if (node.nodeType === Node.TEXT_NODE) {
        if (shown) words(node.data);
        return;
      }
      if (node.nodeType !== Node.ELEMENT_NODE || SILENT.has(node.tagName)) return;
      const seen = presence(node);
      if (seen === "gone") return;
      const { tagName } = node;
      const walk = walker(depth, seen === "shown");
      const block = BLOCKS.has(tagName);
      if (block) line(SPACED.has(tagName) && depth === 0 ? 2 : 1);
      if (/^H[1-6]$/.test(tagName)) {
        write("#".repeat(Number(tagName[1])) + " ");
        breaks = 1;
        each(node, walk);
      } else if (tagName === "BR") line(1);
      else if (tagName === "HR") write("* * *");
      else if (tagName === "PRE") literal(node);
      else if (tagName === "A") link(node, walk);
      else if (tagName === "LI") item(node, depth, walk);
      else if (tagName === "UL" || tagName === "OL" || tagName === "MENU")
        each(node, walker(depth + (node.parentElement?.closest("li") ? 1 : 0), seen === "shown"));
      else if (tagName === "TD" || tagName === "TH") {
        if (node.previousElementSibling) write(" | ");
        space = false;
        each(node, walk);
      } else if (tagName === "TEXTAREA") write(node.value);
      else if (tagName === "SELECT") write([...node.selectedOptions].map((each) => each.label).join(", "));
      else if (tagName === "IFRAME" || tagName === "FRAME" || tagName === "svg") return;
      else each(node, walk);
      if (block) line(SPACED.has(tagName) && depth === 0 ? 2 : 1);
    };
    if (document.body) walker(0, true)(document.body);
    return out.join("").trim();
  };

  /** The text of the page; the middle of a text longer than `limit` is cut out. */
  const text = (limit) => {
    const whole = asText();
    if (whole.length <= limit) return { head: whole, tail: "", length: whole.length };
    const half = Math.floor(limit / 2);
    return {
      head: whole.slice(0, half).toWellFormed(),
      tail: whole.slice(-half).toWellFormed(),
      length: whole.length,
    };
  };

  // As a tree ----------------------------------------------------------------------------

  const ROLES = {
    ARTICLE: "article", ASIDE: "complementary", BUTTON: "button", CANVAS: "Canvas", CAPTION: "caption",
    DD: "definition", DETAILS: "group", DIALOG: "dialog", DT: "term", FIELDSET: "group", FIGURE: "figure",
    FOOTER: "contentinfo", FORM: "form", FRAME: "Iframe", H1: "heading", H2: "heading", H3: "heading", H4: "heading",
    H5: "heading", H6: "heading", HEADER: "banner", HR: "separator", IFRAME: "Iframe", IMG: "image", LABEL: "LabelText",
    LI: "listitem", MAIN: "main", MENU: "list", METER: "meter", NAV: "navigation", OL: "list", OPTION: "option",
    OUTPUT: "status", P: "paragraph", PRE: "Pre", PROGRESS: "progressbar", SEARCH: "search", SUMMARY: "DisclosureTriangle",
    TABLE: "table", TBODY: "rowgroup", TD: "cell", TEXTAREA: "textbox", TFOOT: "rowgroup", TH: "columnheader",
    THEAD: "rowgroup", TR: "row", UL: "list", VIDEO: "Video", AUDIO: "Audio", LEGEND: "Legend",
  };
  const INPUTS = {
    button: "button", checkbox: "checkbox", color: "ColorWell", date: "Date", "datetime-local": "DateTime",
    file: "button", image: "button", number: "spinbutton", radio: "radio", range: "slider", reset: "button",
    search: "searchbox", submit: "button", time: "InputTime",
  };
  const ACTIVE = new Set(
    ("button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio option radio searchbox " +
      "slider spinbutton switch tab textbox treeitem DisclosureTriangle ColorWell Date DateTime InputTime").split(" "),
  );
  const NAMED_BY_CONTENT = new Set(
    ("button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox menuitemradio option radio " +
      "rowheader switch tab tooltip treeitem DisclosureTriangle LabelText Legend caption").split(" "),
  );

  const roleOf = (element) => {
    const given = element.getAttribute("role")?.trim().split(/\s+/)[0];
    if (given && given !== "presentation" && given !== "none") return given;
    const { tagName } = element;
    if (tagName === "A" || tagName === "AREA") return element.hasAttribute("href") ? "link" : "generic";
    if (tagName === "INPUT") return element.list ? "combobox" : (INPUTS[element.type] ?? "textbox");
    if (tagName === "SELECT") return element.multiple || element.size > 1 ? "listbox" : "combobox";
    if (tagName === "SECTION") return element.hasAttribute("aria-label") ? "region" : "generic";
    if (tagName === "svg") return "image";
    if (element.isContentEditable && !element.parentElement?.isContentEditable) return "textbox";
    return ROLES[tagName] ?? "generic";
  };

  const contentOf = (element) => squeezed(element.innerText ?? element.textContent ?? "").trim();

  const labelled = (element) =>
    (element.getAttribute("aria-labelledby") ?? "")
      .split(/\s+/)
      .map((id) => id && element.getRootNode().getElementById?.(id))
      .filter(Boolean)
      .map(contentOf)
      .join(" ");

  const nameOf = (element, role) => {
    const own =
      labelled(element) ||
      element.getAttribute("aria-label")?.trim() ||
      (element.labels?.length ? [...element.labels].map(contentOf).join(" ").trim() : "") ||
      element.getAttribute("alt");
    if (own) return own;
    if (element.tagName === "INPUT") {
      if (["submit", "reset", "button"].includes(element.type) && element.value) return element.value;
      if (element.type === "submit") return "Submit";
      if (element.type === "reset") return "Reset";
      if (element.type === "file") return element.multiple ? "Choose Files" : "Choose File";
    }
    if (NAMED_BY_CONTENT.has(role)) {
      const content = contentOf(element);
      if (content) return content;
    }
    if (element.tagName === "FIELDSET") return contentOf(element.querySelector("legend") ?? element.ownerDocument.createElement("p"));
    if (element.tagName === "svg") return squeezed(element.querySelector("title")?.textContent ?? "").trim();
    if (role === "generic" && !element.childElementCount && !element.shadowRoot) return contentOf(element);
    return element.getAttribute("title") || element.getAttribute("placeholder") || "";
  };

  const valueOf = (element) => {
    const { tagName, type } = element;
    if (tagName === "SELECT") return [...element.selectedOptions].map((each) => each.label).join(", ");
    if (tagName === "TEXTAREA") return element.value;
    if (tagName === "PROGRESS" || tagName === "METER") return String(element.value);
    if (tagName === "INPUT") {
      if (type === "file") return [...element.files].map((each) => each.name).join(", ") || "No file chosen";
      if (type === "password") return "•".repeat(element.value.length);
      if (["checkbox", "radio", "submit", "reset", "button", "image", "hidden"].includes(type)) return "";
      return element.value;
    }
    if (element.isContentEditable) return contentOf(element);
    return element.getAttribute("aria-valuetext") ?? element.getAttribute("aria-valuenow") ?? "";
  };

  const clip = (string, most) => {
    const whole = string.toWellFormed();
    return whole.length > most ? whole.slice(0, most).toWellFormed() + "…" : whole;
  };

  const propertiesOf = (element, role) => {
    const found = {};
    const value = valueOf(element);
    if (value) found.value = clip(squeezed(value), 500);
    if (role === "heading") found.level = Number(element.getAttribute("aria-level") ?? element.tagName[1]) || 2;
    if (role === "link") found.url = clip(element.href?.baseVal ?? element.href ?? "", 500);
    if (["checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio"].includes(role))
      found.checked = element.indeterminate ? "mixed" : String(element.checked ?? element.getAttribute("aria-checked") === "true");
    if (role === "option") found.selected = element.selected ?? element.getAttribute("aria-selected") === "true";
    for (const name of ["expanded", "pressed", "selected", "current", "haspopup", "invalid"]) {
      const given = element.getAttribute(`aria-${name}`);
      if (given !== null && found[name] === undefined && !(name === "invalid" && given === "false"))
        found[name === "haspopup" ? "hasPopup" : name] = given === "true" ? true : given === "false" ? false : given;
    }
    if (element.tagName === "DETAILS") found.expanded = element.open;
    if (element.required || element.getAttribute("aria-required") === "true") found.required = true;
    if (element.matches(":disabled") || element.getAttribute("aria-disabled") === "true") found.disabled = true;
    if (element.readOnly && ROLES[element.tagName] !== "button" && ["INPUT", "TEXTAREA"].includes(element.tagName)) found.readonly = true;
    return found;
  };

  const activeElement = () => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    return element && element !== document.body && element !== document.documentElement ? element : null;
  };

  /**
   * Every relevant element in document order, with its depth. For a page with more than `many`
   * elements, only those within one screen height of the viewport. Stops after `budget` ms.
   */
  const tree = ({ many, most, budget }) => {
    const nodes = [];
    const started = performance.now();
    const focus = activeElement();
    const { innerHeight: height, innerWidth: width } = window;
    const nearOnly = document.getElementsByTagName("*").length > many;
    let partial = nearOnly;

    const isFull = () => {
      if (nodes.length < most && performance.now() - started < budget) return false;
      partial = true;
      return true;
    };
    const say = (depth, text) => {
      const plain = squeezed(text).trim();
      if (plain) nodes.push([depth, "", "StaticText", clip(plain, 2000), {}, null, 0, 0]);
    };
    const walkAll = (element, depth, state) => {
      let words = "";
      for (const child of childrenOf(element)) {
        if (child.nodeType === Node.TEXT_NODE) {
          if (state.shown && !state.named) words += child.data;
        } else if (child.nodeType === Node.ELEMENT_NODE) {
          say(depth, words);
          words = "";
          if (isFull()) return;
          walk(child, depth, state);
        }
      }
      say(depth, words);
    };
    const walk = (element, depth, state) => {
      if (SILENT.has(element.tagName) || element.getAttribute("aria-hidden") === "true") return;
      const isOption = element.tagName === "OPTION" || element.tagName === "OPTGROUP";
      const seen = isOption ? "shown" : presence(element);
      if (seen === "gone") return;
      const rect = element.getBoundingClientRect();
      if (nearOnly && rect.height > 0 && (rect.bottom < -height || rect.top > 2 * height)) return;
      const role = roleOf(element);
      const shown = seen === "shown";
      const pointer = shown && (state.pointer || getComputedStyle(element).cursor === "pointer");
      const clickable = ACTIVE.has(role) || element.onclick !== null || element.hasAttribute("onclick") || (pointer && !state.pointer);
      const inner = { shown, named: false, pointer };
      const name = role === "generic" && !clickable ? "" : nameOf(element, role);
      const matters = role !== "generic" || (clickable && !state.pointer) || element === focus;
      if (!matters || (!shown && !name)) {
        inner.named = state.named;
        walkAll(element, depth, inner);
        return;
      }
      const visible = shown && rect.width > 0 && rect.height > 0 && rect.bottom > 0 && rect.right > 0 && rect.top < height && rect.left < width;
      const properties = propertiesOf(element, role);
      if (element === focus) properties.focused = true;
      const label = clip(squeezed(name).trim(), 500);
      const box = [rect.x + (element.clientLeft || 0), rect.y + (element.clientTop || 0), rect.width, rect.height];
      nodes.push([depth, bidOf(element), role, label, properties, role === "Iframe" ? box : [rect.x, rect.y, rect.width, rect.height], visible ? 1 : 0, clickable ? 1 : 0]);
      if (role === "Iframe" || role === "Canvas" || element.tagName === "svg" || element.tagName === "TEXTAREA") return;
      inner.named = (NAMED_BY_CONTENT.has(role) || role === "generic") && label !== "" && contentOf(element) === squeezed(name).trim();
      walkAll(element, depth + 1, inner);
    };

    if (document.body) walkAll(document.body, 1, { shown: presence(document.body) === "shown", named: false, pointer: false });
    return { nodes, partial, last, title: document.title, focused: focus ? bidOf(focus) : "", scroll: [scrollX, scrollY], view: [width, height] };
  };

  return { bidOf, find, text, tree };
}
