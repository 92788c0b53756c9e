// The mark: an ember, which breathes while the model works.

export function Ember({ alive = false }: { alive?: boolean }) {
  return <span class={alive ? "ember alive" : "ember"} aria-hidden="true" />;
}

/** A line that ends in the mark instead of a full stop. */
export function EmberLine({ text, warm }: { text: string; warm: boolean }) {
  return (
    <h1>
      {text}
      <span class={warm ? "ember alive" : "coal"} aria-hidden="true" />
    </h1>
  );
}
