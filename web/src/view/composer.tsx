// The message box.
import { useLayoutEffect, useRef } from "preact/hooks";
import { canChat, models, modelsError } from "../api/models";
import { useCell } from "../cell";
import type { Conversation } from "../conversation";
import { ask, stop } from "../state/answering";
import { draftOf } from "../state/conversations";
import { focusComposer, isNarrow } from "../state/panes";
import { addFiles, transcribing } from "../state/files";
import { IconButton } from "./button";
import { Ember } from "./ember";
import { Icon } from "./icon";
import { editLast } from "./shortcuts";
import { fit, sends } from "./textarea";

export function Composer({ conversation, busy }: { conversation: Conversation; busy: boolean }) {
  const draft = draftOf(conversation.id);
  const text = useCell(draft);
  const area = useRef<HTMLTextAreaElement>(null);
  const file = useRef<HTMLInputElement>(null);
  const focus = useCell(focusComposer);
  const work = useCell(transcribing);
  const known = useCell(models);
  const error = useCell(modelsError);
  const hasModel = known.some((m) => m.id === conversation.model && canChat(m));
  const missing = known.some(canChat) ? "" : error || (known.length > 0 ? "This server has no model to talk to." : "");

  useLayoutEffect(() => fit(area.current!), [text]);
  useLayoutEffect(() => {
    // On a phone the focus raises the keyboard: only when asked.
    if (focus > 0 || !isNarrow()) area.current?.focus();
  }, [focus]);

  const ready = text.trim() !== "" && hasModel && !busy;
  const send = () => {
    if (!ready) return;
    draft.value = "";
    ask(text.trim(), conversation.leaf);
  };
  const pressed = (event: KeyboardEvent) => {
    if (sends(event)) send();
    else if (event.key !== "ArrowUp" || text !== "" || busy || !editLast()) return;
    event.preventDefault();
  };
  const pasted = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    addFiles(files, draft);
  };
  const chosen = () => {
    addFiles([...file.current!.files!], draft);
    file.current!.value = "";
  };
  return (
    <div class="composer-frame">
      {work && (
        <div class="transcribing" role="status">
          <Ember alive />
          <span>Transcribing {work.name}</span>
          <IconButton icon="close" label="Cancel the transcription" size={15} onClick={work.cancel} />
        </div>
      )}
      {missing && conversation.messages.length > 0 && (
        <p class="missing" role="status">
          {missing}
        </p>
      )}
      <form
        class="composer"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <textarea
          ref={area}
          id="composer"
          rows={1}
          aria-label="Message"
          placeholder={conversation.messages.length ? "Reply" : "Ask anything"}
          value={text}
          onInput={(event) => (draft.value = event.currentTarget.value)}
          onKeyDown={pressed}
          onPaste={pasted}
        />
        <div class="composer-actions">
          <IconButton icon="clip" label="Add a recording or a text file" onClick={() => file.current?.click()} />
          <input ref={file} id="attach" type="file" multiple hidden onChange={chosen} />
          <span class="gap" />
          {busy ? (
            <IconButton class="send" icon="stop" label="Stop" onClick={() => stop()} />
          ) : (
            <button type="submit" class="icon-button send" aria-label="Send" title="Send" disabled={!ready}>
              <Icon name="send" />
            </button>
          )}
        </div>
      </form>
    </div>
  );
}
