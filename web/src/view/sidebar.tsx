// The list of conversations: search, rename, delete, export and import.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useCell } from "../cell";
import { running, stop } from "../state/answering";
import { begin, exportFile, importFile, list, open, remove, rename } from "../state/conversations";
import { report } from "../state/notice";
import { drawerOpen, focusComposer, shortcutsOpen, toggleSidebar } from "../state/panes";
import { prefer, preferences, type Theme } from "../state/preferences";
import { search, type Summary } from "../store/database";
import { IconButton } from "./button";
import { Ember } from "./ember";
import { age } from "./format";
import { Icon, type IconName } from "./icon";
import { Popover } from "./popover";
import { pure } from "./pure";

/** `shown`: the id of the shown conversation. */
export const Sidebar = pure(function Sidebar({ shown }: { shown: string }) {
  const answering = useCell(running);
  const [words, setWords] = useState("");
  const found = useSearch(words);
  const groups = useMemo(() => grouped(found), [found]);
  const start = () => {
    begin();
    drawerOpen.value = false;
    focusComposer.value += 1;
  };
  return (
    <nav class="sidebar" aria-label="Conversations">
      <header>
        <span class="brand">
          <Ember alive={answering.size > 0} />
          akunu
        </span>
        <IconButton icon="panel" label="Hide the list" onClick={toggleSidebar} />
      </header>
      <button type="button" class="new" onClick={start}>
        <Icon name="plus" />
        New conversation
      </button>
      <label class="search">
        <Icon name="search" size={16} />
        <input
          id="search"
          type="search"
          placeholder="Search"
          aria-label="Search conversations"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </label>
      <div class="list">
        {groups.map(([heading, summaries]) => (
          <section>
            <h2>{heading}</h2>
            <ul>
              {summaries.map((summary) => (
                <Entry key={summary.id} summary={summary} shown={summary.id === shown} busy={answering.has(summary.id)} />
              ))}
            </ul>
          </section>
        ))}
        {found.length === 0 && <p class="quiet">{words ? "Nothing found." : "No conversations yet."}</p>}
      </div>
      <Foot />
    </nav>
  );
});

const TYPING_MS = 150;

/** The list, or the part of it that has the words. */
function useSearch(words: string): Summary[] {
  const everything = useCell(list);
  const [ids, setIds] = useState<Set<string> | null>(null);
  useEffect(() => {
    if (!words.trim()) return setIds(null);
    let stale = false;
    const timer = setTimeout(() => {
      search(words).then((found) => stale || setIds(found), report);
    }, TYPING_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [words, everything]);
  return useMemo(() => (ids ? everything.filter((s) => ids.has(s.id)) : everything), [everything, ids]);
}

function grouped(summaries: Summary[]): [string, Summary[]][] {
  const groups = new Map<string, Summary[]>();
  for (const summary of summaries) {
    const heading = age(summary.updated);
    groups.set(heading, [...(groups.get(heading) ?? []), summary]);
  }
  return [...groups];
}

function Entry({ summary, shown, busy }: { summary: Summary; shown: boolean; busy: boolean }) {
  const { id, title } = summary;
  const [renaming, setRenaming] = useState(false);
  if (renaming) return <Rename summary={summary} onDone={() => setRenaming(false)} />;
  const show = () => {
    open(id);
    drawerOpen.value = false;
  };
  const erase = () => {
    stop(id);
    remove(id).catch(report);
  };
  return (
    <li class={shown ? "entry shown" : "entry"}>
      <button type="button" class="entry-title" aria-current={shown ? "page" : undefined} onClick={show} onDblClick={() => setRenaming(true)}>
        {busy && <Ember alive />}
        <span>{title}</span>
      </button>
      <Popover label={`Actions for ${title}`} class="icon-button" button={<Icon name="more" />}>
        {(close) => (
          <div class="menu" onClick={close}>
            <MenuItem icon="pencil" text="Rename" onClick={() => setRenaming(true)} />
            <MenuItem icon="download" text="Export" onClick={() => exportFile(id).catch(report)} />
            <MenuItem icon="trash" text="Delete" onClick={erase} />
          </div>
        )}
      </Popover>
    </li>
  );
}

function MenuItem({ icon, text, onClick }: { icon: IconName; text: string; onClick: () => void }) {
  return (
    <button type="button" onClick={onClick}>
      <Icon name={icon} />
      {text}
    </button>
  );
}

function Rename({ summary, onDone }: { summary: Summary; onDone: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const kept = useRef(true);
  useEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const done = () => {
    if (kept.current) rename(summary.id, input.current?.value ?? "").catch(report);
    onDone();
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.stopPropagation();
    kept.current = event.key === "Enter";
    input.current?.blur();
  };
  return (
    <li class="entry shown">
      <input ref={input} class="rename" aria-label="Title" defaultValue={summary.title} maxLength={200} onBlur={done} onKeyDown={pressed} />
    </li>
  );
}

const THEMES: { theme: Theme; icon: IconName; label: string }[] = [
  { theme: "system", icon: "system", label: "Theme: as the system" },
  { theme: "light", icon: "sun", label: "Theme: light" },
  { theme: "dark", icon: "moon", label: "Theme: dark" },
];

function Foot() {
  const { theme } = useCell(preferences);
  const file = useRef<HTMLInputElement>(null);
  const at = THEMES.findIndex((row) => row.theme === theme);
  const { icon, label } = THEMES[at]!;
  const next = THEMES[(at + 1) % THEMES.length]!;
  const chosen = () => {
    const [picked] = file.current!.files ?? [];
    if (picked) importFile(picked).catch(report);
    file.current!.value = "";
  };
  return (
    <footer>
      <IconButton icon={icon} label={label} onClick={() => prefer({ theme: next.theme })} />
      <IconButton icon="keyboard" label="Keyboard shortcuts" onClick={() => (shortcutsOpen.value = true)} />
      <span class="gap" />
      <IconButton icon="upload" label="Import conversations" onClick={() => file.current?.click()} />
      <IconButton icon="download" label="Export all conversations" onClick={() => exportFile().catch(report)} />
      <input ref={file} id="import" type="file" accept="application/json,.json" hidden onChange={chosen} />
    </footer>
  );
}
