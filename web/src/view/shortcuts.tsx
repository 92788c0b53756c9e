// The keyboard: one table of keys, which is also what the dialog lists.
import { path } from "../conversation";
import { running, stop } from "../state/answering";
import { begin, current } from "../state/conversations";
import { drawerOpen, focusComposer, isNarrow, settingsOpen, shortcutsOpen, toggleSidebar } from "../state/panes";
import { preferences } from "../state/preferences";
import { Dialog } from "./dialog";
import { editing } from "./question";

interface Shortcut {
  keys: string[];
  does: string;
  /** Absent where the message box itself listens. */
  on?: (event: KeyboardEvent) => boolean;
  run?: () => void;
}

const command = (event: KeyboardEvent) => event.ctrlKey || event.metaKey;
const bare = (event: KeyboardEvent) => !command(event) && !event.altKey && !isTyping(event);

function isTyping({ target }: KeyboardEvent): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

const SHORTCUTS: Shortcut[] = [
  { keys: ["Enter"], does: "Send" },
  { keys: ["Shift", "Enter"], does: "New line" },
  { keys: ["↑"], does: "Edit the last question, from an empty message box" },
  { keys: ["Esc"], does: "Stop the answer; close what is open", on: (e) => e.key === "Escape" && !isModal(), run: escape },
  { keys: ["/"], does: "Go to the message box", on: (e) => e.key === "/" && bare(e), run: () => (focusComposer.value += 1) },
  { keys: ["Ctrl", "Shift", "O"], does: "New conversation", on: (e) => command(e) && e.shiftKey && e.code === "KeyO", run: newConversation },
  { keys: ["Ctrl", "K"], does: "Search conversations", on: (e) => command(e) && e.code === "KeyK", run: search },
  { keys: ["Ctrl", "B"], does: "Show or hide the list", on: (e) => command(e) && e.code === "KeyB", run: toggleSidebar },
  { keys: ["Ctrl", ","], does: "Show or hide the settings", on: (e) => command(e) && e.key === ",", run: () => (settingsOpen.value = !settingsOpen.value) },
  { keys: ["?"], does: "This list", on: (e) => e.key === "?" && bare(e), run: () => (shortcutsOpen.value = true) },
];

/** A dialog or a menu that is open takes Escape itself. */
const isModal = () => document.querySelector("dialog[open], :popover-open") !== null;

function escape(): void {
  if (drawerOpen.value) drawerOpen.value = false;
  else if (running.value.has(current.value.value.id)) stop();
  else settingsOpen.value = false;
}

function newConversation(): void {
  begin();
  focusComposer.value += 1;
}

function search(): void {
  if (isNarrow()) drawerOpen.value = true;
  else if (!preferences.value.sidebar) toggleSidebar();
  requestAnimationFrame(() => document.querySelector<HTMLInputElement>("#search")?.focus());
}

/** Opens the last question of the shown branch for editing. */
export function editLast(): boolean {
  const last = path(current.value.value).findLast((m) => m.role === "user");
  if (last) editing.value = last.id;
  return last !== undefined;
}

export function listenForShortcuts(): () => void {
  const pressed = (event: KeyboardEvent) => {
    const found = SHORTCUTS.find((shortcut) => shortcut.on?.(event));
    if (!found) return;
    event.preventDefault();
    found.run?.();
  };
  window.addEventListener("keydown", pressed);
  return () => window.removeEventListener("keydown", pressed);
}

const isApple = /Mac|iPhone|iPad/.test(navigator.platform);

export function ShortcutsDialog() {
  return (
    <Dialog title="Keyboard" onClose={() => (shortcutsOpen.value = false)}>
      <dl class="shortcuts">
        {SHORTCUTS.map(({ keys, does }) => (
          <div>
            <dt>{does}</dt>
            <dd>
              {keys.map((key) => (
                <kbd>{isApple && key === "Ctrl" ? "⌘" : key}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
