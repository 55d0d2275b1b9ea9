// Converts the new-session form into the body of `POST /api/sessions`.

export interface NewSession {
  name: string;
  workspace: string;
  url: string;
  ref: string;
  /** Egress mode. Empty: no network, except for the host that the workspace is cloned from. */
  network: string;
  domains: string;
  memory: string;
  cpus: string;
  spawner: string;
  variables: string;
  secrets: string;
}

const GB = 2 ** 30;

export function requestBody(form: NewSession): object {
  return {
    name: form.name.trim(),
    ...(form.spawner ? { spawner: form.spawner } : {}),
    workspace:
      form.workspace === "git"
        ? { kind: "git", url: form.url.trim(), ref: form.ref.trim() }
        : { kind: "empty" },
    ...(form.network ? { egress: egressOf(form) } : {}),
    limits: {
      memory: numberOrNull(form.memory, (gb) => Math.round(gb * GB)),
      cpus: numberOrNull(form.cpus, (count) => count),
    },
    environment: parseAssignments(form.variables),
    secrets: parseAssignments(form.secrets),
  };
}

function egressOf({ network, domains }: NewSession): object {
  const names = network === "proxy" ? domains.split(/[\s,]+/).filter(Boolean) : [];
  return { mode: network, domains: names };
}

/** Parses `NAME=value` lines. Throws for any other line. */
export function parseAssignments(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    const name = line.slice(0, at).trim();
    if (at < 1 || !/^[A-Za-z_]\w*$/.test(name)) {
      throw new Error(`“${line.trim()}” is not NAME=value`);
    }
    found[name] = line.slice(at + 1);
  }
  return found;
}

/** An empty field means no limit. */
function numberOrNull(text: string, convert: (value: number) => number): number | null {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? null : convert(value);
}
