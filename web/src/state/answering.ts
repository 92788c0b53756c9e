// Asking: a message is added, the answer streams into its conversation, whichever one is shown.
import { addCalls, complete, requestBody, type Chunk } from "../api/chat";
import { ApiError } from "../api/http";
import { models, refreshModels } from "../api/models";
import { Cell } from "../cell";
import { add, newId, path, replace, show, titleOf, without, type Conversation, type Message } from "../conversation";
import { current, remove, save } from "./conversations";
import { notify, report } from "./notice";

export interface Run {
  message: string;
  abort: AbortController;
}

/** By conversation: what is being answered. */
export const running = new Cell<ReadonlyMap<string, Run>>(new Map());

/** What a screen reader is told. */
export const spoken = new Cell("");

/** Faster than this nobody reads; and drawing takes at most a quarter of the time. */
const DRAW_MS = 40;
const DRAW_SHARE = 4;
/** A page that is closed loses no more of an answer. */
const SAVE_MS = 1000;

function setRun(id: string, run: Run | undefined): void {
  const runs = new Map(running.value);
  if (run) runs.set(id, run);
  else runs.delete(id);
  running.value = runs;
}

export function stop(id = current.value.value.id): void {
  running.value.get(id)?.abort.abort();
}

/** Sends a question under `parent`: the shown branch's end, or elsewhere for a new branch. */
export function ask(text: string, parent: string | null): void {
  const cell = current.value;
  if (running.value.has(cell.value.id)) return;
  const message: Message = { id: newId(), parent, role: "user", text, created: Date.now() };
  cell.value = add({ ...cell.value, title: cell.value.title || titleOf(text) }, message);
  void answer(cell, message.id);
}

/** Answers the same question again, as a branch. */
export function regenerate(message: Message): void {
  if (message.parent !== null) void answer(current.value, message.parent);
}

/** Goes on with an answer that ended too early. */
export function continueAnswer(message: Message): void {
  if (message.parent !== null) void answer(current.value, message.parent, message);
}

/** Deletes a message and what follows it. */
export function removeMessage(message: Message): void {
  const cell = current.value;
  const before = cell.value;
  const after = without(before, message);
  if (after.messages.length === 0) return void remove(before.id).catch(report);
  const change = (to: Conversation) => {
    cell.value = { ...cell.value, messages: to.messages, leaf: to.leaf };
    save(cell).catch(report);
  };
  change(after);
  const count = before.messages.length - after.messages.length;
  // What is asked meanwhile hangs on messages that the undoing would take away.
  const undo = () => (cell.value.messages === after.messages ? change(before) : notify("This cannot be undone: the conversation went on."));
  notify(count === 1 ? "The message is deleted." : `${count} messages are deleted.`, { label: "Undo", run: undo });
}

/** Results of an answer's calls, in their order; the model goes on from them. */
export function giveResults(message: Message, results: string[]): void {
  const cell = current.value;
  let parent = message.id;
  for (const [i, call] of (message.calls ?? []).entries()) {
    const result: Message = { id: newId(), parent, role: "tool", text: results[i] ?? "", callId: call.id, created: Date.now() };
    cell.value = add(cell.value, result);
    parent = result.id;
  }
  void answer(cell, parent);
}

export function showBranch(id: string): void {
  const cell = current.value;
  cell.value = show(cell.value, id);
  save(cell).catch(report);
}

/** Answers the shown branch's end. */
export function answerEnd(): void {
  const end = path(current.value.value).at(-1);
  if (end && end.role !== "assistant") void answer(current.value, end.id);
}

