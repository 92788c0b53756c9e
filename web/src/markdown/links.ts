// Which links of a model's text may be followed.

const SCHEMES = ["http:", "https:", "mailto:"];

/** The address, or nothing where it is not one to another place: a model's text must not act on this page. */
export function safeHref(href: string): string | undefined {
  try {
    const url = new URL(href);
    return SCHEMES.includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}
