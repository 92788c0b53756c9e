// The page: the list of conversations, the one that is shown, and what is asked of the model.
import { useEffect } from "preact/hooks";
import { useCell } from "../cell";
import { path } from "../conversation";
import { running, spoken } from "../state/answering";
import { current } from "../state/conversations";
import { drawerOpen, settingsOpen, shortcutsOpen } from "../state/panes";
import { preferences } from "../state/preferences";
import { Composer } from "./composer";
import { Drop } from "./drop";
import { KeyDialog } from "./key";
import { NoticeBar } from "./notice";
import { SettingsPane } from "./settings";
import { listenForShortcuts, ShortcutsDialog } from "./shortcuts";
import { Sidebar } from "./sidebar";
import { Thread } from "./thread";
import { TopBar } from "./topbar";
import { Starters, Welcome } from "./welcome";

export function App() {
  const conversation = useCell(useCell(current));
  const { sidebar } = useCell(preferences);
  const drawer = useCell(drawerOpen);
  const settings = useCell(settingsOpen);
  const busy = useCell(running).has(conversation.id);
  const shown = path(conversation);
  useEffect(listenForShortcuts, []);
  useEffect(() => {
    document.title = conversation.title ? `${conversation.title} · Akunu` : "Akunu";
  }, [conversation.title]);
  return (
    <div class={["app", sidebar && "with-sidebar", drawer && "with-drawer", settings && "with-settings", busy && "busy"].filter(Boolean).join(" ")}>
      <Sidebar shown={conversation.id} />
      <div class="scrim" onClick={() => (drawerOpen.value = settingsOpen.value = false)} />
      <main class={shown.length > 0 ? undefined : "empty"}>
        <TopBar conversation={conversation} />
        {shown.length > 0 ? <Thread key={conversation.id} conversation={conversation} shown={shown} /> : <Welcome />}
        <Composer key={`composer-${conversation.id}`} conversation={conversation} busy={busy} />
        {shown.length === 0 && <Starters />}
        <div class="hearth" aria-hidden="true" />
      </main>
      {settings && <SettingsPane conversation={conversation} />}
      <Drop />
      <KeyDialog />
      {useCell(shortcutsOpen) && <ShortcutsDialog />}
      <NoticeBar />
      <div class="offscreen" role="status">
        {useCell(spoken)}
      </div>
    </div>
  );
}
