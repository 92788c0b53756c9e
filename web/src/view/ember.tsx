// The mark: an ember, which breathes while the model works; and a heap of them.

export function Ember({ alive = false }: { alive?: boolean }) {
  return <span class={alive ? "ember alive" : "ember"} aria-hidden="true" />;
}

const COALS = [
  "22,25 27,12 38,8 47,14 46,26 35,32",
  "51,14 61,8 73,13 77,25 68,32 54,27",
  "4,48 3,38 11,30 22,29 30,37 28,50 18,55 8,54",
  "70,38 79,30 90,32 97,41 94,52 81,56 70,51",
  "34,39 44,31 57,32 66,41 63,53 50,57 37,54",
];

/** Dark coals; the fire shows between them. */
export function Embers({ cold = false }: { cold?: boolean }) {
  return (
    <svg class={cold ? "embers cold" : "embers"} viewBox="-60 -40 220 140" aria-hidden="true">
      <radialGradient id="heat" gradientUnits="userSpaceOnUse" cx="50" cy="36" r="54">
        <stop class="heat-1" offset="0" />
        <stop class="heat-2" offset=".26" />
        <stop class="heat-3" offset=".58" />
        <stop class="heat-4" offset="1" />
      </radialGradient>
      <radialGradient id="heart">
        <stop class="heart-1" offset="0" />
        <stop class="heart-2" offset=".55" />
        <stop class="heart-3" offset="1" />
      </radialGradient>
      <radialGradient id="glow">
        <stop class="glow-1" offset="0" />
        <stop class="glow-2" offset=".5" />
        <stop class="glow-3" offset="1" />
      </radialGradient>
      <ellipse class="glow" cx="50" cy="36" rx="108" ry="70" fill="url(#glow)" />
      <ellipse class="heart" cx="50" cy="36" rx="46" ry="23" fill="url(#heart)" />
      {COALS.map((points) => (
        <polygon points={points} fill="url(#heat)" stroke="url(#heat)" />
      ))}
    </svg>
  );
}
