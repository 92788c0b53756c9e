// The mark: an ember, which breathes while the model works.

export function Ember({ alive = false, size = "s" }: { alive?: boolean; size?: "s" | "l" }) {
  return <span class={`ember ${size} ${alive ? "alive" : ""}`} aria-hidden="true" />;
}
