// Files dropped anywhere on the page.
import { useEffect, useState } from "preact/hooks";
import { current, draftOf } from "../state/conversations";
import { addFiles } from "../state/files";
import { Icon } from "./icon";

export function Drop() {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const dragged = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const left = (event: DragEvent) => {
      if (!event.relatedTarget) setOver(false);
    };
    const dropped = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      addFiles([...event.dataTransfer!.files], draftOf(current.value.value.id));
    };
    window.addEventListener("dragover", dragged);
    window.addEventListener("dragleave", left);
    window.addEventListener("drop", dropped);
    return () => {
      window.removeEventListener("dragover", dragged);
      window.removeEventListener("dragleave", left);
      window.removeEventListener("drop", dropped);
    };
  }, []);
  if (!over) return null;
  return (
    <div class="drop" aria-hidden="true">
      <Icon name="wave" size={32} />
      <p>Drop a recording to transcribe it, or a text to quote it.</p>
    </div>
  );
}
