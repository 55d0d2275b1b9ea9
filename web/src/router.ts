// Where in the page one is: the path of its address.
import { signal } from "@preact/signals";

export const path = signal(location.pathname);

addEventListener("popstate", () => (path.value = location.pathname));

export function go(where: string): void {
  if (where !== location.pathname) history.pushState(null, "", where);
  path.value = where;
  document.querySelector("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Links within the page change its path; with a modifier they are the browser's own. */
export function onLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest<HTMLAnchorElement>("a[data-inside]");
  if (!link) return;
  event.preventDefault();
  go(link.pathname);
}
