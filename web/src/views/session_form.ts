// What the form for a new session says, as the hub takes it.

export interface NewSession {
  name: string;
  workspace: string;
  url: string;
  ref: string;
  /** Empty: what the clone of its workspace needs, and otherwise none. */
  network: string;
  domains: string;
  memory: string;
  cpus: string;
  spawner: string;
  variables: string;
  secrets: string;
}

const GB = 2 ** 30;

export function requestBody(wanted: NewSession): object {
  return {
    name: wanted.name.trim(),
    ...(wanted.spawner ? { spawner: wanted.spawner } : {}),
    workspace:
      wanted.workspace === "git"
        ? { kind: "git", url: wanted.url.trim(), ref: wanted.ref.trim() }
        : { kind: "empty" },
    ...(wanted.network ? { egress: egressOf(wanted) } : {}),
    limits: {
      memory: amount(wanted.memory, (gb) => Math.round(gb * GB)),
      cpus: amount(wanted.cpus, (count) => count),
    },
    environment: assignments(wanted.variables),
    secrets: assignments(wanted.secrets),
  };
}

function egressOf({ network, domains }: NewSession): object {
  const names = network === "proxy" ? domains.split(/[\s,]+/).filter(Boolean) : [];
  return { mode: network, domains: names };
}

/** `NAME=value` lines. Throws for a line that is none. */
export function assignments(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    const name = line.slice(0, at).trim();
    if (at < 1 || !/^[A-Za-z_]\w*$/.test(name)) {
      throw new Error(`“${line.trim()}” is no NAME=value`);
    }
    found[name] = line.slice(at + 1);
  }
  return found;
}

/** An empty field is no limit. */
function amount(text: string, of: (value: number) => number): number | null {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? null : of(value);
}
