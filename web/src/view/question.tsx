// What the reader wrote. Editing it makes a branch.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Message } from "../conversation";
import { Cell, useCell } from "../cell";
import { ask, removeMessage } from "../state/answering";
import { Branches } from "./branches";
import { IconButton } from "./button";
import { CopyButton } from "./copy";
import { pure } from "./pure";
import { fit, sends } from "./textarea";

interface Props {
  message: Message;
  branches: string;
  locked: boolean;
}

/** The message that is edited. */
export const editing = new Cell<string | null>(null);

export const Question = pure(function Question({ message, branches, locked }: Props) {
  const edited = useCell(editing) === message.id;
  if (edited && !locked) return <Editor message={message} />;
  return (
    <article class="question" aria-label="You">
      <div class="bubble">{message.text}</div>
      <div class="actions">
        <Branches id={message.id} branches={branches} locked={locked} />
        <IconButton icon="pencil" label="Edit" size={16} disabled={locked} onClick={() => (editing.value = message.id)} />
        <CopyButton text={message.text} label="Copy question" />
        <IconButton icon="trash" label="Delete question" size={16} disabled={locked} onClick={() => removeMessage(message)} />
      </div>
    </article>
  );
});

function Editor({ message }: { message: Message }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(message.text);
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
    return () => {
      if (editing.value === message.id) editing.value = null;
    };
  }, []);
  useLayoutEffect(() => fit(area.current!), [text]);
  const close = () => (editing.value = null);
  const send = () => {
    if (!text.trim()) return;
    close();
    ask(text.trim(), message.parent);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (sends(event)) send();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <article class="question editor" aria-label="You">
      <textarea ref={area} aria-label="Edit the question" rows={1} value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={pressed} />
      <div class="editor-actions">
        <span class="quiet">The old question stays as a branch.</span>
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button type="button" class="button primary" disabled={!text.trim()} onClick={send}>
          Send
        </button>
      </div>
    </article>
  );
}
