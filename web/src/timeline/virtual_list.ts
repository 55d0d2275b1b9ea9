// Computes the visible rows of a long list. Rows have one height, except the few that are expanded.

export interface ListShape {
  count: number;
  height: number;
  /** Extra height in pixels, by row. */
  extraHeights: ReadonlyMap<number, number>;
}

export interface VisibleRows {
  first: number;
  /** One past the last row. */
  end: number;
  /** Offset of the first row in pixels. */
  top: number;
}

export function topOf(shape: ListShape, index: number): number {
  let top = index * shape.height;
  for (const [open, extra] of shape.extraHeights) if (open < index) top += extra;
  return top;
}

export function totalOf(shape: ListShape): number {
  return topOf(shape, shape.count);
}

/** The rows between `top` and `top + view`, and `margin` more on either side. */
export function visibleRows(shape: ListShape, top: number, view: number, margin = 10): VisibleRows {
  const first = Math.max(0, rowAt(shape, top) - margin);
  const end = Math.min(shape.count, rowAt(shape, top + view) + 1 + margin);
  return { first, end, top: topOf(shape, first) };
}

function rowAt(shape: ListShape, y: number): number {
  let low = 0;
  let high = Math.max(0, shape.count - 1);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (topOf(shape, middle) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}
