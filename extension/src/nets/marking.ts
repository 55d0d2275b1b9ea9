/** The marking of a running net, computed from the events of its trace. */

type Tokens = Readonly<Record<string, readonly unknown[]>>;

interface Event {
  event: string;
  transition?: string;
  consumed?: Tokens;
  produced?: Tokens;
  wasBegun?: boolean;
  marking?: Tokens;
  outcome?: string;
}

export class Marking {
  private tokensByPlace = new Map<string, unknown[]>();
  /** At least one event was received. */
  hasBegun = false;
  /** The transition that fired last. */
  fired = "";
  /** How the run ended; empty while it runs. */
  outcome = "";

  get places(): ReadonlyMap<string, readonly unknown[]> {
    return this.tokensByPlace;
  }

  /** Applies one line of a trace. */
  add(line: string): void {
    const event = JSON.parse(line) as Event;
    this.hasBegun = true;
    const { consumed = {}, produced = {}, wasBegun } = event;
    switch (event.event) {
      case "begun":
        this.take(consumed);
        break;
      case "fired":
        if (!wasBegun) this.take(consumed);
        this.put(produced);
        this.fired = event.transition ?? "";
        break;
      case "undone":
        if (wasBegun) this.put(consumed);
        break;
      default:
        if (event.marking) this.tokensByPlace = copyOf(event.marking);
        this.outcome = event.outcome ?? this.outcome;
    }
  }

  private take(tokens: Tokens): void {
    for (const [place, some] of Object.entries(tokens))
      for (const token of some) {
        const held = this.tokensByPlace.get(place) ?? [];
        const same = JSON.stringify(token);
        const spot = held.findIndex((each) => JSON.stringify(each) === same);
        if (spot >= 0) held.splice(spot, 1);
      }
  }

  private put(tokens: Tokens): void {
    for (const [place, some] of Object.entries(tokens))
      this.tokensByPlace.set(place, [...(this.tokensByPlace.get(place) ?? []), ...some]);
  }
}

/** Tokens as a short text: dots for plain tokens, else their values, or their number. */
export function shownTokens(tokens: readonly unknown[], longest: number): string {
  if (tokens.every((token) => token === null))
    return tokens.length <= 3 ? "•".repeat(tokens.length) : String(tokens.length);
  const text = tokens.map(tokenText).join(", ");
  return text.length <= longest ? text : countText(tokens.length);
}

export function tokenText(token: unknown): string {
  return typeof token === "string" ? token : JSON.stringify(token);
}

function countText(number: number): string {
  return number === 1 ? "1 token" : `${number} tokens`;
}

function copyOf(marking: Tokens): Map<string, unknown[]> {
  return new Map(Object.entries(marking).map(([place, tokens]) => [place, [...tokens]]));
}
