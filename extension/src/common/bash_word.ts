/**
 * `word` as one word of a bash command line, quoted only where bash needs it: people read the line.
 * At the beginning of a line, `NAME=value` would be an assignment, so it is quoted too.
 */
export function bashWord(word: string): string {
  const isPlain = /^[\w@%+=:,./-]+$/.test(word) && !/^\w+\+?=/.test(word);
  return isPlain ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
