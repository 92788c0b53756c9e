// Files the reader brings: recordings become their words, texts become quoted text, in the message box.
import { models, refreshModels } from "../api/models";
import { isAudio, transcribe } from "../api/speech";
import { Cell } from "../cell";
import { importFile } from "./conversations";
import { notify, report } from "./notice";

/** The recording that is transcribed. */
export const transcribing = new Cell<{ name: string; cancel: () => void } | null>(null);

const MAX_TEXT = 1 << 20;

/** Files wait for those before them. */
let queue: Promise<void> = Promise.resolve();

export function addFiles(files: File[], draft: Cell<string>): void {
  for (const file of files) queue = queue.then(() => addFile(file, draft)).catch(report);
}

async function addFile(file: File, draft: Cell<string>): Promise<void> {
  if (isAudio(file)) await addRecording(file, draft);
  else if (/^akunu-.*\.json$/.test(file.name)) await importFile(file);
  else await addText(file, draft);
}

async function addRecording(file: File, draft: Cell<string>): Promise<void> {
  if (models.value.length === 0) await refreshModels();
  const model = models.value.find((m) => m.kind === "speech");
  if (!model) return notify("This server has no model that transcribes.");
  const abort = new AbortController();
  transcribing.value = { name: file.name, cancel: () => abort.abort() };
  try {
    const text = await transcribe(file, model.id, abort.signal);
    if (text) append(draft, text);
    else notify(`No words were found in ${file.name}.`);
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  } finally {
    transcribing.value = null;
  }
}

async function addText(file: File, draft: Cell<string>): Promise<void> {
  if (file.size > MAX_TEXT) return notify(`${file.name} is larger than ${MAX_TEXT >> 20} MiB.`);
  const text = await file.text();
  if (text.includes("\0") || text.includes("\ufffd")) return notify(`${file.name} is neither a recording nor a text.`);
  // A fence longer than any in the text.
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  append(draft, `${file.name}:\n${fence}\n${text.trimEnd()}\n${fence}`);
}

function append(draft: Cell<string>, text: string): void {
  draft.value = draft.value.trim() ? `${draft.value.trimEnd()}\n\n${text}` : text;
}
