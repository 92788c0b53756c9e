// Markdown as elements. A model's text is hostile: it is never HTML here. Tokens become elements of a fixed set, raw HTML is
// shown as the text it is, images are not loaded, links lead only to other places.
import { Marked, type Token, type Tokens } from "marked";
import { Component, type ComponentChild, type ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { CodeBlock } from "./code";
import { decodeEntities } from "./entities";
import { safeHref } from "./links";
import { math } from "./math";
import { mended } from "./streaming";

export function Markdown({ text, streaming }: { text: string; streaming?: boolean }) {
  const blocks = useMemo(() => lex(streaming ? mended(text) : text), [text, streaming]);
  return (
    <div class={streaming ? "prose streaming" : "prose"}>
      {blocks ? blocks.map((token, i) => <Block key={i} token={token} />) : <p class="plain">{text}</p>}
    </div>
  );
}

const marked = new Marked({ gfm: true, breaks: true, extensions: [math] });

/** Emphasis takes quadratic time in its marks; people use a few in a paragraph. */
const MAX_MARKS = 1500;

/** Nothing where the text has a paragraph of marks, or nests deeper than the lexer's stack. */
function lex(text: string): Token[] | undefined {
  const paragraphs = text.replace(/^[ \t]*```[^]*?^[ \t]*```/gm, "").split(/\n[ \t]*\n/);
  if (paragraphs.some((paragraph) => (paragraph.match(/[*_~[\]`<&]/g)?.length ?? 0) > MAX_MARKS)) return undefined;
  try {
    return marked.lexer(text).filter((token) => token.type !== "space" && token.type !== "def");
  } catch {
    return undefined;
  }
}

/** While text streams in only the last block differs: the others are not drawn again. */
class Block extends Component<{ token: Token }> {
  override shouldComponentUpdate(next: { token: Token }): boolean {
    return next.token.raw !== this.props.token.raw || next.token.type !== this.props.token.type;
  }

  override render() {
    return block(this.props.token as Tokens.Generic);
  }
}

const blocks = (tokens: Token[] = []): ComponentChildren => tokens.map((token) => block(token as Tokens.Generic));
const inlines = (tokens: Token[] = []): ComponentChildren => tokens.map((token) => inline(token as Tokens.Generic));

function block(token: Tokens.Generic): ComponentChild {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p>{inlines(token.tokens)}</p>;
    case "heading": {
      // The page has its own h1 and h2.
      const Heading = `h${Math.min(token.depth + 2, 6)}` as "h3";
      return <Heading class={`h${token.depth}`}>{inlines(token.tokens)}</Heading>;
    }
    case "code":
      return <CodeBlock code={token.text} language={/^[\w+#.-]*/.exec(token.lang ?? "")?.[0] ?? ""} />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    case "html":
      return <p class="plain">{token.raw.trimEnd()}</p>;
    default:
      return inline(token);
  }
}

function list(token: Tokens.List): ComponentChild {
  const items = token.items.map((item) => <li class={item.task ? "task" : undefined}>{blocks(item.tokens)}</li>);
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

function table(token: Tokens.Table): ComponentChild {
  const cells = (row: Tokens.TableCell[], Cell: "td" | "th") =>
    row.map((cell) => <Cell class={cell.align ? `align-${cell.align}` : undefined}>{inlines(cell.tokens)}</Cell>);
  return (
    <div class="table" role="region" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>{cells(token.header, "th")}</tr>
        </thead>
        <tbody>
          {token.rows.map((row) => (
            <tr>{cells(row, "td")}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(token: Tokens.Generic): ComponentChild {
  switch (token.type) {
    case "text":
      return token.tokens ? inlines(token.tokens) : decodeEntities(token.text);
    case "escape":
      return token.text;
    case "strong":
      return <strong>{inlines(token.tokens)}</strong>;
    case "em":
      return <em>{inlines(token.tokens)}</em>;
    case "del":
      return <del>{inlines(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "math":
      return <span class="math">{token.text}</span>;
    case "br":
      return <br />;
    case "checkbox":
      return <input type="checkbox" checked={token.checked} disabled aria-label={token.checked ? "done" : "to do"} />;
    case "link":
      return link(token.autolink ? token.href : decodeEntities(token.href), inlines(token.tokens));
    case "image":
      return link(decodeEntities(token.href), `🖼 ${decodeEntities(token.text) || "image"}`);
    default:
      // Raw HTML, and what a later Markdown may bring.
      return token.raw;
  }
}

function link(href: string, children: ComponentChildren): ComponentChild {
  const safe = safeHref(href);
  if (safe === undefined) return <span class="dead-link">{children}</span>;
  return (
    <a href={safe} target="_blank" rel="noopener noreferrer nofollow" title={safe}>
      {children}
    </a>
  );
}
