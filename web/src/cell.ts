// A value that views follow: setting it draws them again.
import { useLayoutEffect, useState } from "preact/hooks";

export class Cell<T> {
  #value: T;
  #followers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set value(next: T) {
    if (Object.is(next, this.#value)) return;
    this.#value = next;
    for (const follower of [...this.#followers]) follower();
  }

  /** Returns what ends it. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => void this.#followers.delete(follower);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [, count] = useState(0);
  const drawn = cell.value;
  useLayoutEffect(() => {
    const draw = () => count((n) => n + 1);
    // The value may have changed between drawing and following.
    if (!Object.is(drawn, cell.value)) draw();
    return cell.follow(draw);
  }, [cell]);
  return drawn;
}
