// What the reader prefers, kept in localStorage: the theme, the panes, and what a new conversation starts with.
import { Cell } from "../cell";
import { readSettings, type Settings } from "../settings";

export type Theme = "system" | "light" | "dark";

export interface Preferences {
  theme: Theme;
  sidebar: boolean;
  model: string;
  system: string;
  settings: Settings;
}

const KEY = "akunu.preferences";

function read(): Preferences {
  let kept: Partial<Record<keyof Preferences, unknown>> = {};
  try {
    kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") ?? {};
  } catch {
    // Unreadable preferences are none.
  }
  return {
    theme: kept.theme === "light" || kept.theme === "dark" ? kept.theme : "system",
    sidebar: kept.sidebar !== false,
    model: typeof kept.model === "string" ? kept.model : "",
    system: typeof kept.system === "string" ? kept.system : "",
    settings: readSettings(kept.settings),
  };
}

export const preferences = new Cell<Preferences>(read());

export function prefer(change: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences.value));
  } catch {
    // A full or forbidden store: the preference lasts as long as the page.
  }
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = preferences.value.theme;
}
