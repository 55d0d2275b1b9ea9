/** Tells agents apart by hub and token: one that has the name of another gets a name of its own. */
import type { AgentAction } from "../hub/messages";

export class AgentNames {
  private readonly names = new Map<string, string>();
  private readonly taken = new Set<string>();

  constructor(private readonly hub: () => string) {}

  /** Hub and token; nothing where the hub does not say which token it is. */
  keyOf(action: AgentAction): string | undefined {
    return action.agent_id ? `${this.hub()} ${action.agent_id}` : undefined;
  }

  /** By which shells, kernels and grants of this window are kept: `Ann`, then `Ann (2)`. */
  of(action: AgentAction): string {
    const key = this.keyOf(action) ?? `${this.hub()} named ${action.agent}`;
    const known = this.names.get(key);
    if (known !== undefined) return known;
    let name = action.agent;
    for (let n = 2; this.taken.has(name); n++) name = `${action.agent} (${n})`;
    this.taken.add(name);
    this.names.set(key, name);
    return name;
  }
}
