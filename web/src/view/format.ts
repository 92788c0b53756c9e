// Numbers as people read them.

const number = new Intl.NumberFormat("en");

export const integer = (value: number) => number.format(Math.round(value));

export function bytes(value: number): string {
  if (value < 1e6) return `${Math.max(1, Math.round(value / 1e3))} kB`;
  if (value < 1e9) return `${Math.round(value / 1e6)} MB`;
  return `${(value / 1e9).toFixed(1)} GB`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const speed = (perSecond: number) => `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} tokens/s`;

/** 8192 as 8k, as models are described. */
export const context = (tokens: number) => (tokens >= 1024 ? `${Math.round(tokens / 1024)}k` : `${tokens}`);

/** The heading under which a time is listed. */
export function age(time: number, now = Date.now()): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const days = Math.ceil((midnight - time) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "Last seven days";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}
