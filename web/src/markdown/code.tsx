// A block of code: its language, its colours, a button that copies it.
import { useMemo } from "preact/hooks";
import { CopyButton } from "../view/copy";
import { highlight } from "./highlight";

export function CodeBlock({ code, language }: { code: string; language: string }) {
  const coloured = useMemo(() => highlight(code, language.toLowerCase()), [code, language]);
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={code} label="Copy code" named />
      </figcaption>
      <pre tabIndex={0}>
        <code>{coloured}</code>
      </pre>
    </figure>
  );
}
