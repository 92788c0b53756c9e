// What is shown before the first question: above the message box, and around it.
import { useCell } from "../cell";
import { canChat, models, modelsError, refreshModels } from "../api/models";
import { chooseModel, current, draftOf } from "../state/conversations";
import { focusComposer } from "../state/panes";
import { EmberLine } from "./ember";
import { Icon, type IconName } from "./icon";

const STARTERS: [IconName, string][] = [
  ["bulb", "Explain how a transformer reads a sentence, to someone who can program."],
  ["code", "Write a Rust function that merges overlapping intervals, with tests."],
  ["pencil", "Tell me a short story about a fire that is kept alive through one winter."],
];

export function Welcome() {
  const known = useCell(models);
  const error = useCell(modelsError);
  const conversation = useCell(useCell(current));
  const model = known.find((m) => m.id === conversation.model);
  if (error || (known.length > 0 && !known.some(canChat))) {
    return (
      <div class="welcome">
        <EmberLine text={error ? "No connection" : "No model"} lit={false} />
        <p>{error || "This server has no model to talk to."}</p>
        <button type="button" class="button" onClick={() => void refreshModels().then(chooseModel)}>
          Try again
        </button>
      </div>
    );
  }
  return (
    <div class="welcome">
      <EmberLine text="What shall we work on?" lit={model?.loaded !== false} />
      <p>
        {model?.loaded === false ? `${model.id} is loaded with the first question. ` : "Answers come from a model on this server. "}
        Conversations stay in this browser.
      </p>
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
      {STARTERS.map(([icon, text]) => (
        <li>
          <button type="button" onClick={() => start(text)}>
            <Icon name={icon} />
            {text}
          </button>
        </li>
      ))}
    </ul>
  );
}
