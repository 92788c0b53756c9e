// A value that views follow: setting it draws them again.
import { useLayoutEffect, useReducer } from "preact/hooks";

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

  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const drawn = cell.value;
  useLayoutEffect(() => {
    const unfollow = cell.follow(() => draw(undefined as never));
    // The value may have changed between drawing and following.
    if (!Object.is(drawn, cell.value)) draw(undefined as never);
    return unfollow;
  }, [cell]);
  return drawn;
}
