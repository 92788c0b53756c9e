// What the model wrote: its thinking, its text, its calls, and what it took.
import type { Message } from "../conversation";
import { Markdown } from "../markdown/markdown";
import { continueAnswer, regenerate, removeMessage } from "../state/answering";
import { Branches } from "./branches";
import { IconButton } from "./button";
import { Calls } from "./calls";
import { CopyButton } from "./copy";
import { Ember } from "./ember";
import { Icon } from "./icon";
import { pure } from "./pure";
import { StatsButton } from "./stats";
import { Thinking } from "./thinking";
import { Waiting } from "./waiting";

interface Props {
  message: Message;
  branches: string;
  /** Whether some answer of the conversation is being written; and whether this one is. */
  locked: boolean;
  busy: boolean;
  last: boolean;
  named: boolean;
  /** JSON list of the calls' results; empty: not given. */
  results: string;
}

/** Why an answer is shorter than it might be; other reasons need no words. */
const REASONS: Record<string, string> = {
  length: "The answer ends here because it reached the longest length.",
  content_filter: "The server ended the answer.",
  stopped: "Stopped.",
};

function reasonOf(finish: string | undefined, begun: boolean): string {
  if (finish === undefined) return "Interrupted: the page was closed.";
  return REASONS[finish] ?? (begun ? "" : "The answer is empty.");
}

export const Answer = pure(function Answer({ message, branches, locked, busy, last, named, results }: Props) {
  const { text, thinking, thinkingMs, calls, error } = message;
  const begun = Boolean(text || thinking || calls?.length);
  const reason = busy || error ? "" : reasonOf(message.finish, begun);
  const isCut = (reason || error) && message.finish !== "content_filter" && last && text && !calls;
  const goOn = isCut && (
    <button type="button" class="button" disabled={locked} onClick={() => continueAnswer(message)}>
      Continue
    </button>
  );
  return (
    <article class={last ? "answer last" : "answer"} aria-label={message.model ?? "Answer"} aria-busy={busy}>
      {thinking && <Thinking text={thinking} ms={thinkingMs} live={busy && !text && !calls} />}
      {busy && !begun && <Waiting model={message.model} since={message.created} />}
      {text && <Markdown text={text} streaming={busy} />}
      {calls && <Calls message={message} asking={last && !locked} results={results ? (JSON.parse(results) as string[]) : null} />}
      {busy && begun && !text && !thinking && <Ember alive />}
      {error && (
        <div class="failure" role="alert">
          <Icon name="warning" />
          <p>{error}</p>
          {goOn}
          <button type="button" class="button" disabled={locked} onClick={() => regenerate(message)}>
            Try again
          </button>
        </div>
      )}
      {reason && (
        <p class="quiet reason">
          {reason}
          {goOn}
        </p>
      )}
      {!busy && (
        <div class="actions">
          <Branches id={message.id} branches={branches} locked={locked} />
          {text && <CopyButton text={text} label="Copy answer" />}
          {!error && (
            <>
              <IconButton icon="again" label="Answer again" size={16} disabled={locked} onClick={() => regenerate(message)} />
              <IconButton icon="trash" label="Delete answer" size={16} disabled={locked} onClick={() => removeMessage(message)} />
            </>
          )}
          <StatsButton message={message} named={named} />
        </div>
      )}
    </article>
  );
});
