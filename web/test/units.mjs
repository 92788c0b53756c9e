// What needs no browser: events however they are cut, the tree, requests, imports. Sources are bundled as the page's are.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The exports of some sources. */
async function load(...paths) {
  const contents = paths.map((path) => `export * from "./src/${path}";`).join("\n");
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root },
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const page = await load(
  "api/events.ts",
  "api/chat.ts",
  "api/memory.ts",
  "conversation.ts",
  "settings.ts",
  "store/transfer.ts",
  "markdown/entities.ts",
  "markdown/links.ts",
  "markdown/streaming.ts",
  "view/format.ts",
);

async function eventsOf(pieces) {
  async function* body() {
    yield* pieces;
  }
  const found = [];
  for await (const event of page.serverEvents(body())) found.push(event);
  return found;
}

test("what follows a deleted message goes with it, and another branch is shown", () => {
  const message = (id, parent, role) => ({ id, parent, role, text: id, created: 1 });
  const messages = [
    message("q", null, "user"),
    message("a1", "q", "assistant"),
    message("a2", "q", "assistant"),
    message("q2", "a2", "user"),
    message("b", "q2", "assistant"),
  ];
  const conversation = { messages, leaf: "b" };
  const rest = (id) => {
    const { messages: left, leaf } = page.without(conversation, messages.find((m) => m.id === id));
    return [left.map((m) => m.id).join(" "), leaf];
  };
  assert.deepEqual(rest("b"), ["q a1 a2 q2", "q2"]);
  assert.deepEqual(rest("a2"), ["q a1", "a1"]);
  assert.deepEqual(rest("a1"), ["q a2 q2 b", "b"]);
  assert.deepEqual(rest("q"), ["", null]);
});

test("events are the same wherever the network cuts them", async () => {
  const text = 'data: {"a": "é€😀"}\r\n\r\n: comment\nevent: error\ndata:one\ndata: two\n\nid: 3\r\rdata: [DONE]\r\n\r\ndata: unfinished';
  const bytes = new TextEncoder().encode(text);
  const wanted = [
    { event: "message", data: '{"a": "é€😀"}' },
    { event: "error", data: "one\ntwo" },
    { event: "message", data: "[DONE]" },
  ];
  for (let at = 0; at <= bytes.length; at++) {
    assert.deepEqual(await eventsOf([bytes.slice(0, at), bytes.slice(at)]), wanted, `cut at ${at}`);
  }
  assert.deepEqual(await eventsOf([...bytes].map((byte) => Uint8Array.of(byte))), wanted);
});

const message = (id, parent, role, text, more = {}) => ({ id, parent, role, text, created: 1, finish: "stop", ...more });
const conversation = (messages, leaf, more = {}) => ({
  id: "0123456789abcdef", title: "t", created: 1, updated: 2, model: "m", system: "", settings: {}, tools: "", messages, leaf, ...more,
});

const TREE = conversation(
  [
    message("q1", null, "user", "one"),
    message("a1", "q1", "assistant", "uno"),
    message("a2", "q1", "assistant", "ein"),
    message("q2", "a1", "user", "two"),
    message("a3", "q2", "assistant", "due"),
    message("q3", null, "user", "other"),
  ],
  "a3",
);

test("a path goes from the first question to the leaf, and a branch is shown down to its newest messages", () => {
  const ids = (shown) => page.path(shown).map((m) => m.id).join(" ");
  assert.equal(ids(TREE), "q1 a1 q2 a3");
  assert.equal(ids(page.show(TREE, "a2")), "q1 a2");
  assert.equal(ids(page.show(TREE, "a1")), "q1 a1 q2 a3");
  assert.equal(ids(page.show(TREE, "q3")), "q3");
  assert.deepEqual(page.siblings(TREE, TREE.messages[1]).map((m) => m.id), ["a1", "a2"]);
  assert.deepEqual(page.siblings(TREE, TREE.messages[0]).map((m) => m.id), ["q1", "q3"]);
});

