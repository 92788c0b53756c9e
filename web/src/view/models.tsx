// The model picker: what the server has, what of it is loaded, and how much memory that takes.
import { useState } from "preact/hooks";
import { memory, type Memory } from "../api/memory";
import { canChat, models, modelsError, refreshModels, type Model } from "../api/models";
import { useCell } from "../cell";
import { chooseModel, configure } from "../state/conversations";
import { bytes, context } from "./format";
import { Icon } from "./icon";
import { Popover } from "./popover";

export function ModelPicker({ model }: { model: string }) {
  const known = useCell(models);
  const error = useCell(modelsError);
  const [used, setUsed] = useState<Memory>();
  const chat = known.filter((m) => m.kind === "chat");
  const chosen = chat.find((m) => m.id === model);
  const opened = () => {
    void refreshModels().then(chooseModel);
    void memory().then(setUsed);
  };
  const button = (
    <>
      <LoadedDot model={chosen} />
      <span class="model-name">{model || (error ? "No server" : "No model")}</span>
      <Icon name="down" size={14} />
    </>
  );
  return (
    <Popover label={`Model: ${model || "none"}`} class="model-button" button={button} onOpen={opened}>
      {(close) => (
        <div class="models">
          <div role="radiogroup" aria-label="Model">
            {chat.map((m) => (
              <button type="button" role="radio" aria-checked={m.id === model} disabled={!canChat(m)} onClick={() => (configure({ model: m.id }), close())}>
                <LoadedDot model={m} />
                <span class="model-row">
                  <span class="model-name">{m.id}</span>
                  <small>{facts(m)}</small>
                </span>
                {m.id === model && <Icon name="check" size={16} />}
              </button>
            ))}
          </div>
          {chat.length === 0 && <p class="quiet">{error || "The server has no model to talk to."}</p>}
          {known.some((m) => m.kind === "speech") && (
            <p class="quiet">Transcribes with {known.find((m) => m.kind === "speech")?.id}: drop a recording on the page.</p>
          )}
          {used && <MemoryBar memory={used} />}
        </div>
      )}
    </Popover>
  );
}

function LoadedDot({ model }: { model: Model | undefined }) {
  return <span class={model?.loaded ? "loaded-dot on" : "loaded-dot"} aria-hidden="true" />;
}

function facts(model: Model): string {
  if (model.error) return model.error;
  return [
    model.loaded ? "loaded" : "loads at the first question",
    model.bytes && bytes(model.bytes),
    model.context && `${context(model.context)} context`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function MemoryBar({ memory: { parts, total, budget } }: { memory: Memory }) {
  const named = parts.length > 1 ? parts.map(([label, size]) => `${label} ${bytes(size)}`).join(" · ") : "";
  return (
    <div class="memory">
      <p>
        <span>Memory</span>
        <span>
          {bytes(total)}
          {budget ? ` of ${bytes(budget)}` : ""}
        </span>
      </p>
      {budget && <meter min={0} max={budget} value={total} aria-label="Memory used" />}
      {named && <small>{named}</small>}
    </div>
  );
}
