/** Unique display names of agents. The hub and the token id identify an agent, not its name. */
import type { AgentAction } from "../hub/messages";

export class AgentNames {
  private readonly names = new Map<string, string>();
  private readonly taken = new Set<string>();

  constructor(private readonly hub: () => string) {}

  /** Hub and token id; undefined if the hub sends no token id. */
  keyOf(action: AgentAction): string | undefined {
    return action.agent_id ? `${this.hub()} ${action.agent_id}` : undefined;
  }

  /** The unique name that identifies an agent's shells, kernels and grants: `Ann`, `Ann (2)`. */
  nameOf(action: AgentAction): string {
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
