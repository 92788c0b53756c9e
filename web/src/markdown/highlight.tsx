// Colours for code: highlight.js finds the scopes, this makes elements of them. No HTML text in between.
import type { Emitter } from "highlight.js";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ComponentChild } from "preact";

const LANGUAGES = { bash, c, cpp, css, diff, go, ini, java, javascript, json, python, rust, sql, typescript, xml, yaml };

interface Scope {
  scope: string;
  children: (Scope | string)[];
}

/** What highlight.js calls while it reads, kept as a tree. */
class ScopeTree implements Emitter {
  readonly root: Scope = { scope: "", children: [] };
  #stack: Scope[] = [this.root];

  get #top(): Scope {
    return this.#stack.at(-1)!;
  }

  addText(text: string): void {
    if (text) this.#top.children.push(text);
  }

  startScope(scope: string): void {
    const opened: Scope = { scope, children: [] };
    this.#top.children.push(opened);
    this.#stack.push(opened);
  }

  endScope(): void {
    // The root stays, so that `#top` always is.
    if (this.#stack.length > 1) this.#stack.pop();
  }

  __addSublanguage(other: Emitter, language: string): void {
    const { root } = other as ScopeTree;
    this.#top.children.push(language ? { ...root, scope: `language:${language}` } : root);
  }

  openNode = (scope: string) => this.startScope(scope);
  closeNode = () => this.endScope();
  finalize(): void {}
  toHTML = () => "";
}

for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
hljs.configure({ __emitter: ScopeTree as never });

/** Longer code is shown without colours: it would hold up the page. */
const MAX_LENGTH = 60_000;
const PROBE_LENGTH = 2_000;
const PROBE_MS = 50;

export function highlight(code: string, language: string): ComponentChild {
  if (code.length > MAX_LENGTH || !hljs.getLanguage(language)) return code;
  // Some grammars take quadratic time for some texts. Ever longer parts go first, so that this is known before it hurts.
  for (let length = PROBE_LENGTH; length < code.length; length *= 2) {
    const began = performance.now();
    scopes(code.slice(0, length), language);
    if (performance.now() - began > PROBE_MS) return code;
  }
  return scopes(code, language)?.children.map(element) ?? code;
}

function scopes(code: string, language: string): Scope | undefined {
  const { _emitter, errorRaised } = hljs.highlight(code, { language, ignoreIllegals: true });
  return errorRaised ? undefined : (_emitter as unknown as ScopeTree).root;
}

/** A scope `title.function` becomes the class `hl-title hl-function`. */
function element(node: Scope | string): ComponentChild {
  if (typeof node === "string") return node;
  const names = node.scope.startsWith("language:") ? [] : node.scope.split(".");
  return <span class={names.map((name) => `hl-${name}`).join(" ")}>{node.children.map(element)}</span>;
}
