// The colour theme: the system's, unless the user chose one. Stored in this browser.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const STORAGE_KEY = "bascule.theme";

export const theme = signal<Theme>(storedTheme());

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(STORAGE_KEY, theme.value);
});

export function nextTheme(): void {
  const order: Theme[] = ["system", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "system";
}

function storedTheme(): Theme {
  const kept = localStorage.getItem(STORAGE_KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}
