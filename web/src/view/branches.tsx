// ‹ 2/3 ›: which of a message's alternatives is shown.
import { showBranch } from "../state/answering";
import { IconButton } from "./button";

/** `branches` are ids with spaces between. */
export function Branches({ id, branches, locked }: { id: string; branches: string; locked: boolean }) {
  const ids = branches.split(" ");
  if (ids.length < 2) return null;
  const at = ids.indexOf(id);
  const to = (step: number) => () => showBranch(ids[at + step]!);
  return (
    <span class="branches" role="group" aria-label="Branches">
      <IconButton icon="left" label="Previous branch" size={15} disabled={locked || at === 0} onClick={to(-1)} />
      <span>
        {at + 1}/{ids.length}
      </span>
      <IconButton icon="right" label="Next branch" size={15} disabled={locked || at === ids.length - 1} onClick={to(1)} />
    </span>
  );
}
