// The conversation that is shown, the list beside it, and keeping both in the browser.
import { canChat, models } from "../api/models";
import { Cell } from "../cell";
import { newId, type Conversation } from "../conversation";
import * as database from "../store/database";
import type { Summary } from "../store/database";
import { exported, imported, ImportError, MAX_FILE } from "../store/transfer";
import { notify, report } from "./notice";
import { prefer, preferences } from "./preferences";

/** Newest first. */
export const list = new Cell<Summary[]>([]);

/** Those that were opened: an answer may be written into one that is not shown. */
const opened = new Map<string, Cell<Conversation>>();

/** Deleted here: an answer that still ends must not bring them back. */
const removed = new Set<string>();

export const current = new Cell<Cell<Conversation>>(new Cell(empty()));

/** What was typed and not sent, by conversation. */
const drafts = new Map<string, Cell<string>>();

export function draftOf(id: string): Cell<string> {
  let draft = drafts.get(id);
  if (!draft) drafts.set(id, (draft = new Cell("")));
  return draft;
}

/** Other tabs of this page. */
const channel = "BroadcastChannel" in window ? new BroadcastChannel("akunu") : undefined;

function empty(): Conversation {
  const { model, system, settings } = preferences.value;
  const now = Date.now();
  return { id: newId(), title: "", created: now, updated: now, model, system, settings, tools: "", messages: [], leaf: null };
}

export async function start(): Promise<void> {
  channel?.addEventListener("message", () => void refresh());
  window.addEventListener("hashchange", () => void follow());
  await refresh();
  await follow();
  if (!(await database.isDurable())) {
    notify("This browser does not store conversations: they last until the page is closed.");
  }
}

async function refresh(): Promise<void> {
  list.value = await database.summaries();
}

/** Opens what the address names. */
async function follow(): Promise<void> {
  const id = /^#([0-9a-f]{16})$/.exec(location.hash)?.[1];
  if (id === undefined) return begin();
  const found = opened.get(id) ?? (await load(id));
  if (found) current.value = found;
  else if (id !== current.value.value.id) begin();
}

async function load(id: string): Promise<Cell<Conversation> | undefined> {
  const conversation = await database.get(id);
  if (!conversation) return undefined;
  const cell = new Cell(conversation);
  opened.set(id, cell);
  return cell;
}

/** A new conversation; it enters the list with its first message. */
export function begin(): void {
  if (location.hash) history.pushState(null, "", location.pathname + location.search);
  if (opened.has(current.value.value.id)) current.value = new Cell(empty());
  chooseModel();
}

export function open(id: string): void {
  location.hash = id;
}

/** Gives the shown conversation a model that is there. */
export function chooseModel(): void {
  const cell = current.value;
  const chat = models.value.filter(canChat);
  if (chat.length === 0 || chat.some((m) => m.id === cell.value.model)) return;
  const preferred = chat.find((m) => m.id === preferences.value.model) ?? chat.find((m) => m.loaded) ?? chat[0];
  if (preferred) cell.value = { ...cell.value, model: preferred.id };
}

/** Changes how the shown conversation asks; the next new one starts the same. */
export function configure(change: Partial<Pick<Conversation, "model" | "system" | "settings" | "tools">>): void {
  const cell = current.value;
  cell.value = { ...cell.value, ...change };
  const { tools: _, ...preferred } = change;
  prefer(preferred);
  if (cell.value.messages.length > 0) save(cell).catch(report);
}

export async function save(cell: Cell<Conversation>): Promise<void> {
  const conversation = cell.value;
  const { id, title, updated } = conversation;
  if (removed.has(id)) return;
  if (!opened.has(id)) {
    opened.set(id, cell);
    if (current.value === cell) history.replaceState(null, "", `#${id}`);
  }
  await database.put(conversation);
  list.value = [{ id, title, updated }, ...list.value.filter((s) => s.id !== id)].sort((a, b) => b.updated - a.updated);
  channel?.postMessage("changed");
}

export async function rename(id: string, title: string): Promise<void> {
  const cell = opened.get(id) ?? (await load(id));
  if (!cell || !title.trim()) return;
  cell.value = { ...cell.value, title: title.trim().slice(0, 200) };
  await save(cell);
}

export async function remove(id: string): Promise<void> {
  const conversation = opened.get(id)?.value ?? (await database.get(id));
  if (!conversation) return;
  removed.add(id);
  await database.remove(id);
  if (current.value.value.id === id) begin();
  opened.delete(id);
  await refresh();
  channel?.postMessage("changed");
  const undo = async () => {
    removed.delete(id);
    await save(new Cell(conversation));
    open(id);
  };
  notify(`“${conversation.title}” is deleted.`, { label: "Undo", run: () => void undo().catch(report) });
}

/** Downloads one conversation, or all. */
export async function exportFile(id?: string): Promise<void> {
  const one = id === undefined ? undefined : (opened.get(id)?.value ?? (await database.get(id)));
  const conversations = one ? [one] : await database.all();
  const url = URL.createObjectURL(new Blob([exported(conversations)], { type: "application/json" }));
  const day = new Date().toISOString().slice(0, 10);
  const name = one ? one.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40) : "conversations";
  Object.assign(document.createElement("a"), { href: url, download: `akunu-${name}-${day}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Adds a file's conversations; those that are here already and are not older stay as they are. */
export async function importFile(file: File): Promise<void> {
  if (file.size > MAX_FILE) throw new ImportError(`${file.name} is larger than ${MAX_FILE >> 20} MiB.`);
  const conversations = imported(await file.text());
  let added = 0;
  for (const conversation of conversations) {
    const here = await database.get(conversation.id);
    if (here && here.updated >= conversation.updated) continue;
    const copy = here ? { ...conversation, id: newId() } : conversation;
    await database.put(copy);
    removed.delete(copy.id);
    added += 1;
  }
  await refresh();
  channel?.postMessage("changed");
  const here = conversations.length - added;
  notify(`${added} ${added === 1 ? "conversation" : "conversations"} imported${here ? `, ${here} already here` : ""}.`);
}