test("failed answers and calls without results are not sent, and questions in a row become one", () => {
  const calls = [{ id: "c", name: "f", arguments: "{}" }];
  const messages = [
    message("1", null, "user", "a"),
    message("2", "1", "assistant", "", { finish: "error", error: "no" }),
    message("3", "2", "user", "b"),
    message("4", "3", "assistant", "", { calls }),
    message("5", "4", "user", "c"),
    message("6", "5", "assistant", "calling", { calls }),
    message("7", "6", "tool", "7", { callId: "c" }),
  ];
  const body = page.requestBody(conversation(messages, "7", { system: "s", settings: { seed: 1 }, tools: "[]" }), "7");
  assert.deepEqual(body.messages, [
    { role: "system", content: "s" },
    { role: "user", content: "a\n\nb\n\nc" },
    { role: "assistant", content: "calling", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c", content: "7" },
  ]);
  assert.deepEqual([body.seed, body.tools], [1, []]);
});

test("call deltas are put together by their index", () => {
  const deltas = [
    { index: 0, id: "a", function: { name: "f", arguments: "" } },
    { index: 1, id: "b", function: { name: "g", arguments: "{" } },
    { index: 0, function: { arguments: "{}" } },
    { index: 1, function: { arguments: "}" } },
    { index: 1e9, id: "c", custom: { name: "h", input: "free" } },
  ];
  assert.deepEqual(deltas.reduce((calls, delta) => page.addCalls(calls, [delta]), []), [
    { id: "a", name: "f", arguments: "{}" },
    { id: "b", name: "g", arguments: "{}" },
    { id: "c", name: "h", arguments: "free", custom: true },
  ]);
});

test("an export is imported as it was, under new ids of messages", () => {
  const [back] = page.imported(page.exported([TREE]));
  assert.equal(back.id, TREE.id);
  const shape = (of) => page.path(of).map((m) => [m.role, m.text]);
  assert.deepEqual(shape(back), shape(TREE));
  assert.equal(back.messages.length, TREE.messages.length);
  assert.equal(new Set([...back.messages, ...TREE.messages].map((m) => m.id)).size, 12);
});

test("an import with any field of another type is refused, and unknown fields are dropped", () => {
  const file = (change) => {
    const full = message("a", null, "assistant", "x", {
      model: "m", thinking: "t", thinkingMs: 1, calls: [{ id: "c", name: "n", arguments: "{}" }],
      stats: { prompt: 1, cached: 1, completion: 1, promptMs: 1, predictedMs: 1, perSecond: 1, firstMs: 1 },
    });
    const of = conversation([full], "a");
    change(of, full);
    return JSON.stringify({ format: "akunu-conversations", version: 1, conversations: [of] });
  };
  assert.equal(page.imported(file(() => {})).length, 1);
  const wrong = [null, {}, [], true, -1];
  for (const key of ["id", "title", "created", "updated", "model", "system", "tools", "messages", "leaf"]) {
    for (const value of wrong.filter((v) => !(key === "messages" && Array.isArray(v)))) {
      assert.throws(() => page.imported(file((of) => (of[key] = value))), page.ImportError, `${key} ${JSON.stringify(value)}`);
    }
  }
  for (const key of ["id", "parent", "role", "text", "created", "model", "thinking", "thinkingMs", "calls", "finish", "stats"]) {
    for (const value of wrong.filter((v) => !(key === "parent" && v === null) && !(key === "calls" && Array.isArray(v)))) {
      assert.throws(() => page.imported(file((_, m) => (m[key] = value))), page.ImportError, `${key} ${JSON.stringify(value)}`);
    }
  }
  const [read] = page.imported(file((of, m) => {
    of.settings = { temperature: 99, seed: 3, evil: 1 };
    of.evil = m.evil = 1;
  }));
  assert.deepEqual(read.settings, { seed: 3 });
  assert.equal("evil" in read || "evil" in read.messages[0], false);
  assert.equal({}.polluted, undefined);
  page.imported(file((of) => (of.settings = JSON.parse('{"__proto__": {"polluted": 1}}'))));
  assert.equal({}.polluted, undefined);
});

test("memory is read from the metrics by its label", () => {
  const text = '# HELP x\nakunu_memory_bytes{use="kv",model="a"} 1e6\nakunu_memory_bytes{use="weights"} 3000000\nakunu_memory_bytes{use="kv"} 5\nother 1\nakunu_memory_budget_bytes 8e6\n';
  assert.deepEqual(page.readMemory(text), { parts: [["weights", 3e6], ["kv", 1000005]], total: 4000005, budget: 8e6 });
  assert.equal(page.readMemory("other 1\nakunu_memory_bytes NaN\n"), undefined);
});

test("only links to other places are followed", () => {
  for (const good of ["https://a.example/?q=1#x", "http://a.example/", "mailto:a@b.example"]) assert.equal(page.safeHref(good), good);
  for (const bad of ["javascript:1", " JavaScript:1", "java\nscript:1", "data:text/html,x", "vbscript:1", "file:///etc", "blob:x", "/v1", "x", "", "//a", "https://"]) {
    assert.equal(page.safeHref(bad), undefined, bad);
  }
  assert.equal(page.decodeEntities("&lt;&#60;&#x3C;&amp;lt;&nope;&#0;&#x110000;&constructor;"), "<<<&lt;&nope;\ufffd\ufffd&constructor;");
});

test("text that streams in looks like what it will be", () => {
  const rows = {
    "use `so": "use `so`",
    "use `so`": "use `so`",
    "is **bo": "is **bo**",
    "is **bold** and **": "is **bold** and ",
    "is **bold ": "is **bold**",
    "a\n-": "a",
    "a\n- ": "a",
    "a\n- b": "a\n- b",
    "a\n\n``": "a\n",
    "a\n\n12.": "a\n",
    "```rust\nlet a = b **": "```rust\nlet a = b **",
    "```\na\n```\nis **bo": "```\na\n```\nis **bo**",
    "```\na\n```": "```\na",
    "": "",
  };
  for (const [text, shown] of Object.entries(rows)) assert.equal(page.mended(text), shown, JSON.stringify(text));
});

test("a title is the first line, without marks, cut at a word", () => {
  assert.equal(page.titleOf("  # Hello `world`\nmore"), "Hello world");
  assert.equal(page.titleOf("word ".repeat(40)), `${"word ".repeat(12).trim()}…`);
  assert.equal(page.titleOf("```"), "Untitled");
});

test("times are listed under the day they were", () => {
  const noon = new Date(2026, 4, 20, 12).getTime();
  const day = 86_400_000;
  assert.deepEqual([0, 0.4, 1, 7, 40].map((days) => page.age(noon - days * day, noon)), ["Today", "Today", "Yesterday", "Last seven days", "April 2026"]);
});
