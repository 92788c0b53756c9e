// What the message box and the editor of a question share.

/** Makes a textarea as tall as its text, up to what its style allows. */
export function fit(area: HTMLTextAreaElement): void {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
}

/** Whether a key press sends: not while an input method composes, and not on a touch keyboard, which has no Shift+Enter. */
export function sends(event: KeyboardEvent): boolean {
  // 229: Safari ends a composition before the key press that ended it.
  const composing = event.isComposing || event.keyCode === 229;
  return event.key === "Enter" && !event.shiftKey && !composing && !matchMedia("(pointer: coarse)").matches;
}
