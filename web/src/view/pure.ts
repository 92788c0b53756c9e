// A component that is drawn again only when a property is another.
import { Component, h, type FunctionComponent } from "preact";

export function pure<P extends object>(draw: FunctionComponent<P>): FunctionComponent<P> {
  class Pure extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const keys = new Set([...Object.keys(next), ...Object.keys(this.props)]) as Set<keyof P>;
      return [...keys].some((key) => !Object.is(next[key], (this.props as P)[key]));
    }

    override render() {
      return h(draw, this.props as P);
    }
  }
  return Pure as unknown as FunctionComponent<P>;
}
