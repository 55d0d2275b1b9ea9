// SVG icons, 16 units wide, drawn in the current text colour.
const PATHS = {
  people: "M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c0-2.5 2-4 5-4s5 1.5 5 4",
  sessions: "M2.5 3.5h11v9h-11zM2.5 6h11M5 9l1.5 1.2L5 11.4M8 11.5h3",
  windows: "M2 3h12v10H2zM2 5.8h12M6.5 5.8V13",
  approvals:
    "M8 1.8 13.5 4v3.6c0 3.2-2.3 5.5-5.5 6.6-3.2-1.1-5.5-3.4-5.5-6.6V4zM5.6 8l1.7 1.7 3.2-3.4",
  status: "M1.8 8.5h2.7L6.3 4l3.1 8.2 1.8-3.7h3",
  plus: "M8 3v10M3 8h10",
  play: "M5 3.2v9.6l7.5-4.8z",
  skip: "M4 3.4v9.2l6.2-4.6zM12 3.4v9.2",
  side: "M2 3h12v10H2zM9.5 3v10",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4 4h8v8H4z",
  trash: "M3 4.5h10M6.3 4.3V2.8h3.4v1.5M4.3 4.5l.6 8.7h6.2l.6-8.7M6.8 7v3.7M9.2 7v3.7",
  open: "M9.5 2.8h3.7v3.7M13 3 7.5 8.5M11.5 9.5v3.7H2.8V4.5h3.7",
  chevron: "M6 3.8 10.2 8 6 12.2",
  back: "M10 3.8 5.8 8l4.2 4.2",
  folder: "M1.8 4h4.4l1.4 1.7h6.6v7.1H1.8z",
  file: "M4 1.8h5.2L12.2 5v9.2H4zM9 2v3.2h3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.4 10.4l3.3 3.3",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M12.6 3.4l-1.1 1.1M4.5 11.5l-1.1 1.1",
  moon: "M13.2 9.6A5.7 5.7 0 0 1 6.4 2.8a5.7 5.7 0 1 0 6.8 6.8z",
  auto: "M8 2.2a5.8 5.8 0 1 1 0 11.6zM8 2.2a5.8 5.8 0 1 0 0 11.6",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  download: "M8 2.5v7.2M4.9 6.8 8 9.9l3.1-3.1M3 13h10",
  leave: "M6.2 2.8H3v10.4h3.2M9.6 5l3 3-3 3M12.4 8H6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
