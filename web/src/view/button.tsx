// A button that is an icon, with a name for those who do not see it.
import type { JSX } from "preact";
import { Icon, type IconName } from "./icon";

type Props = Omit<JSX.IntrinsicElements["button"], "icon" | "label"> & { icon: IconName; label: string; size?: number };

export function IconButton({ icon, label, size, class: extra, ...rest }: Props) {
  return (
    <button type="button" {...rest} class={`icon-button ${(extra as string | undefined) ?? ""}`} aria-label={label} title={label}>
      <Icon name={icon} size={size} />
    </button>
  );
}
