// One sentence at a time at the foot of the page, with one thing to do about it.
import { Cell } from "../cell";

export interface Notice {
  text: string;
  action?: { label: string; run: () => void };
}

export const notice = new Cell<Notice | null>(null);

const SHOWN_MS = 7000;
let timer = 0;

export function notify(text: string, action?: Notice["action"]): void {
  notice.value = action ? { text, action } : { text };
  clearTimeout(timer);
  timer = setTimeout(() => (notice.value = null), SHOWN_MS);
}

export function dismiss(): void {
  notice.value = null;
}

/** For promises nobody waits for: their error is shown. */
export function report(error: unknown): void {
  notify(error instanceof Error ? error.message : String(error));
}
