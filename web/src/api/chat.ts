// POST /v1/chat/completions: a conversation's path becomes a request, the stream becomes deltas.
import { path, type Conversation, type Message, type ToolCall } from "../conversation";
import { chunks, serverEvents } from "./events";
import { ApiError, errorMessage, request } from "./http";

export interface CallDelta {
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: string };
  custom?: { name?: string; input?: string };
}

/** One chunk of the stream, as far as this page reads it. */
export interface Chunk {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null; tool_calls?: CallDelta[] };
    finish_reason?: string | null;
  }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } } | null;
  timings?: {
    prompt_ms?: number;
    predicted_ms?: number;
    predicted_per_second?: number;
    cache_miss?: { why?: string; message?: number | null } | null;
  } | null;
}

type Sent =
  | { role: "system" | "user"; content: string }
  | { role: "assistant"; content: string | null; tool_calls?: object[] }
  | { role: "tool"; tool_call_id: string; content: string };

/** What the server is asked, to answer the message `leaf`, or to go on with it where it is an answer. */
export function requestBody(conversation: Conversation, leaf: string): object {
  const messages: Sent[] = conversation.system.trim() ? [{ role: "system", content: conversation.system }] : [];
  const shown = path(conversation, leaf);
  for (const [i, message] of shown.entries()) {
    const last = messages.at(-1);
    const sent = sentForm(message, shown[i + 1]?.role === "tool");
    // An answer that failed leaves two questions in a row, which many templates refuse.
    if (sent?.role === "user" && last?.role === "user") last.content += "\n\n" + sent.content;
    else if (sent) messages.push(sent);
  }
  // An answer that is gone on with was thought about before it began.
  const end = shown.at(-1);
  const effort = end?.role === "assistant" && end.thinking ? { reasoning_effort: "none" } : {};
  const tools = conversation.tools.trim() ? { tools: JSON.parse(conversation.tools) as unknown } : {};
  return {
    model: conversation.model,
    messages,
    ...conversation.settings,
    ...effort,
    ...tools,
    stream: true,
    // With each chunk: of an answer that is stopped nothing else comes.
    stream_options: { include_usage: true, continuous_usage_stats: true },
  };
}

/** Calls without results are not sent: no template knows them. */
function sentForm(message: Message, answered: boolean): Sent | undefined {
  switch (message.role) {
    case "user":
      return { role: "user", content: message.text };
    case "tool":
      return { role: "tool", tool_call_id: message.callId ?? "", content: message.text };
    case "assistant":
      if (message.calls?.length && answered) {
        return { role: "assistant", content: message.text || null, tool_calls: message.calls.map(sentCall) };
      }
      return message.text ? { role: "assistant", content: message.text } : undefined;
  }
}

function sentCall(call: ToolCall): object {
  const { id, name } = call;
  return call.custom
    ? { id, type: "custom", custom: { name, input: call.arguments } }
    : { id, type: "function", function: { name, arguments: call.arguments } };
}

export async function* complete(body: object, signal: AbortSignal): AsyncGenerator<Chunk> {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.body) throw new ApiError(0, "The server's answer is empty.");
  let finished = false;
  for await (const { event, data } of serverEvents(chunks(response.body))) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data) as Chunk;
    const error = errorMessage(chunk);
    if (error !== undefined || event === "error") throw new ApiError(200, error ?? "The server reported an error.");
    finished ||= chunk.choices?.some((choice) => choice.finish_reason) ?? false;
    yield chunk;
  }
  if (!finished) throw new ApiError(0, "The connection to the server broke off.");
}

/** The calls so far with a delta's added: deltas name a call by its index. */
export function addCalls(calls: ToolCall[], deltas: CallDelta[]): ToolCall[] {
  const added = [...calls];
  for (const delta of deltas) {
    const index = Math.min(delta.index ?? added.length, added.length);
    const before = added[index] ?? { id: "", name: "", arguments: "" };
    added[index] = {
      id: before.id || delta.id || "",
      name: before.name + (delta.function?.name ?? delta.custom?.name ?? ""),
      arguments: before.arguments + (delta.function?.arguments ?? delta.custom?.input ?? ""),
      ...(before.custom || delta.custom ? { custom: true } : {}),
    };
  }
  return added;
}
