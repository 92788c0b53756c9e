// Drives the page in a real browser: `AKUNU_URL=http://127.0.0.1:8080/ node test/page.mjs`.
// Works against the mock and against the real server (AKUNU_KEY: its key, if it wants one). What a model cannot be made to say
// (hostile text, thinking, calls, errors) is written here and given to the page in place of the server's answer.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { browserPath, launch } from "./browser.mjs";

const url = process.env.AKUNU_URL;
if (!url) throw new Error("AKUNU_URL must be the address of a server");
const origin = new URL(url).origin;
const key = process.env.AKUNU_KEY;
const browser = await launch();
const LIMIT_MS = 20_000;

// --- The page, as a reader uses it.

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  context.setDefaultTimeout(LIMIT_MS);
  // Short answers: a real model would else go on for as long as it likes.
  await context.addInitScript(() => (localStorage["akunu.preferences"] ??= '{"settings":{"max_tokens":64}}'));
  if (key) await context.addInitScript((value) => sessionStorage.setItem("akunu.key", value), key);
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => {
    // The browser itself logs every status that is an error; the page shows those as sentences.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) page.problems.push(message.text());
  });
  page.on("request", (request) => {
    const own = request.url().startsWith(origin) || /^(data|blob):/.test(request.url());
    if (!own) page.problems.push(`a request to ${request.url()}`);
  });
  await page.goto(url);
  await page.locator(".model-button .loaded-dot").waitFor();
  await page.locator(".model-name", { hasNotText: "No model" }).first().waitFor();
  return page;
}

const answers = (page) => page.locator("article.answer");
const last = (page) => answers(page).last();

async function finished(page) {
  await page.locator("article.answer").last().waitFor();
  await page.waitForFunction(() => document.querySelector(".app")?.classList.contains("busy") === false);
}

async function send(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send", exact: true }).click();
}

/** Sends, waits for the answer, and returns its text. */
async function ask(page, text) {
  const before = await answers(page).count();
  await send(page, text);
  await answers(page).nth(before).waitFor();
  await finished(page);
  return proseOf(page);
}

const proseOf = (page) => last(page).locator("> .prose").innerText();

/** The body of the next chat request. */
async function nextBody(page) {
  const request = await page.waitForRequest((r) => r.url().endsWith("/v1/chat/completions"));
  return request.postDataJSON();
}

/** Brings the network down to a speed at which every stream takes its time, in bytes a second. */
async function slowly(page, downloadThroughput, work) {
  const session = await page.context().newCDPSession(page);
  const conditions = { offline: false, latency: 0, uploadThroughput: -1 };
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", { ...conditions, downloadThroughput });
  try {
    return await work();
  } finally {
    if (!page.isClosed()) {
      await session.send("Network.emulateNetworkConditions", { ...conditions, downloadThroughput: -1 });
      await session.detach();
    }
  }
}

/** Answers the page's next chat request in the server's place. */
async function answerNext(page, { status = 200, body, headers = {} }) {
  const contentType = status === 200 ? "text/event-stream" : "application/json";
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ status, contentType, headers, body }), { times: 1 });
}

const stream = (...chunks) => chunks.map((chunk) => `data: ${typeof chunk === "string" ? chunk : JSON.stringify(chunk)}\n\n`).join("");
const delta = (part, finish_reason = null) => ({ choices: [{ index: 0, delta: part, finish_reason }] });
const written = (...parts) => ({ body: stream(...parts.map((part) => delta(part)), delta({}, "stop"), "[DONE]") });

async function noSidewaysScroll(page, where) {
  const over = await page.evaluate(() =>
    [document.documentElement, document.body, ...document.querySelectorAll("main, .thread, .settings-body, .list")]
      .filter((element) => element.scrollWidth > element.clientWidth + 1)
      .map((element) => `${element.tagName}.${element.className}: ${element.scrollWidth} > ${element.clientWidth}`),
  );
  assert.deepEqual(over, [], where);
}

// --- What it must do.

