// The model, and the doors to the list and the settings.
import type { Conversation } from "../conversation";
import { useCell } from "../cell";
import { begin } from "../state/conversations";
import { focusComposer, settingsOpen, toggleSidebar } from "../state/panes";
import { IconButton } from "./button";
import { ModelPicker } from "./models";

export function TopBar({ conversation }: { conversation: Conversation }) {
  const settings = useCell(settingsOpen);
  const start = () => {
    begin();
    focusComposer.value += 1;
  };
  return (
    <header class="topbar">
      {conversation.title && <h1 class="offscreen">{conversation.title}</h1>}
      <IconButton class="opens-list" icon="menu" label="Show the list" onClick={toggleSidebar} />
      <ModelPicker model={conversation.model} />
      <span class="gap" />
      <IconButton class="new-here" icon="plus" label="New conversation" onClick={start} />
      <IconButton icon="sliders" label="Settings" aria-expanded={settings} onClick={() => (settingsOpen.value = !settings)} />
    </header>
  );
}
