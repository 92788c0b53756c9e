// A button and what it opens above everything: closed by Escape, by a click elsewhere and by what is in it.
import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";

interface Props {
  label: string;
  /** Whether the button's own text says what it is, and the label only what it opens. */
  isText?: boolean;
  /** Of the button. */
  class: string;
  button: ComponentChildren;
  align?: "start" | "end";
  onOpen?: () => void;
  children: (close: () => void) => ComponentChildren;
}

const GAP = 6;
const EDGE = 8;

export function Popover({ label, isText = false, class: buttonClass, button, align = "start", onOpen, children }: Props) {
  const id = useId();
  const anchor = useRef<HTMLButtonElement>(null);
  const pane = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);

  const close = () => {
    pane.current?.hidePopover();
    anchor.current?.focus();
  };
  const place = () => {
    const [from, box] = [anchor.current!.getBoundingClientRect(), pane.current!.getBoundingClientRect()];
    const left = align === "start" ? from.left : from.right - box.width;
    const below = from.bottom + GAP;
    const fits = below + box.height <= innerHeight - EDGE;
    const { style } = pane.current!;
    style.left = `${Math.max(EDGE, Math.min(left, innerWidth - box.width - EDGE))}px`;
    style.top = `${fits ? below : Math.max(EDGE, from.top - GAP - box.height)}px`;
  };
  const toggled = (event: { newState: string }) => {
    const opened = event.newState === "open";
    setOpen(opened);
    if (!opened) return;
    onOpen?.();
    requestAnimationFrame(() => {
      if (!pane.current?.matches(":popover-open")) return;
      place();
      const chosen = pane.current.querySelector<HTMLElement>("[aria-checked=true]");
      (chosen ?? pane.current.querySelector<HTMLElement>("button"))?.focus();
    });
  };
  return (
    <>
      <button
        type="button"
        ref={anchor}
        class={buttonClass}
        aria-label={isText ? undefined : label}
        title={label}
        aria-expanded={open}
        popovertarget={id}
      >
        {button}
      </button>
      <div id={id} ref={pane} class="popover" popover="auto" onToggle={toggled} onKeyDown={moveFocus}>
        {open && children(close)}
      </div>
    </>
  );
}

/** Arrow keys move among the rows. */
function moveFocus(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (!step) return;
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>("button:not(:disabled)")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[(at + step + rows.length) % rows.length]?.focus();
  event.preventDefault();
}
