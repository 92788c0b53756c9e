// Asks for the server's API key.
import { useState } from "preact/hooks";
import { keyRequest } from "../api/http";
import { useCell } from "../cell";
import { Dialog } from "./dialog";

export function KeyDialog() {
  const asked = useCell(keyRequest);
  const [key, setKey] = useState("");
  if (!asked) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    if (key.trim()) asked.answer(key.trim());
    setKey("");
  };
  return (
    <Dialog key={String(asked.refused)} title="API key" onClose={() => asked.answer(null)}>
      <form onSubmit={submit}>
        <p>{asked.refused ? "The server refused this key." : "This server wants a key. It is kept until this tab is closed."}</p>
        <label class="field">
          <span>Key</span>
          <input type="password" autoComplete="off" autofocus value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
        <div class="dialog-actions">
          <button type="submit" class="button primary" disabled={!key.trim()}>
            Use key
          </button>
        </div>
      </form>
    </Dialog>
  );
}