const steps = {
  async "an answer streams in, and says its tokens and speed"(page) {
    const lengths = await slowly(page, 5000, async () => {
      await send(page, "Slow: write about the sea.");
      const seen = new Set();
      await page.locator('article.answer[aria-busy="true"]').waitFor();
      while (await page.locator(".busy").count()) {
        const text = await page.locator("article.answer > .prose").allInnerTexts();
        seen.add(text.join("").length);
      }
      return seen;
    });
    await finished(page);
    assert.ok(lengths.size >= 3, `the answer was seen at ${lengths.size} lengths`);
    assert.match(await last(page).locator(".stats").innerText(), /\d tokens\/s\s*·?\s*\d+ tokens/);
    await last(page).getByTitle("Tokens and speed").click();
    assert.match(await page.locator(".facts").innerText(), /Prompt\s+[\d,]+ tokens\s+From the cache\s+[\d,]+ tokens\s+(The rest\s+\w.*\s+)?Reading the prompt/);
    await page.keyboard.press("Escape");
  },

  async "Escape stops an answer, and what was written stays"(page) {
    await slowly(page, 3000, async () => {
      await send(page, "Slow: tell me a long story.");
      await page.waitForFunction(() => (document.querySelector("article.answer.last > .prose")?.textContent ?? "").length > 10);
      await page.keyboard.press("Escape");
      await finished(page);
    });
    assert.match(await last(page).innerText(), /Stopped\./);
    assert.match(await last(page).locator(".stats").innerText(), /[1-9]\d* tokens/);
    assert.ok((await proseOf(page)).length > 10);
    assert.match(await ask(page, "And now?"), /\S/);
  },

  async "the button stops an answer too"(page) {
    await slowly(page, 3000, async () => {
      await send(page, "Slow: tell me a long story.");
      await page.getByRole("button", { name: "Stop", exact: true }).click();
      await finished(page);
    });
    assert.match(await last(page).innerText(), /Stopped\./);
  },

  async "answering again makes a branch, and branches can be switched"(page) {
    const first = await ask(page, "Name a colour.");
    await last(page).getByRole("button", { name: "Answer again" }).click();
    await finished(page);
    const branches = last(page).getByRole("group", { name: "Branches" });
    assert.equal((await branches.innerText()).trim(), "2/2");
    const second = await proseOf(page);
    await branches.getByRole("button", { name: "Previous branch" }).click();
    assert.equal((await branches.innerText()).trim(), "1/2");
    assert.equal(await proseOf(page), first);
    await branches.getByRole("button", { name: "Next branch" }).click();
    assert.equal(await proseOf(page), second);
  },

  async "an answer that was cut is gone on with, in its place"(page) {
    await answerNext(page, { body: stream(delta({ reasoning_content: "Hm." }), delta({ content: "One, two," }), delta({}, "length"), "[DONE]") });
    await ask(page, "Count.");
    await last(page).getByText("reached the longest length").waitFor();
    await answerNext(page, written({ content: " three." }));
    const [body] = await Promise.all([nextBody(page), last(page).getByRole("button", { name: "Continue" }).click()]);
    await finished(page);
    assert.deepEqual(body.messages.at(-1), { role: "assistant", content: "One, two," });
    assert.equal(body.reasoning_effort, "none");
    assert.equal(await proseOf(page), "One, two, three.");
    assert.equal(await answers(page).count(), 1);
    assert.equal(await page.getByRole("button", { name: "Continue" }).count(), 0);
    // By the server itself, of so few tokens that every answer is cut.
    await page.evaluate(() => (localStorage["akunu.preferences"] = '{"settings":{"max_tokens":8}}'));
    await page.goto(url);
    await page.reload();
    const before = await ask(page, "Slow: tell me a long story.");
    await last(page).getByRole("button", { name: "Continue" }).click();
    await finished(page);
    const after = await proseOf(page);
    assert.ok(after.length > before.length && after.startsWith(before.slice(0, 10)), `${before} became ${after}`);
    assert.deepEqual(await last(page).getByRole("alert").allInnerTexts(), []);
  },

  async "a message is deleted with what follows it, and brought back"(page) {
    await ask(page, "Name a metal.");
    await ask(page, "And a gas.");
    await last(page).getByRole("button", { name: "Answer again" }).click();
    await finished(page);
    await last(page).getByRole("button", { name: "Delete answer" }).click();
    await page.getByText("The message is deleted.").waitFor();
    assert.equal(await last(page).getByRole("group", { name: "Branches" }).count(), 0);
    const questions = page.getByRole("article", { name: "You" });
    await questions.last().hover();
    await questions.last().getByRole("button", { name: "Delete question" }).click();
    await page.getByText("2 messages are deleted.").waitFor();
    assert.equal(await page.locator(".bubble").count(), 1);
    await page.getByRole("button", { name: "Undo" }).click();
    assert.equal(await page.locator(".bubble").count(), 2);
    await page.reload();
    await page.locator(".bubble").nth(1).waitFor();
    await questions.first().hover();
    await questions.first().getByRole("button", { name: "Delete question" }).click();
    await page.locator(".welcome").waitFor();
    await page.getByText("No conversations yet.").waitFor();
  },

  async "editing a question makes a branch with its own answers"(page) {
    await ask(page, "Name a fruit.");
    await ask(page, "And another.");
    await page.getByRole("article", { name: "You" }).first().hover();
    await page.getByRole("button", { name: "Edit", exact: true }).first().click();
    await page.getByLabel("Edit the question").fill("Name a tree.");
    const [body] = await Promise.all([nextBody(page), page.keyboard.press("Enter")]);
    await finished(page);
    assert.deepEqual(body.messages.filter((m) => m.role !== "system"), [{ role: "user", content: "Name a tree." }]);
    assert.equal(await answers(page).count(), 1);
    await page.getByRole("button", { name: "Previous branch" }).first().click();
    assert.equal(await page.locator(".bubble").first().innerText(), "Name a fruit.");
    assert.equal(await answers(page).count(), 2);
  },

  async "a question is sent with the whole branch before it, and nothing of others"(page) {
    const first = await ask(page, "One.");
    await last(page).getByRole("button", { name: "Answer again" }).click();
    await finished(page);
    await page.getByRole("button", { name: "Previous branch" }).click();
    const [body] = await Promise.all([nextBody(page), send(page, "Two.")]);
    await finished(page);
    assert.deepEqual(body.messages.map((m) => m.role), ["user", "assistant", "user"]);
    assert.equal(body.messages[1].content.replace(/\s+/g, " ").trim(), first.replace(/\s+/g, " ").trim());
    assert.deepEqual([body.stream, body.stream_options], [true, { include_usage: true, continuous_usage_stats: true }]);
  },

  async "a conversation is still there after a reload"(page) {
    await ask(page, "Name a bird.");
    await last(page).getByRole("button", { name: "Answer again" }).click();
    await finished(page);
    const before = await page.locator(".thread").innerText();
    await page.reload();
    await page.locator("article.answer").waitFor();
    assert.equal(await page.locator(".thread").innerText(), before);
    await page.goto(url);
    await page.locator(".entry", { hasText: "Name a bird." }).first().locator(".entry-title").click();
    await page.locator("article.answer").waitFor();
    assert.equal(await page.locator(".thread").innerText(), before);
  },

  async "an answer that a closed page interrupts says so, and can be asked for again"(closed) {
    await closed.evaluate(() => (localStorage["akunu.preferences"] = '{"settings":{"max_tokens":2000}}'));
    await closed.reload();
    const page = await slowly(closed, 3000, async () => {
      await send(closed, "Slow: tell me a long story.");
      await closed.waitForFunction(() => (document.querySelector("article.answer > .prose")?.textContent ?? "").length > 10);
      await closed.waitForTimeout(1500);
      const [address, opened] = [closed.url(), await closed.context().newPage()];
      await closed.close();
      await opened.goto(address);
      return opened;
    });
    await last(page).getByText("Interrupted: the page was closed.").waitFor();
    assert.ok((await proseOf(page)).length > 10);
    await last(page).getByRole("button", { name: "Answer again" }).click();
    await page.keyboard.press("Escape");
    await finished(page);
    assert.doesNotMatch(await last(page).innerText(), /Interrupted/);
  },

  async "another model answers when it is chosen"(page) {
    await page.getByRole("button", { name: /^Model:/ }).click();
    const rows = page.getByRole("radio");
    await rows.first().waitFor();
    const others = page.locator('[role="radio"][aria-checked="false"]:enabled');
    if ((await others.count()) === 0) return "the server has one model";
    const other = others.first();
    const name = await other.locator(".model-name").innerText();
    await other.click();
    const [body] = await Promise.all([nextBody(page), send(page, "Who are you?")]);
    await finished(page);
    assert.equal(body.model, name);
    assert.deepEqual(await last(page).getByRole("alert").allInnerTexts(), []);
    assert.match(await page.getByRole("button", { name: /^Model:/ }).innerText(), new RegExp(name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  },

  async "settings and the system prompt are sent, and only those that are set"(page) {
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await page.getByLabel("System prompt").fill("Be brief.");
    // Key by key: what is half typed must stay.
    await page.locator("label", { hasText: "Temperature" }).locator("+ input").pressSequentially("0.25");
    await page.locator("summary", { hasText: "More" }).click();
    await page.locator("label", { hasText: "Presence" }).locator("+ input").pressSequentially("-1.05");
    await page.getByLabel("Seed", { exact: true }).fill("7");
    assert.equal(await page.getByLabel("Longest answer").inputValue(), "64");
    const [body] = await Promise.all([nextBody(page), send(page, "Hello.")]);
    await finished(page);
    assert.equal(body.messages[0].role, "system");
    assert.equal(body.messages[0].content, "Be brief.");
    const { model, messages, stream: _, stream_options, ...rest } = body;
    assert.deepEqual(rest, { temperature: 0.25, presence_penalty: -1.05, seed: 7, max_tokens: 64 });
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".settings").count(), 0);
    await page.keyboard.press("Control+,");
    await page.getByRole("button", { name: "Reset" }).click();
    assert.equal(await page.getByLabel("Seed", { exact: true }).inputValue(), "");
  },

  async "a hostile answer is text and nothing else"(page) {
    const hostile = [
      '<img src=x onerror="window.pwned=1"> <script>window.pwned=2</script> <b>bold</b>',
      '<iframe srcdoc="<script>parent.pwned=3</script>"></iframe>',
      '<a href="javascript:window.pwned=4">raw</a> [js](javascript:window.pwned=5) [JS](JaVaScRiPt:window.pwned=6)',
      "[data](data:text/html,<script>window.pwned=7</script>) [vb](vbscript:x) [rel](/v1/models) <javascript:window.pwned=8>",
      "![beacon](http://127.0.0.1:9/beacon.png) [ok](https://example.org/?a=1&amp;b=2 \"t\")",
      '```html"><script>window.pwned=9</script>\n<img src=x onerror="window.pwned=10">\n```',
      "| <img src=x onerror=alert(1)> | b |\n|--|--|\n| <svg onload=alert(1)> | `<script>` |",
    ].join("\n\n");
    await answerNext(page, written({ content: hostile }));
    await send(page, "Be hostile.");
    await finished(page);
    for (const name of ["js", "JS", "data", "rel"]) await last(page).getByText(name, { exact: true }).click();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    const made = await last(page).locator(".prose").evaluate((prose) => ({
      elements: [...prose.querySelectorAll("img, script, iframe, svg:not(.icon), b, style, object, form")].length,
      handlers: [...prose.querySelectorAll("*")].flatMap((e) => [...e.attributes]).filter((a) => a.name.startsWith("on")).length,
      links: [...prose.querySelectorAll("a")].map((a) => [a.getAttribute("href"), a.rel, a.target]),
    }));
    const rel = "noopener noreferrer nofollow";
    assert.deepEqual(made, {
      elements: 0,
      handlers: 0,
      links: [
        ["http://127.0.0.1:9/beacon.png", rel, "_blank"],
        ["https://example.org/?a=1&b=2", rel, "_blank"],
      ],
    });
    assert.match(await last(page).innerText(), /<img src=x onerror="window\.pwned=1">/);
  },

  async "an answer that nests too deeply is shown as it is"(page) {
    const deep = ">".repeat(30_000) + " **deep**";
    await answerNext(page, written({ content: deep }));
    assert.equal((await ask(page, "Be deep.")).length, deep.length);
  },

  async "an answer cannot hold up the page"(page) {
    const blocks = ["0.", "a", "_", "1e"].flatMap((part) => ["ini", "java", "c"].map((name) => `\`\`\`${name}\n${part.repeat(15_000)}\n\`\`\``));
    const texts = [blocks.join("\n\n"), "_*a_".repeat(10_000), "x_y_".repeat(10_000), "1. ".repeat(10_000), "[".repeat(30_000), `\`\`\`js\n${"\n".repeat(50_000)}\n\`\`\``];
    for (const [i, content] of texts.entries()) {
      await answerNext(page, written({ content }));
      const began = Date.now();
      await ask(page, "Be slow.");
      const took = Date.now() - began;
      assert.ok(took < 20_000, `text ${i} took ${took} ms`);
    }
  },

  async "the policy forbids what the page never does"(page) {
    const held = await page.evaluate(async () => {
      const blocked = [];
      document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
      const script = document.createElement("script");
      const attempts = [
        () => (script.textContent = "window.pwned = 1"),
        () => document.body.setAttribute("onclick", "window.pwned = 2"),
        () => (document.body.innerHTML = "<p>"),
        () => document.body.append(Object.assign(new Image(), { src: "/favicon.ico" })),
        // From a timer: what this function itself does is allowed more.
        () => setTimeout(() => new Function("window.pwned = 3")()),
        () => setTimeout("window.pwned = 4"),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
        } catch {
          // Refusing by an exception is refusing.
        }
      }
      document.body.click();
      await fetch("http://127.0.0.1:9/").catch(() => undefined);
      await new Promise((done) => setTimeout(done, 200));
      return { blocked: [...new Set(blocked)].sort(), pwned: window.pwned };
    });
    page.problems = page.problems.filter((p) => !/violates|trusted|policy|unsafe-eval|a request to http:\/\/127\.0\.0\.1:9/i.test(p));
    assert.equal(held.pwned, undefined);
    for (const directive of ["connect-src", "img-src", "require-trusted-types-for"]) {
      assert.ok(held.blocked.includes(directive), `${directive} is not among ${held.blocked}`);
    }
  },

  async "thinking is folded apart from the answer"(page) {
    await answerNext(page, written({ reasoning_content: "Six times " }, { reasoning_content: "seven." }, { content: "It is **42**." }));
    assert.equal(await ask(page, "Think."), "It is 42.");
    const fold = last(page).getByRole("button", { name: /^Thought/ });
    assert.equal(await fold.getAttribute("aria-expanded"), "false");
    assert.equal(await last(page).getByText("Six times seven.").count(), 0);
    await fold.click();
    await last(page).getByText("Six times seven.").waitFor();
    const [body] = await Promise.all([nextBody(page), send(page, "Thanks.")]);
    await finished(page);
    assert.doesNotMatch(JSON.stringify(body), /Six times/);
  },

  async "a tool call is shown, and its result goes back"(page) {
    const call = (part) => ({ tool_calls: [{ index: 0, ...part }] });
    await answerNext(page, {
      body: stream(
        delta(call({ id: "call_1", type: "function", function: { name: "weather", arguments: "" } })),
        delta(call({ function: { arguments: '{"city":' } })),
        delta(call({ function: { arguments: ' "Bern"}' } })),
        delta({}, "tool_calls"),
        "[DONE]",
      ),
    });
    await send(page, "Weather?");
    await finished(page);
    assert.match(await last(page).locator(".call").innerText(), /weather[\s\S]*"city": "Bern"/);
    await last(page).getByLabel("Result").fill('{"sky": "clear"}');
    await answerNext(page, written({ content: "Clear." }));
    const [body] = await Promise.all([nextBody(page), page.getByRole("button", { name: "Give the result" }).click()]);
    await finished(page);
    assert.deepEqual(body.messages.slice(1), [
      { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "function", function: { name: "weather", arguments: '{"city": "Bern"}' } }] },
      { role: "tool", tool_call_id: "call_1", content: '{"sky": "clear"}' },
    ]);
    assert.equal(await proseOf(page), "Clear.");
  },

  async "an empty answer says so"(page) {
    await answerNext(page, written());
    await send(page, "Say nothing.");
    await finished(page);
    await last(page).getByText("The answer is empty.").waitFor();
  },

  async "every kind of error is a sentence, and trying again works"(page) {
    const message = "The prompt has 9 tokens too many.";
    const error = { error: { message, type: "invalid_request_error", code: null } };
    const failures = [
      [{ status: 400, body: JSON.stringify(error) }, message],
      [{ status: 429, body: JSON.stringify(error), headers: { "Retry-After": "3" } }, `${message} Try again in 3 s.`],
      [{ status: 502, body: "<html>Bad gateway</html>".repeat(30) }, "The server answered with status 502."],
      [{ body: stream(delta({ content: "Half" }), error) }, message],
      [{ body: stream(delta({ content: "Half" })) }, "The connection to the server broke off."],
      [{ body: "data: {not json}\n\n" }, "The server sent something that is not JSON."],
    ];
    for (const [answer, sentence] of failures) {
      await answerNext(page, answer);
      await send(page, "Fail.");
      await finished(page);
      assert.equal(await last(page).getByRole("alert").locator("p").innerText(), sentence);
    }
    await answerNext(page, { body: stream(delta({ content: "Half" }), error) });
    await send(page, "Fail.");
    await finished(page);
    await answerNext(page, written({ content: " and half" }));
    await last(page).getByRole("button", { name: "Continue" }).click();
    await finished(page);
    assert.equal(await proseOf(page), "Half and half");
    await page.route("**/v1/chat/completions", (route) => route.abort(), { times: 1 });
    await send(page, "Fail.");
    await finished(page);
    assert.match(await last(page).getByRole("alert").innerText(), /The server does not answer\./);
    await last(page).getByRole("button", { name: "Try again" }).click();
    await finished(page);
    assert.equal(await last(page).getByRole("alert").count(), 0);
    assert.match(await proseOf(page), /\S/);
  },

  async "a wanted key is asked for once and sent from then on"(page) {
    await page.addInitScript(() => sessionStorage.clear());
    const good = "Bearer right";
    const seen = [];
    const gate = async (route) => {
      const { authorization } = await route.request().allHeaders();
      seen.push(authorization);
      if (authorization !== good) {
        return route.fulfill({ status: 401, contentType: "application/json", body: '{"error":{"message":"A key is needed."}}' });
      }
      await route.fulfill({ json: { object: "list", data: [{ id: "locked", object: "model" }] } });
    };
    await page.route("**/v1/models", gate);
    await page.reload();
    const dialog = page.getByRole("dialog", { name: "API key" });
    await dialog.getByLabel("Key").fill("wrong");
    await page.keyboard.press("Enter");
    await dialog.getByText("refused").waitFor();
    await dialog.getByLabel("Key").fill("right");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Model: locked" }).waitFor();
    assert.equal(await dialog.count(), 0);
    assert.deepEqual(seen, [undefined, "Bearer wrong", good]);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("right")), false);
    await page.unroute("**/v1/models", gate);
  },

  async "Markdown becomes elements, and TeX stays as it is"(page) {
    const content = "# A\n\nb **c** *d* ~~e~~ `f`\ng &lt; 1 &amp; \\* https://h.example\n\n- [x] i\n  1. j\n\n> k\n\n|l|\n|-:|\n|m|\n\n---\n\n\\(x_1 * y_2\\) and $5 and $6 $$\n\\sum_{i}\n$$";
    await answerNext(page, written({ content }));
    await ask(page, "Markdown.");
    const html = await last(page).locator("> .prose").innerHTML();
    assert.equal(
      html.replace(/ (class|rel|target|title|role|aria-label|tabindex|type|disabled)="[^"]*"/g, ""),
      '<h3>A</h3><p>b <strong>c</strong> <em>d</em> <del>e</del> <code>f</code><br>g &lt; 1 &amp; * <a href="https://h.example/">https://h.example</a></p>' +
        '<ul><li><input>i<ol start="1"><li>j</li></ol></li></ul><blockquote><p>k</p></blockquote>' +
        "<div><table><thead><tr><th>l</th></tr></thead><tbody><tr><td>m</td></tr></tbody></table></div><hr>" +
        "<p><span>x_1 * y_2</span> and $5 and $6 <span>\\sum_{i}</span></p>",
    );
  },

  async "code is coloured and can be copied"(page) {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const code = 'fn main() {\n    println!("<b>&amp;");\n}';
    await answerNext(page, written({ content: `Here:\n\n\`\`\`rust\n${code}\n\`\`\`\n` }));
    await ask(page, "Code.");
    assert.ok((await last(page).locator("pre .hl-keyword").count()) > 0);
    assert.equal(await last(page).locator("pre").innerText(), code);
    await last(page).getByRole("button", { name: "Copy code" }).click();
    await last(page).getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), code);
  },

  async "a recording becomes its words in the message box"(page) {
    await page.route("**/v1/models", async (route) => {
      const model = (id, kind) => ({ id, object: "model", akunu: { loaded: true, kind } });
      await route.fulfill({ json: { object: "list", data: [model("talks", "chat"), model("listens", "speech")] } });
    });
    let form = "";
    await page.route("**/v1/audio/transcriptions", async (route) => {
      form = route.request().postDataBuffer().toString("latin1");
      await route.fulfill({ json: { text: " Ask not." } });
    });
    await page.reload();
    await page.getByRole("button", { name: "Model: talks" }).waitFor();
    await page.setInputFiles("#attach", { name: "talk.wav", mimeType: "audio/wav", buffer: Buffer.from("RIFF") });
    await page.waitForFunction(() => document.querySelector("#composer").value === "Ask not.");
    assert.match(form, /name="model"\r\n\r\nlistens[\s\S]*filename="talk\.wav"/);
    const drop = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(["one ``` two"], "notes.txt", { type: "text/plain" }));
      return data;
    });
    await page.dispatchEvent("main", "drop", { dataTransfer: drop });
    await page.waitForFunction(() => document.querySelector("#composer").value.includes("notes.txt:\n````\none ``` two\n````"));
  },

  async "the server's own model writes a recording down"(page) {
    const { AKUNU_RECORDING: recording, AKUNU_WORDS: words } = process.env;
    if (!recording) return "AKUNU_RECORDING names none";
    await page.setInputFiles("#attach", recording);
    await page.waitForFunction(() => document.querySelector("#composer").value !== "");
    assert.equal(await page.locator("#composer").inputValue(), words);
  },

  async "conversations are renamed, searched, deleted and brought back"(page) {
    await ask(page, "Zebras have stripes.");
    const entry = page.locator(".entry.shown");
    await entry.hover();
    await entry.getByRole("button", { name: /^Actions/ }).click();
    await page.getByRole("button", { name: "Rename" }).click();
    await page.getByLabel("Title").fill("Animals <b>");
    await page.keyboard.press("Enter");
    await page.locator(".entry", { hasText: "Animals <b>" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("stripes zebras");
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 1);
    await page.getByLabel("Search conversations").fill("no such words");
    await page.getByText("Nothing found.").waitFor();
    await page.getByLabel("Search conversations").fill("");
    await entry.hover();
    await entry.getByRole("button", { name: /^Actions/ }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.locator(".entry", { hasText: "Animals" }).waitFor({ state: "detached" });
    await page.locator(".welcome").waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.locator(".bubble", { hasText: "Zebras have stripes." }).waitFor();
    await page.reload();
    await page.locator(".entry", { hasText: "Animals <b>" }).waitFor();
  },

  async "an export can be imported elsewhere, once"(page) {
    await ask(page, "Name a river.");
    await last(page).getByRole("button", { name: "Answer again" }).click();
    await finished(page);
    const thread = await page.locator(".thread").innerText();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export all conversations" }).click(),
    ]);
    const file = await readFile(await download.path());
    const other = await open();
    try {
      const give = () => other.setInputFiles("#import", { name: "akunu.json", mimeType: "application/json", buffer: file });
      await give();
      await other.getByText("1 conversation imported.").waitFor();
      await other.locator(".entry-title", { hasText: "Name a river." }).click();
      await other.locator("article.answer").waitFor();
      assert.equal(await other.locator(".thread").innerText(), thread);
      await give();
      await other.getByText("0 conversations imported, 1 already here.").waitFor();
      assert.deepEqual(other.problems, []);
    } finally {
      await other.context().close();
    }
  },

  async "a hostile import is refused with a sentence"(page) {
    const good = { id: "0123456789abcdef", title: "t", created: 1, updated: 1, model: "m", system: "", settings: {}, tools: "", messages: [], leaf: null };
    const message = { id: "__proto__", parent: null, role: "user", text: "x", created: 1 };
    const file = (...conversations) => JSON.stringify({ format: "akunu-conversations", version: 1, conversations });
    const refused = {
      "The file is not JSON.": "{",
      "The file is not an export of this page.": '{"format": 1}',
      "conversations[0] is not an object.": file(null),
      "conversations[0].title is not a text.": file({ ...good, title: { toString: 1 } }),
      "conversations[0].messages[0].parent names no message before it.": file({ ...good, messages: [{ ...message, parent: "__proto__" }] }),
      "conversations[0].messages[0].role is not user, assistant or tool.": file({ ...good, messages: [{ ...message, role: "system" }] }),
      "conversations[0].leaf names no message.": file({ ...good, messages: [message], leaf: "y" }),
    };
    for (const [sentence, text] of Object.entries(refused)) {
      await page.setInputFiles("#import", { name: "x.json", mimeType: "application/json", buffer: Buffer.from(text) });
      await page.locator(".notice", { hasText: sentence }).waitFor();
    }
    assert.equal(await page.locator(".entry").count(), 0);
    const html = file({ ...good, title: "<img src=x onerror=window.pwned=1>", messages: [message, { ...message, id: "b", parent: "__proto__", role: "assistant", text: "<img src=x onerror=window.pwned=1>", model: "<b>", finish: "stop" }], leaf: "b" });
    await page.setInputFiles("#import", { name: "x.json", mimeType: "application/json", buffer: Buffer.from(html) });
    await page.locator(".entry-title").click();
    await page.locator("article.answer").waitFor();
    assert.equal(await page.evaluate(() => window.pwned ?? document.querySelectorAll("main img, main b").length), 0);
  },

  async "the keyboard is enough"(page) {
    await page.locator("#composer").fill("one");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("two");
    assert.equal(await page.locator("#composer").inputValue(), "one\ntwo");
    await page.keyboard.press("Enter");
    await finished(page);
    await page.keyboard.press("ArrowUp");
    assert.equal(await page.getByLabel("Edit the question").inputValue(), "one\ntwo");
    await page.keyboard.press("Escape");
    await page.locator(".brand").click();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor({ state: "detached" });
    await page.keyboard.press("Control+Shift+O");
    await page.locator(".welcome").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "composer");
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll("button, input:not([type=file]), textarea, select, a")]
        .filter((e) => !e.getAttribute("aria-label") && !e.textContent.trim() && !e.labels?.length)
        .map((e) => e.outerHTML),
    );
    assert.deepEqual(nameless, []);
  },

  async "the theme follows the system until it is chosen, and is kept"(page) {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await ground();
    assert.notEqual(light, dark);
    await page.getByRole("button", { name: "Theme: as the system" }).click();
    assert.equal(await ground(), light);
    await page.reload();
    await page.getByRole("button", { name: "Theme: light" }).click();
    await page.emulateMedia({ colorScheme: "light" });
    assert.equal(await ground(), dark);
  },

  async "two conversations are answered at once"(page) {
    await slowly(page, 3000, async () => {
      await send(page, "Slow first.");
      await page.locator('article.answer[aria-busy="true"]').waitFor();
      await page.keyboard.press("Control+Shift+O");
      await send(page, "Second, please.");
      await page.locator(".entry .ember").nth(1).waitFor();
    });
    await page.locator(".entry-title", { hasText: "Slow first." }).click();
    await page.locator(".bubble", { hasText: "Slow first." }).waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click({ timeout: 1000 }).catch(() => undefined);
    await finished(page);
    assert.equal(await page.locator(".bubble").count(), 1);
    assert.match(await proseOf(page), /\S/);
  },
};

