// Export and import. An imported file is untrusted: every field is checked, ids are made anew, what is unknown is dropped.
import { newId, type Conversation, type Message, type Role, type Stats, type ToolCall } from "../conversation";
import { readSettings } from "../settings";

const FORMAT = "akunu-conversations";
const VERSION = 1;

export const MAX_FILE = 128 << 20;
const MAX_CONVERSATIONS = 20_000;
const MAX_MESSAGES = 20_000;
const MAX_TEXT = 8 << 20;
const MAX_CALLS = 1_000;

export class ImportError extends Error {}

export function exported(conversations: Conversation[]): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 1) + "\n";
}

type Fields = Record<string, unknown>;

/** The conversations of a file, or the first thing wrong with it. */
export function imported(text: string): Conversation[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    throw new ImportError("The file is not JSON.");
  }
  const { format, version, conversations } = fields(file, "the file");
  if (format !== FORMAT) throw new ImportError("The file is not an export of this page.");
  if (version !== VERSION) throw new ImportError(`The file has version ${String(version)}; this page reads version ${VERSION}.`);
  return list(conversations, "conversations", MAX_CONVERSATIONS).map((value, i) => readConversation(value, `conversations[${i}]`));
}

function readConversation(value: unknown, at: string): Conversation {
  const from = fields(value, at);
  const ids = new Map<string, string>();
  const messages = list(from.messages, `${at}.messages`, MAX_MESSAGES).map((message, i) =>
    readMessage(message, `${at}.messages[${i}]`, ids),
  );
  const leaf = from.leaf === null ? null : ids.get(string(from.leaf, `${at}.leaf`));
  if (leaf === undefined || (leaf === null && messages.length > 0)) throw new ImportError(`${at}.leaf names no message.`);
  // Ours are kept, so that a file that is imported twice is known.
  const id = string(from.id, `${at}.id`);
  return {
    id: /^[0-9a-f]{16}$/.test(id) ? id : newId(),
    title: string(from.title, `${at}.title`).slice(0, 200) || "Untitled",
    created: time(from.created, `${at}.created`),
    updated: time(from.updated, `${at}.updated`),
    model: string(from.model, `${at}.model`),
    system: string(from.system, `${at}.system`),
    settings: readSettings(from.settings),
    tools: string(from.tools, `${at}.tools`),
    messages,
    leaf,
  };
}

/** `ids` maps the file's ids of the messages before to ours: so a parent is always there, and no path is a ring. */
function readMessage(value: unknown, at: string, ids: Map<string, string>): Message {
  const from = fields(value, at);
  const theirs = string(from.id, `${at}.id`);
  if (ids.has(theirs)) throw new ImportError(`${at}.id is another message's too.`);
  const parent = from.parent === null ? null : ids.get(string(from.parent, `${at}.parent`));
  if (parent === undefined) throw new ImportError(`${at}.parent names no message before it.`);
  if (from.role !== "user" && from.role !== "assistant" && from.role !== "tool") {
    throw new ImportError(`${at}.role is not user, assistant or tool.`);
  }
  const id = newId();
  ids.set(theirs, id);
  const role: Role = from.role;
  const message: Message = { id, parent, role, text: string(from.text, `${at}.text`), created: time(from.created, `${at}.created`) };
  if (from.thinkingMs !== undefined) message.thinkingMs = count(from.thinkingMs, `${at}.thinkingMs`);
  for (const key of ["model", "thinking", "callId", "finish", "error"] as const) {
    if (from[key] !== undefined) message[key] = string(from[key], `${at}.${key}`);
  }
  if (from.calls !== undefined) {
    message.calls = list(from.calls, `${at}.calls`, MAX_CALLS).map((call, i) => readCall(call, `${at}.calls[${i}]`));
  }
  if (from.stats !== undefined) message.stats = readStats(from.stats, `${at}.stats`);
  return message;
}

function readCall(value: unknown, at: string): ToolCall {
  const from = fields(value, at);
  return {
    id: string(from.id, `${at}.id`),
    name: string(from.name, `${at}.name`),
    arguments: string(from.arguments, `${at}.arguments`),
    ...(from.custom === true ? { custom: true } : {}),
  };
}

function readStats(value: unknown, at: string): Stats {
  const from = fields(value, at);
  const read = (key: Exclude<keyof Stats, "miss">) => count(from[key], `${at}.${key}`);
  return {
    prompt: read("prompt"),
    cached: read("cached"),
    completion: read("completion"),
    promptMs: read("promptMs"),
    predictedMs: read("predictedMs"),
    perSecond: read("perSecond"),
    firstMs: read("firstMs"),
    ...(from.miss === undefined ? {} : { miss: string(from.miss, `${at}.miss`) }),
  };
}

function fields(value: unknown, at: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ImportError(`${at} is not an object.`);
  return value as Fields;
}

function list(value: unknown, at: string, most: number): unknown[] {
  if (!Array.isArray(value)) throw new ImportError(`${at} is not a list.`);
  if (value.length > most) throw new ImportError(`${at} has ${value.length} entries; ${most} are the most.`);
  return value;
}

function string(value: unknown, at: string): string {
  if (typeof value !== "string") throw new ImportError(`${at} is not a text.`);
  if (value.length > MAX_TEXT) throw new ImportError(`${at} is longer than ${MAX_TEXT} characters.`);
  return value;
}

function count(value: unknown, at: string): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) throw new ImportError(`${at} is not a count.`);
  return value;
}

/** A time in milliseconds that a `Date` can hold. */
function time(value: unknown, at: string): number {
  const ms = count(value, at);
  if (ms > 8.64e15) throw new ImportError(`${at} is not a time.`);
  return ms;
}
