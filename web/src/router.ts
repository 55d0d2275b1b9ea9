// The page's router: the current URL path as a signal.
import { signal } from "@preact/signals";

export const path = signal(location.pathname);

addEventListener("popstate", () => (path.value = location.pathname));

export function go(where: string): void {
  if (where !== location.pathname) history.pushState(null, "", where);
  path.value = where;
  document.querySelector("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Handles clicks on `data-inside` links. Clicks with a modifier key are left to the browser. */
export function onLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest<HTMLAnchorElement>("a[data-inside]");
  if (!link) return;
  event.preventDefault();
  go(link.pathname);
}
