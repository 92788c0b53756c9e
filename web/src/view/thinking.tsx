// A model's reasoning, folded: while it is written one line of it shows.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Markdown } from "../markdown/markdown";
import { Ember } from "./ember";
import { duration } from "./format";
import { Icon } from "./icon";

export function Thinking({ text, ms, live }: { text: string; ms: number | undefined; live: boolean }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const body = useRef<HTMLDivElement>(null);
  const heading = live ? "Thinking" : ms === undefined || ms < 1000 ? "Thought" : `Thought for ${duration(ms)}`;
  useEffect(() => {
    if (live && body.current) body.current.scrollTop = body.current.scrollHeight;
  }, [text, open]);
  return (
    <div class={live ? "thinking live" : "thinking"}>
      <button type="button" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        {live ? <Ember alive /> : <span class="coal" aria-hidden="true" />}
        <span>{heading}</span>
        <span class={open ? "fold open" : "fold"}>
          <Icon name="right" size={14} />
        </span>
        {live && !open && <span class="latest">{latestLine(text)}</span>}
      </button>
      <div id={id} ref={body} class="thinking-body" hidden={!open}>
        {open && <Markdown text={text} />}
      </div>
    </div>
  );
}

const LATEST = 120;

function latestLine(text: string): string {
  const line = text.trimEnd().split("\n").at(-1) ?? "";
  return line.length > LATEST ? "…" + line.slice(-LATEST) : line;
}
