// How the shown conversation asks: the system prompt, sampling, tools.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Conversation } from "../conversation";
import { allowed, SETTINGS, type SettingRow } from "../settings";
import { configure } from "../state/conversations";
import { settingsOpen } from "../state/panes";
import { IconButton } from "./button";
import { Icon } from "./icon";

export function SettingsPane({ conversation }: { conversation: Conversation }) {
  const { settings, system } = conversation;
  const change = (row: SettingRow, value: number | string | undefined) => {
    const next = { ...settings };
    if (value === undefined) delete next[row.key];
    else next[row.key] = value;
    configure({ settings: next });
  };
  const pane = useRef<HTMLElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    pane.current?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const rows = (some: SettingRow[]) =>
    some.map((row) => <Setting key={row.key} row={row} value={settings[row.key]} onChange={(value) => change(row, value)} />);
  return (
    <aside ref={pane} class="settings" aria-label="Settings" tabIndex={-1}>
      <header>
        <h2>Settings</h2>
        <IconButton icon="close" label="Close settings" onClick={() => (settingsOpen.value = false)} />
      </header>
      <div class="settings-body">
        <label class="field">
          <span>System prompt</span>
          <textarea
            rows={5}
            placeholder="What the model should know about its task."
            value={system}
            onInput={(event) => configure({ system: event.currentTarget.value })}
          />
        </label>
        <section>
          <h3>
            Sampling
            {Object.keys(settings).length > 0 && (
              <button type="button" class="link-button" onClick={() => configure({ settings: {} })}>
                Reset
              </button>
            )}
          </h3>
          {rows(SETTINGS.filter((row) => row.usual))}
          <details open={SETTINGS.some((row) => !row.usual && row.key in settings)}>
            <summary>
              More
              <Icon name="right" size={14} />
            </summary>
            {rows(SETTINGS.filter((row) => !row.usual))}
          </details>
        </section>
        <Tools key={conversation.id} tools={conversation.tools} />
      </div>
    </aside>
  );
}

interface SettingProps {
  row: SettingRow;
  value: number | string | undefined;
  onChange: (value: number | string | undefined) => void;
}

function Setting({ row, value, onChange }: SettingProps) {
  const id = useId();
  const hint = `${id}-hint`;
  const [text, setText] = useState("");
  const read = (from: string) => allowed(row, row.kind === "text" || row.kind === "choice" ? from : from.trim() ? Number(from) : undefined);
  const typed = (next: string) => {
    setText(next);
    // What is out of range changes nothing; an empty field is the server's default.
    if (read(next) !== undefined || next === "") onChange(read(next));
  };
  // "0.50" stays as it is typed while it means the value.
  const common = { id, "aria-describedby": hint, value: read(text) === value ? text : (value ?? "") };
  return (
    <div class={value === undefined ? "setting" : "setting set"}>
      <label for={id}>{row.label}</label>
      {row.kind === "choice" ? (
        <select {...common} onChange={(event) => typed(event.currentTarget.value)}>
          <option value="">default</option>
          {row.options.map((option) => (
            <option value={option}>{option}</option>
          ))}
        </select>
      ) : row.kind === "text" ? (
        <input {...common} type="text" placeholder="default" maxLength={1000} onInput={(event) => typed(event.currentTarget.value)} />
      ) : (
        <input
          {...common}
          type="number"
          placeholder="default"
          min={row.min}
          max={row.max}
          step={row.kind === "slider" ? "any" : 1}
          onInput={(event) => typed(event.currentTarget.value)}
        />
      )}
      {row.kind === "slider" && (
        <input
          type="range"
          aria-label={row.label}
          min={row.min}
          max={row.max}
          step={row.step}
          value={value ?? row.start}
          onInput={(event) => onChange(Number(event.currentTarget.value))}
        />
      )}
      <small id={hint}>{row.hint}</small>
    </div>
  );
}

const EXAMPLE = `[{"type": "function", "function": {
  "name": "weather",
  "parameters": {"type": "object", "properties":
    {"city": {"type": "string"}}}}}]`;

/** Kept when it is JSON; the answers' cards ask for the results. */
function Tools({ tools }: { tools: string }) {
  const [text, setText] = useState(tools);
  const [error, setError] = useState("");
  const typed = (next: string) => {
    setText(next);
    const wrong = toolsError(next);
    setError(wrong);
    if (!wrong) configure({ tools: next.trim() });
  };
  return (
    <section>
      <h3>Tools</h3>
      <label class="field">
        <small>A JSON list of definitions. When the model calls one, you give the result.</small>
        <textarea
          class="mono"
          rows={6}
          spellcheck={false}
          placeholder={EXAMPLE}
          aria-label="Tools"
          aria-invalid={error !== ""}
          value={text}
          onInput={(event) => typed(event.currentTarget.value)}
        />
      </label>
      {error && <p class="wrong">{error}</p>}
    </section>
  );
}

function toolsError(text: string): string {
  if (!text.trim()) return "";
  try {
    return Array.isArray(JSON.parse(text)) ? "" : "This is JSON, but not a list.";
  } catch {
    return "This is not JSON yet; what was there before holds.";
  }
}
