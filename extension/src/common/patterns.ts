/** Whether a name matches a pattern: equal, or a prefix followed by `*`. */
export function matchesPattern(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
