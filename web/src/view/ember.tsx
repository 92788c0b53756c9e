// The mark: an ember, which breathes while the model works.

export function Ember({ alive = false }: { alive?: boolean }) {
  return <span class={alive ? "ember alive" : "ember"} aria-hidden="true" />;
}

/** A heading that ends in the mark. */
export function EmberLine({ text, lit }: { text: string; lit: boolean }) {
  return (
    <h1>
      {text}
      <span class={lit ? "ember alive" : "coal"} aria-hidden="true" />
    </h1>
  );
}
