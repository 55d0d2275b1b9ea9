/** Whether a name is meant by a pattern: the name itself, or its beginning and a `*`. */
export function matchesPattern(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
