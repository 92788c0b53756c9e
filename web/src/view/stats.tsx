// Tokens and speed of an answer: a line, and the rest behind it.
import { models } from "../api/models";
import { useCell } from "../cell";
import type { Message, Stats } from "../conversation";
import { duration, integer, speed } from "./format";
import { Popover } from "./popover";

/** What the server says at the end of an answer, and so not of one that was stopped. */
function ofPrompt({ cached, miss, promptMs }: Stats): [string, string][] {
  return [
    ["From the cache", `${integer(cached)} tokens`],
    ...(miss ? [["The rest", miss] as [string, string]] : []),
    ["Reading the prompt", duration(promptMs)],
  ];
}

/** `named`: whether the line says the model, because others answered in this conversation too. */
export function StatsButton({ message, named }: { message: Message; named: boolean }) {
  const { stats, model } = message;
  const context = useCell(models).find((m) => m.id === model)?.context;
  if (!stats) return named ? <span class="stats">{model}</span> : null;
  const total = stats.prompt + stats.completion;
  const rows: [string, string][] = [
    ["Model", model ?? "unknown"],
    ["Answer", `${integer(stats.completion)} tokens`],
    ["Speed", stats.perSecond ? speed(stats.perSecond) : "unknown"],
    ["First token after", duration(stats.firstMs)],
    ["Prompt", `${integer(stats.prompt)} tokens`],
    ...(stats.promptMs > 0 ? ofPrompt(stats) : []),
    ["Context", context ? `${integer(total)} of ${integer(context)}` : integer(total)],
  ];
  const line = (
    <>
      {named && <span class="stats-model">{model}</span>}
      {stats.perSecond > 0 && <span>{speed(stats.perSecond)}</span>}
      <span>{integer(stats.completion)} tokens</span>
    </>
  );
  return (
    <Popover label="Tokens and speed" isText class="stats" button={line} align="end">
      {() => (
        <dl class="facts">
          {rows.map(([name, value]) => (
            <div>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </Popover>
  );
}
