// A conversation is a tree of messages. A branch is a message with siblings; the leaf says which path is shown.
import type { Settings } from "./settings";

export type Role = "user" | "assistant" | "tool";

export interface ToolCall {
  id: string;
  name: string;
  /** As the model wrote them: JSON, or a custom tool's free text. */
  arguments: string;
  custom?: boolean;
}

export interface Stats {
  prompt: number;
  cached: number;
  completion: number;
  promptMs: number;
  predictedMs: number;
  perSecond: number;
  /** From sending to the first token, as this browser saw it. */
  firstMs: number;
  /** Where and why the prompt left what the cache had of it. */
  miss?: string;
}

export interface Message {
  id: string;
  parent: string | null;
  role: Role;
  text: string;
  created: number;
  model?: string;
  thinking?: string;
  thinkingMs?: number;
  calls?: ToolCall[];
  /** Of a tool's result: the call it answers. */
  callId?: string;
  /** The server's reason, or `stopped` by the reader, or `error`; absent while the answer is written. */
  finish?: string;
  error?: string;
  stats?: Stats;
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  model: string;
  system: string;
  settings: Settings;
  /** JSON: an array of OpenAI's tool definitions; empty: none. */
  tools: string;
  /** Parents come before their children. */
  messages: Message[];
  leaf: string | null;
}

/** 16 hexadecimal digits. `crypto.randomUUID` is absent where the page is not served over TLS or from this machine. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** The messages from the first to `leaf`, or to the one that is shown. */
export function path(conversation: Conversation, leaf = conversation.leaf): Message[] {
  const byId = new Map(conversation.messages.map((m) => [m.id, m]));
  const found: Message[] = [];
  for (let at = leaf === null ? undefined : byId.get(leaf); at; at = at.parent === null ? undefined : byId.get(at.parent)) {
    found.push(at);
  }
  return found.reverse();
}

/** The alternatives at a message's place, itself among them, oldest first. */
export function siblings(conversation: Conversation, message: Message): Message[] {
  return conversation.messages.filter((m) => m.parent === message.parent && m.role === message.role);
}

/** Shows the branch of `id`, down its newest messages. */
export function show(conversation: Conversation, id: string): Conversation {
  let leaf = id;
  for (;;) {
    const next = conversation.messages.findLast((m) => m.parent === leaf);
    if (!next) return { ...conversation, leaf };
    leaf = next.id;
  }
}

export function add(conversation: Conversation, message: Message): Conversation {
  return { ...conversation, messages: [...conversation.messages, message], leaf: message.id, updated: Date.now() };
}

export function replace(conversation: Conversation, message: Message): Conversation {
  return { ...conversation, messages: conversation.messages.map((m) => (m.id === message.id ? message : m)) };
}

/** Without a message and all that follows it. In its place another branch is shown, or what it answered. */
export function without(conversation: Conversation, message: Message): Conversation {
  const gone = new Set([message.id]);
  for (const { id, parent } of conversation.messages) if (parent !== null && gone.has(parent)) gone.add(id);
  const rest = { ...conversation, messages: conversation.messages.filter((m) => !gone.has(m.id)), leaf: message.parent };
  const branch = siblings(rest, message).at(-1);
  return branch ? show(rest, branch.id) : rest;
}

const TITLE_LENGTH = 60;

/** The first line of what was asked, cut at a word. */
export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  const plain = line.replace(/[`*_#>]+/g, "").trim();
  if (plain.length <= TITLE_LENGTH) return plain || "Untitled";
  return plain.slice(0, TITLE_LENGTH).replace(/\s+\S*$/, "") + "…";
}
