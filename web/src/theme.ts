// The colour theme: the system's, unless the user chose one. Stored in this browser.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const STORED = "bascule.theme";

export const theme = signal<Theme>(read());

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(STORED, theme.value);
});

export function nextTheme(): void {
  const order: Theme[] = ["system", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "system";
}

function read(): Theme {
  const kept = localStorage.getItem(STORED);
  return kept === "light" || kept === "dark" ? kept : "system";
}