/** `begun`: an answer to go on with, by the model that began it. */
async function answer(cell: Cell<Conversation>, parent: string, begun?: Message): Promise<void> {
  const { id } = cell.value;
  if (running.value.has(id)) return;
  const model = begun?.model ?? cell.value.model;
  let message: Message = begun ? unfinished(begun) : { id: newId(), parent, role: "assistant", text: "", created: Date.now(), model };
  const abort = new AbortController();
  const asked = performance.now();
  const wasLoaded = models.value.find((m) => m.id === model)?.loaded !== false;
  let first = 0;
  let drawn = 0;
  let cost = 0;
  let saved = asked;

  cell.value = begun ? replace(cell.value, message) : add(cell.value, message);
  setRun(id, { message: message.id, abort });
  spoken.value = "Answering";
  const draw = () => {
    drawn = performance.now();
    cell.value = replace(cell.value, message);
    // Views are drawn before the next task.
    setTimeout(() => (cost = performance.now() - drawn));
  };
  try {
    await save(cell).catch(report);
    for await (const chunk of complete(requestBody({ ...cell.value, model }, begun?.id ?? parent), abort.signal)) {
      message = withChunk(message, chunk, first);
      if (!first && hasOutput(chunk)) first = performance.now();
      if (performance.now() - drawn >= Math.max(DRAW_MS, cost * DRAW_SHARE)) draw();
      if (performance.now() - saved >= SAVE_MS) {
        saved = performance.now();
        draw();
        await save(cell).catch(report);
      }
    }
    message = { ...message, finish: message.finish ?? "stop" };
  } catch (error) {
    if (abort.signal.aborted) message = { ...message, finish: "stopped" };
    else message = { ...message, finish: "error", error: sentence(error) };
  }
  message = measured(message, asked, first, begun);
  draw();
  setRun(id, undefined);
  spoken.value = message.error ?? (message.finish === "stopped" ? "Stopped" : "Answer finished");
  cell.value = { ...cell.value, updated: Date.now() };
  await save(cell).catch(report);
  if (!wasLoaded) void refreshModels();
}

function sentence(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof SyntaxError) return "The server sent something that is not JSON.";
  if (error instanceof TypeError) return "The connection to the server broke off.";
  return error instanceof Error ? error.message : String(error);
}

function hasOutput({ choices }: Chunk): boolean {
  const { content, reasoning_content, tool_calls } = choices?.[0]?.delta ?? {};
  return Boolean(content || reasoning_content || tool_calls?.length);
}

function unfinished({ finish: _finish, error: _error, stats: _stats, ...message }: Message): Message {
  return message;
}

function withChunk(message: Message, chunk: Chunk, first: number): Message {
  const next = { ...message };
  const choice = chunk.choices?.[0];
  const { content, reasoning_content, tool_calls } = choice?.delta ?? {};
  if (reasoning_content) next.thinking = (next.thinking ?? "") + reasoning_content;
  if (next.thinking && !next.text && !next.calls) next.thinkingMs = performance.now() - (first || performance.now());
  if (content) next.text += content;
  if (tool_calls?.length) next.calls = addCalls(next.calls ?? [], tool_calls);
  if (choice?.finish_reason) next.finish = choice.finish_reason;
  const { usage, timings } = chunk;
  const { why, message: missed } = timings?.cache_miss ?? {};
  if (usage || timings) {
    next.stats = {
      prompt: usage?.prompt_tokens ?? next.stats?.prompt ?? 0,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? next.stats?.cached ?? 0,
      completion: usage?.completion_tokens ?? next.stats?.completion ?? 0,
      promptMs: timings?.prompt_ms ?? next.stats?.promptMs ?? 0,
      predictedMs: timings?.predicted_ms ?? (first ? performance.now() - first : 0),
      perSecond: timings?.predicted_per_second ?? next.stats?.perSecond ?? 0,
      firstMs: 0,
      ...(why ? { miss: typeof missed === "number" ? `${why}, in message ${missed + 1}` : why } : {}),
    };
  }
  return next;
}

/**
 * Fills in what only this browser knows, and the speed where the server does not say it: of a stopped answer it says no more than
 * the tokens. Those of an answer that was gone on with, and their time, are those of its parts, where all are known.
 */
function measured({ stats, ...message }: Message, asked: number, first: number, begun: Message | undefined): Message {
  if (!stats || (begun && !begun.stats)) return message;
  const completion = stats.completion + (begun?.stats?.completion ?? 0);
  const predictedMs = stats.predictedMs + (begun?.stats?.predictedMs ?? 0);
  const whole = predictedMs > 0 ? (completion * 1000) / predictedMs : 0;
  const perSecond = begun ? whole : stats.perSecond || whole;
  return { ...message, stats: { ...stats, completion, predictedMs, perSecond, firstMs: first ? first - asked : 0 } };
}
