// Conversations in the browser: one IndexedDB store of whole conversations; memory where there is none.
import type { Conversation } from "../conversation";

export interface Summary {
  id: string;
  title: string;
  updated: number;
}

const STORE = "conversations";

/** Where the browser has no database (some private windows), conversations last as long as the page. */
const fallback = new Map<string, Conversation>();

let opening: Promise<IDBDatabase | null> | undefined;

function open(): Promise<IDBDatabase | null> {
  opening ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open("akunu", 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
    } catch {
      resolve(null);
    }
  });
  return opening;
}

/** Whether conversations outlive the page. */
export async function isDurable(): Promise<boolean> {
  return (await open()) !== null;
}

async function run<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await open();
  if (!database) throw new Error("This browser does not store conversations.");
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, mode);
    const request = work(transaction.objectStore(STORE));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = transaction.onerror = () =>
      reject(new Error(`The browser could not store the conversation: ${transaction.error?.message ?? "unknown reason"}.`));
  });
}

export async function get(id: string): Promise<Conversation | undefined> {
  if (!(await open())) return fallback.get(id);
  return run<Conversation | undefined>("readonly", (store) => store.get(id));
}

export async function put(conversation: Conversation): Promise<void> {
  if (!(await open())) fallback.set(conversation.id, conversation);
  else await run("readwrite", (store) => store.put(conversation));
}

export async function remove(id: string): Promise<void> {
  if (!(await open())) fallback.delete(id);
  else await run("readwrite", (store) => store.delete(id));
}

export async function all(): Promise<Conversation[]> {
  if (!(await open())) return [...fallback.values()];
  return run<Conversation[]>("readonly", (store) => store.getAll());
}

/** Calls `visit` with each conversation, without holding them all. */
async function each(visit: (conversation: Conversation) => void): Promise<void> {
  const database = await open();
  if (!database) return fallback.forEach(visit);
  return new Promise((resolve, reject) => {
    const request = database.transaction(STORE).objectStore(STORE).openCursor();
    request.onerror = () => reject(new Error("The browser could not read the conversations."));
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) return resolve();
      visit(cursor.value as Conversation);
      cursor.continue();
    };
  });
}

/** Newest first. */
export async function summaries(): Promise<Summary[]> {
  const found: Summary[] = [];
  await each(({ id, title, updated }) => found.push({ id, title, updated }));
  return found.sort((a, b) => b.updated - a.updated);
}

/** The conversations whose title or messages contain every word. */
export async function search(words: string): Promise<Set<string>> {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Set<string>();
  await each((conversation) => {
    const text = [conversation.title, ...conversation.messages.map((m) => m.text)].join("\n").toLowerCase();
    if (wanted.every((word) => text.includes(word))) found.add(conversation.id);
  });
  return found;
}
