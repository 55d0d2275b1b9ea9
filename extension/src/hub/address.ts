/** Parses the address of a hub as typed by a user. */

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:|\/|$)/;

/** The origin, or undefined if invalid. Without a scheme: http for loopback, otherwise https. */
export function hubAddress(text: string): string | undefined {
  const given = text.trim();
  const scheme = LOOPBACK.test(given) ? "http" : "https";
  const address = given.includes("://") ? given : `${scheme}://${given}`;
  if (!given || !URL.canParse(address)) return undefined;
  const { protocol, origin } = new URL(address);
  return ["http:", "https:"].includes(protocol) ? origin : undefined;
}
