// Before the first token: that something happens, and what.
import { useEffect, useState } from "preact/hooks";
import { models } from "../api/models";
import { useCell } from "../cell";
import { Ember } from "./ember";

const LONG_MS = 1500;

export function Waiting({ model, since }: { model: string | undefined; since: number }) {
  const known = useCell(models).find((m) => m.id === model);
  const [long, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), Math.max(0, since + LONG_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [since]);
  return (
    <p class="waiting">
      <Ember alive />
      {long && <span>{known && !known.loaded ? `Loading ${model}` : "Reading the prompt"}</span>}
    </p>
  );
}
