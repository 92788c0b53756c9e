// Icons: strokes on a grid of 20.

const PATHS = {
  plus: "M10 4v12M4 10h12",
  menu: "M3.5 6h13M3.5 10h13M3.5 14h8",
  panel: "M3.5 5.5a1.5 1.5 0 0 1 1.5-1.5h10a1.5 1.5 0 0 1 1.5 1.5v9a1.5 1.5 0 0 1-1.5 1.5H5a1.5 1.5 0 0 1-1.5-1.5zM8 4v12",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l3.5 3.5",
  sliders: "M3.5 6.5h7M14.5 6.5h2M3.5 13.5h2M9.5 13.5h7M12.5 8.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM7.5 15.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  copy: "M7.5 7.5V5A1.5 1.5 0 0 1 9 3.5h6A1.5 1.5 0 0 1 16.5 5v6a1.5 1.5 0 0 1-1.5 1.5h-2.5M5 7.5h6A1.5 1.5 0 0 1 12.5 9v6a1.5 1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.5 15V9A1.5 1.5 0 0 1 5 7.5z",
  check: "M4 10.5l4 4 8-9",
  again: "M15.8 8.2A6.2 6.2 0 0 0 4.6 7M4.2 11.8A6.2 6.2 0 0 0 15.4 13M4 3.5V7h3.5M16 16.5V13h-3.5",
  pencil: "M12.5 4.5l3 3L7 16H4v-3zM10.8 6.2l3 3",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
  down: "M5 8l5 5 5-5",
  send: "M10 16V4.5M5 9.3l5-5 5 5",
  arrowDown: "M10 4v11.5M5 10.7l5 5 5-5",
  clip: "M16 9.2l-6.4 6.3a4 4 0 0 1-5.7-5.7L10.6 3.2a2.7 2.7 0 0 1 3.8 3.8L7.8 13.6a1.3 1.3 0 0 1-1.9-1.9L12 5.7",
  wave: "M3.5 8.5v3M6.7 6v8M10 3.5v13M13.3 6.5v7M16.5 8.5v3",
  close: "M5 5l10 10M15 5L5 15",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  trash: "M4 5.5h12M8 5.5V4h4v1.5M5.5 5.5l.7 10.5h7.6l.7-10.5M8.5 8.5v4.5M11.5 8.5v4.5",
  download: "M10 3.5v9M6 9l4 4 4-4M4 16.5h12",
  upload: "M10 13V4M6 7.5l4-4 4 4M4 16.5h12",
  sun: "M10 13.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM10 2.5V4M10 16v1.5M2.5 10H4M16 10h1.5M4.7 4.7l1 1M14.3 14.3l1 1M4.7 15.3l1-1M14.3 5.7l1-1",
  moon: "M16 11.8A6.5 6.5 0 0 1 8.2 4 6.5 6.5 0 1 0 16 11.8z",
  system: "M5 4h10a1.5 1.5 0 0 1 1.5 1.5v6.5a1.5 1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.5 12V5.5A1.5 1.5 0 0 1 5 4zM7 16.5h6M10 13.5v3",
  keyboard: "M4 5.5h12A1.5 1.5 0 0 1 17.5 7v6a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 0 0 1 2.5 13V7A1.5 1.5 0 0 1 4 5.5zM5.5 8.5h.01M8.5 8.5h.01M11.5 8.5h.01M14.5 8.5h.01M7 11.5h6",
  tool: "M11.2 8.8l-6 6a1.4 1.4 0 0 1-2-2l6-6M9 7a3.6 3.6 0 0 1 4.8-4.4l-2 2.1.5 2 2 .5 2.1-2A3.6 3.6 0 0 1 11 9.9",
  warning: "M10 3.5l7 12.5H3zM10 8.5v3.5M10 14h.01",
  answer: "M4 4v5a3 3 0 0 0 3 3h9M12.5 8.5L16 12l-3.5 3.5",
} as const;

export type IconName = keyof typeof PATHS | "stop";

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 20 20" aria-hidden="true">
      {name === "stop" ? <rect x="5.5" y="5.5" width="9" height="9" rx="1.5" class="solid" /> : <path d={PATHS[name]} />}
    </svg>
  );
}
