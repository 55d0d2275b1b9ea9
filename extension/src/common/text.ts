/** Text as Python sees it, for rules that exist in both languages: characters are code points. */

/** Python's white space. Unlike JavaScript's, it has U+001C to U+001F and U+0085, not U+FEFF. */
const SPACE =
  "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const LEADING = new RegExp(`^${SPACE}+`);
const IS_SPACE = new RegExp(`^${SPACE}$`);
const HALF_CHARACTER = /[\ud800-\udfff]/u;

/** Removes white space at both ends, like Python's `str.strip`. */
export function strip(text: string): string {
  const start = LEADING.exec(text)?.[0].length ?? 0;
  let end = text.length;
  while (end > start && IS_SPACE.test(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** The first `count` characters, with an ellipsis if there are more. */
export function shorten(text: string, count: number): string {
  if (text.length <= count) return text;
  const characters = Array.from(text.slice(0, 2 * count + 2));
  return characters.length <= count ? text : `${characters.slice(0, count).join("")}…`;
}

/** The first unpaired surrogate, which UTF-8 cannot encode. Undefined if there is none. */
export function halfCharacter(text: string): string | undefined {
  return HALF_CHARACTER.exec(text)?.[0];
}
