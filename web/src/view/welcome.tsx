// What is shown before the first question: above the message box, and below it.
import { useCell } from "../cell";
import { canChat, models, modelsError, refreshModels } from "../api/models";
import { chooseModel, current, draftOf } from "../state/conversations";
import { focusComposer } from "../state/panes";
import { EmberLine } from "./ember";

const STARTERS = [
  "Explain how a transformer reads a sentence, to someone who can program.",
  "Write a Rust function that merges overlapping intervals, with tests.",
  "Tell me a short story about a fire that is kept alive through one winter.",
];

export function Welcome() {
  const known = useCell(models);
  const error = useCell(modelsError);
  const conversation = useCell(useCell(current));
  const model = known.find((m) => m.id === conversation.model);
  if (error || (known.length > 0 && !known.some(canChat))) {
    return (
      <div class="welcome">
        <EmberLine text="The fire is out" warm={false} />
        <p>{error || "This server has no model to talk to."}</p>
        <button type="button" class="button" onClick={() => void refreshModels().then(chooseModel)}>
          Try again
        </button>
      </div>
    );
  }
  return (
    <div class="welcome">
      {model?.loaded === false ? <EmberLine text="Ready to be lit" warm={false} /> : <EmberLine text="Still warm" warm />}
      <p>Answers come from a model on this server. Conversations stay in this browser.</p>
    </div>
  );
}

export function Starters() {
  const { id } = useCell(useCell(current));
  const start = (text: string) => {
    draftOf(id).value = text;
    focusComposer.value += 1;
  };
  return (
    <ul class="starters" aria-label="Questions to begin with">
      {STARTERS.map((text) => (
        <li>
          <button type="button" onClick={() => start(text)}>
            {text}
          </button>
        </li>
      ))}
    </ul>
  );
}
