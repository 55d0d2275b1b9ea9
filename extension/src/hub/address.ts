/** The address of a hub, as people type it. */

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:|\/|$)/;

/** Its origin; nothing for what is no address. Without a scheme it is http on this machine, else https. */
export function hubAddress(text: string): string | undefined {
  const given = text.trim();
  const scheme = LOOPBACK.test(given) ? "http" : "https";
  const address = given.includes("://") ? given : `${scheme}://${given}`;
  if (!given || !URL.canParse(address)) return undefined;
  const { protocol, origin } = new URL(address);
  return ["http:", "https:"].includes(protocol) ? origin : undefined;
}
