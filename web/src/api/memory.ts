// GET /metrics: how much memory the server uses, and for what. Absent where it does not say.
import { request } from "./http";

export interface Memory {
  /** Label and bytes, largest first. */
  parts: [string, number][];
  total: number;
  budget?: number;
}

export async function memory(): Promise<Memory | undefined> {
  try {
    return readMemory(await (await request("metrics")).text());
  } catch {
    return undefined;
  }
}

/** Reads `akunu_memory_bytes{any="label"} bytes` and `akunu_memory_budget_bytes bytes` of a Prometheus text. */
export function readMemory(text: string): Memory | undefined {
  const parts = new Map<string, number>();
  let budget: number | undefined;
  for (const line of text.split("\n")) {
    const found = /^(akunu_memory_bytes|akunu_memory_budget_bytes)(?:\{([^}]*)\})?\s+([0-9.eE+]+)/.exec(line);
    const bytes = Number(found?.[3]);
    if (!found || !Number.isFinite(bytes)) continue;
    if (found[1] === "akunu_memory_budget_bytes") {
      budget = bytes;
      continue;
    }
    const label = /="([^"]*)"/.exec(found[2] ?? "")?.[1] ?? "memory";
    parts.set(label, (parts.get(label) ?? 0) + bytes);
  }
  if (parts.size === 0) return undefined;
  const sorted = [...parts].sort((a, b) => b[1] - a[1]);
  return { parts: sorted, total: sorted.reduce((sum, part) => sum + part[1], 0), ...(budget ? { budget } : {}) };
}
