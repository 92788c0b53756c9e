// TeX in a model's text: not set, but kept as it was written, where Markdown would eat its backslashes and underscores.
import type { TokenizerAndRendererExtension } from "marked";

const MATH = /^(?:\\\([^]{1,2000}?\\\)|\\\[[^]{1,2000}?\\\]|\$\$[^]{1,2000}?\$\$)/;

export const math: TokenizerAndRendererExtension = {
  name: "math",
  level: "inline",
  start: (text) => /\\[([]|\$\$/.exec(text)?.index,
  tokenizer(text) {
    const raw = MATH.exec(text)?.[0];
    return raw === undefined ? undefined : { type: "math", raw, text: raw.slice(2, -2).trim() };
  },
};
