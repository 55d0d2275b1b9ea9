// Breadcrumbs of a path, and whether a file can be shown as text or as an image.

export interface Crumb {
  name: string;
  path: string;
}

/** The folders from `root` down to `path`; from `/` when `path` is outside `root`. */
export function crumbsOf(root: string, path: string): Crumb[] {
  const isBelow = path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`);
  const base = isBelow ? root : "/";
  const parts = path.slice(base.length).split("/").filter(Boolean);
  const crumbs = [{ name: isBelow ? "workspace" : "/", path: base }];
  let current = base.replace(/\/$/, "");
  for (const part of parts) {
    current += `/${part}`;
    crumbs.push({ name: part, path: current });
  }
  return crumbs;
}

const IMAGE_TYPES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  svg: "image/svg+xml",
};

/** MIME type of an image file. It is shown in an `img`, where an SVG cannot run scripts. */
export function imageType(path: string): string | null {
  return IMAGE_TYPES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? null;
}

export function isText(data: Uint8Array): boolean {
  if (data.subarray(0, 8000).includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(data);
    return true;
  } catch {
    return false;
  }
}
