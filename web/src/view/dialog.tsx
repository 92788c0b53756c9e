// A modal pane with a title. The browser keeps the focus in it and closes it by Escape.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { IconButton } from "./button";

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => dialog.current?.showModal(), []);
  const clicked = (event: MouseEvent) => {
    // Outside of the pane's content is its backdrop.
    if (event.target === dialog.current) onClose();
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={heading} onClose={onClose} onClick={clicked}>
      <div class="dialog-body">
        <header>
          <h2 id={heading}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}