/** On a phone's width. */
const phoneSteps = {
  async "nothing scrolls sideways, and panes can be reached"(page) {
    await noSidewaysScroll(page, "empty");
    const wide = `${"w".repeat(400)} \`${"c".repeat(300)}\`\n\n\`\`\`rust\n${"x".repeat(300)}\n\`\`\`\n\n|${" a |".repeat(20)}\n|${"--|".repeat(20)}\n|${" 1234 |".repeat(20)}\n\n# ${"H".repeat(200)}\n\n- ${"l".repeat(200)}`;
    await answerNext(page, written({ content: wide, reasoning_content: "t".repeat(300) }));
    await send(page, "q".repeat(300));
    await finished(page);
    await noSidewaysScroll(page, "a wide answer");
    await answerNext(page, { status: 400, body: JSON.stringify({ error: { message: "e".repeat(300) } }) });
    await send(page, "Fail.");
    await finished(page);
    await noSidewaysScroll(page, "an error");
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await noSidewaysScroll(page, "settings");
    await page.getByRole("button", { name: "Close settings" }).click();
    await page.getByRole("button", { name: "Show the list" }).click();
    await page.locator(".entry").waitFor();
    await page.waitForTimeout(300);
    await noSidewaysScroll(page, "the list");
    await page.getByRole("button", { name: "New conversation" }).first().click();
    await page.locator(".welcome").waitFor();
    await noSidewaysScroll(page, "empty again");
  },
};

// --- Runs them, each in a browser profile of its own.

let failed = 0;
const wanted = process.argv[2] ?? "";
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
console.log(`page: ${origin}, ${browserPath()} ${browser.version()}`);
for (const [set, options] of [[steps, {}], [phoneSteps, phone]]) {
  for (const [name, step] of Object.entries(set)) {
    if (!name.includes(wanted)) continue;
    const started = Date.now();
    const page = await open(options);
    try {
      const skipped = await step(page);
      assert.deepEqual(page.problems, [], "errors in the browser's console, or requests elsewhere");
      console.log(skipped ? `skipped: ${name}: ${skipped}` : `ok: ${name} (${Date.now() - started} ms)`);
    } catch (error) {
      failed += 1;
      const shown = await page.locator("body").innerText({ timeout: 5000 }).catch((unseen) => unseen.message);
      console.log(`FAILED: ${name}\n${error.stack}\n${page.problems.join("\n")}\nThe page at ${page.url()} shows:\n${shown}\n`);
    }
    await page.context().close();
  }
}
await browser.close();
console.log(failed ? `${failed} failed` : "all passed");
process.exitCode = failed ? 1 : 0;
