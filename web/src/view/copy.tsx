// A button that copies a text and says so.
import { useEffect, useState } from "preact/hooks";
import { notify } from "../state/notice";
import { Icon } from "./icon";

const SHOWN_MS = 1500;

/** `named`: whether a word stands beside the icon. */
export function CopyButton({ text, label, named = false }: { text: string; label: string; named?: boolean }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const name = copied ? "Copied" : label;
  return (
    <button
      type="button"
      class={named ? "icon-button named" : "icon-button"}
      aria-label={name}
      title={name}
      onClick={async () => ((await copy(text)) ? setCopied(true) : notify("The browser did not allow copying."))}
    >
      <Icon name={copied ? "check" : "copy"} size={16} />
      {named && (copied ? "Copied" : "Copy")}
    </button>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Where the page is neither local nor over TLS there is no clipboard to write to. */
function copyBySelection(text: string): boolean {
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "offscreen" });
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
