// What is open beside the conversation.
import { Cell } from "../cell";
import { prefer, preferences } from "./preferences";

export const settingsOpen = new Cell(false);
export const shortcutsOpen = new Cell(false);

/** On a phone the sidebar is a drawer, closed at first. */
export const drawerOpen = new Cell(false);

/** Raised to bring the focus to the message box. */
export const focusComposer = new Cell(0);

export const isNarrow = () => matchMedia("(max-width: 820px)").matches;

export function toggleSidebar(): void {
  if (isNarrow()) drawerOpen.value = !drawerOpen.value;
  else prefer({ sidebar: !preferences.value.sidebar });
}
