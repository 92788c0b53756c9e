// The sentence at the foot of the page.
import { useCell } from "../cell";
import { dismiss, notice } from "../state/notice";
import { IconButton } from "./button";

export function NoticeBar() {
  const shown = useCell(notice);
  const { action } = shown ?? {};
  const act = () => {
    dismiss();
    action?.run();
  };
  return (
    <div class="notices" role="status">
      {shown && (
        <div class="notice">
          <span>{shown.text}</span>
          {action && (
            <button type="button" class="link-button" onClick={act}>
              {action.label}
            </button>
          )}
          <IconButton icon="close" label="Dismiss" size={15} onClick={dismiss} />
        </div>
      )}
    </div>
  );
}
