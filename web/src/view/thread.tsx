// The shown branch, from the first question down. It follows an answer that is written, unless the reader scrolls away.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { siblings, type Conversation, type Message } from "../conversation";
import { useCell } from "../cell";
import { answerEnd, running } from "../state/answering";
import { Answer } from "./answer";
import { IconButton } from "./button";
import { Icon } from "./icon";
import { Question } from "./question";

/** Nearer to the end than this counts as the end. */
const NEAR = 60;

export function Thread({ conversation, shown }: { conversation: Conversation; shown: Message[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const [away, setAway] = useState(false);
  const busy = useCell(running).get(conversation.id)?.message;
  const end = shown.at(-1)!;
  const named = new Set(shown.flatMap((m) => m.model ?? [])).size > 1;
  const asked = shown.filter((m) => m.role === "user").at(-1)?.id;

  const toEnd = () => {
    const { current: pane } = scroller;
    if (pane) pane.scrollTop = pane.scrollHeight;
  };
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = scroller.current!;
    following.current = scrollHeight - scrollTop - clientHeight < NEAR;
    setAway(!following.current);
  };
  useLayoutEffect(() => {
    following.current = true;
    toEnd();
  }, [asked]);
  useLayoutEffect(() => {
    if (following.current) toEnd();
  });
  return (
    <div class="thread-frame">
      <div class="thread" ref={scroller} onScroll={scrolled} tabIndex={-1}>
        <div class="column">
          {shown.map((message, i) => {
            if (message.role === "tool") return null;
            const branches = siblings(conversation, message);
            const props = { key: message.id, message, branches: branches.map((m) => m.id).join(" "), locked: busy !== undefined };
            if (message.role === "user") return <Question {...props} />;
            const results = message.calls ? resultsOf(message, shown, i) : "";
            return <Answer {...props} busy={busy === message.id} last={message === end} named={named} results={results} />;
          })}
          {end.role !== "assistant" && !busy && (
            <button type="button" class="button" onClick={answerEnd}>
              <Icon name="answer" />
              Answer
            </button>
          )}
        </div>
      </div>
      {away && (
        <IconButton
          class="to-end"
          icon="arrowDown"
          label="To the end"
          onClick={() => {
            following.current = true;
            toEnd();
          }}
        />
      )}
    </div>
  );
}

/** The results that follow an answer's calls, by call id, as JSON: equal results are an equal property. */
function resultsOf(message: Message, shown: Message[], at: number): string {
  const results: Record<string, string> = {};
  for (let i = at + 1; shown[i]?.role === "tool"; i++) results[shown[i]!.callId ?? ""] = shown[i]!.text;
  const wanted = message.calls?.map((call) => results[call.id]);
  return wanted?.every((result) => result !== undefined) ? JSON.stringify(wanted) : "";
}
