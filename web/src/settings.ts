// What can be asked of sampling: one row a parameter. What is not set is not sent: the server's default holds.

export type Settings = Partial<Record<SettingKey, number | string>>;

export type SettingKey =
  | "temperature"
  | "top_p"
  | "top_k"
  | "min_p"
  | "max_tokens"
  | "seed"
  | "frequency_penalty"
  | "presence_penalty"
  | "reasoning_effort"
  | "stop";

interface Row {
  key: SettingKey;
  label: string;
  hint: string;
  /** Shown at once; the others are folded. */
  usual?: boolean;
}

export type SettingRow = Row &
  (
    | { kind: "slider"; min: number; max: number; step: number; start: number }
    | { kind: "integer"; min: number; max: number }
    | { kind: "choice"; options: string[] }
    | { kind: "text" }
  );

export const SETTINGS: SettingRow[] = [
  { key: "temperature", label: "Temperature", hint: "0 takes the likeliest token every time", kind: "slider", min: 0, max: 2, step: 0.05, start: 0.8, usual: true },
  { key: "top_p", label: "Top p", hint: "the likeliest tokens that sum to this", kind: "slider", min: 0.01, max: 1, step: 0.01, start: 0.95, usual: true },
  { key: "max_tokens", label: "Longest answer", hint: "in tokens, thinking included", kind: "integer", min: 1, max: 10_000_000, usual: true },
  { key: "seed", label: "Seed", hint: "the same seed, the same answer", kind: "integer", min: 0, max: Number.MAX_SAFE_INTEGER, usual: true },
  { key: "reasoning_effort", label: "Thinking", hint: "for models that think", kind: "choice", options: ["none", "low", "medium", "high"], usual: true },
  { key: "top_k", label: "Top k", hint: "so many of the likeliest tokens", kind: "integer", min: 0, max: 1_000_000 },
  { key: "min_p", label: "Min p", hint: "a share of the likeliest token's probability", kind: "slider", min: 0, max: 1, step: 0.01, start: 0.05 },
  { key: "frequency_penalty", label: "Frequency penalty", hint: "against what was said often", kind: "slider", min: -2, max: 2, step: 0.05, start: 0 },
  { key: "presence_penalty", label: "Presence penalty", hint: "against what was said at all", kind: "slider", min: -2, max: 2, step: 0.05, start: 0 },
  { key: "stop", label: "Stop at", hint: "a text that ends the answer", kind: "text" },
];

/** The value if it is one that the row allows. */
export function allowed(row: SettingRow, value: unknown): number | string | undefined {
  switch (row.kind) {
    case "slider":
      return typeof value === "number" && value >= row.min && value <= row.max ? value : undefined;
    case "integer":
      return Number.isSafeInteger(value) && (value as number) >= row.min && (value as number) <= row.max ? (value as number) : undefined;
    case "choice":
      return typeof value === "string" && row.options.includes(value) ? value : undefined;
    case "text":
      return typeof value === "string" && value.length > 0 && value.length <= 1000 ? value : undefined;
  }
}

/** The settings among `values`; anything else is dropped. */
export function readSettings(values: unknown): Settings {
  const settings: Settings = {};
  if (typeof values !== "object" || values === null) return settings;
  for (const row of SETTINGS) {
    const value = Object.hasOwn(values, row.key) ? allowed(row, (values as Record<string, unknown>)[row.key]) : undefined;
    if (value !== undefined) settings[row.key] = value;
  }
  return settings;
}
