// The tools that a model calls. This page runs none: the reader gives the results.
import { useState } from "preact/hooks";
import type { Message, ToolCall } from "../conversation";
import { CodeBlock } from "../markdown/code";
import { giveResults } from "../state/answering";
import { Icon } from "./icon";

interface Props {
  message: Message;
  /** Whether results may be given. */
  asking: boolean;
  results: string[] | null;
}

export function Calls({ message, asking, results }: Props) {
  const calls = message.calls ?? [];
  const [typed, setTyped] = useState<string[]>([]);
  const wanted = asking && !results && message.finish !== undefined && message.finish !== "error";
  return (
    <div class="calls">
      {calls.map((call, i) => (
        <details class="call" open={wanted}>
          <summary>
            <Icon name="tool" size={16} />
            <code>{call.name || "…"}</code>
            <span class="quiet">{results ? "answered" : wanted ? "waits for a result" : "called"}</span>
            <Icon name="right" size={14} />
          </summary>
          <Arguments call={call} />
          {results && <CodeBlock code={pretty(results[i] ?? "")} language="result" />}
          {wanted && (
            <label class="field">
              <span>Result</span>
              <textarea
                class="mono"
                rows={2}
                placeholder='{"ok": true}'
                value={typed[i] ?? ""}
                onInput={(event) => setTyped(calls.map((_, at) => (at === i ? event.currentTarget.value : (typed[at] ?? ""))))}
              />
            </label>
          )}
        </details>
      ))}
      {wanted && (
        <button type="button" class="button primary" disabled={!typed.some((text) => text?.trim())} onClick={() => giveResults(message, typed)}>
          {calls.length === 1 ? "Give the result" : "Give the results"}
        </button>
      )}
    </div>
  );
}

function Arguments({ call }: { call: ToolCall }) {
  return <CodeBlock code={call.custom ? call.arguments : pretty(call.arguments)} language={call.custom ? "input" : "json"} />;
}

/** JSON with indents; what is not JSON (yet) as it is. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
