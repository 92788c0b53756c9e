// A server that speaks the page's part of the API, with written answers: `node test/mock.mjs [PORT] [--key KEY]`.
// The last question's first word picks the answer: see ANSWERS.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const PAGE = new URL("../dist/index.html", import.meta.url);

const MODELS = [
  { id: "SmolLM2-135M-Instruct.Q4_1", akunu: { loaded: true, bytes: 91_700_000, context: 8192, kind: "chat" } },
  { id: "Qwen3-0.6B.Q4_K_M", akunu: { loaded: false, bytes: 396_700_000, context: 40960, kind: "chat" } },
  { id: "half-downloaded.gguf", akunu: { loaded: false, error: "half-downloaded.gguf ends after 1,024 of 91,700,000 bytes" } },
  { id: "nomic-embed-text-v1.5", akunu: { loaded: false, bytes: 274_000_000, context: 2048, kind: "embedding" } },
  { id: "ggml-base.en", akunu: { loaded: false, bytes: 148_000_000, context: 448, kind: "speech" } },
].map((model) => ({ object: "model", owned_by: "akunu", ...model }));

const METRICS = `# TYPE akunu_memory_bytes gauge
akunu_memory_bytes{use="weights"} 91700000
akunu_memory_bytes{use="kv"} 47185920
akunu_memory_bytes{use="cache"} 12582912
akunu_memory_budget_bytes 2147483648
`;

const CODE = `Sort by the start, then walk once: an interval either **extends** the last one or begins a new one.

\`\`\`rust
/// Merges overlapping intervals. \`O(n log n)\` for the sort.
pub fn merge(mut intervals: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    intervals.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(intervals.len());
    for (start, end) in intervals {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}
\`\`\`

Three things to know:

1. \`sort_unstable\` needs no memory of its own.
2. An interval that *touches* the last one is merged:
   - change \`<=\` to \`<\` to keep them apart
   - the test below says which
3. Empty input gives empty output.

| input | merged | why |
|:--|:--|--:|
| \`(1, 3) (2, 6)\` | \`(1, 6)\` | overlap |
| \`(1, 4) (4, 5)\` | \`(1, 5)\` | they touch |
| \`(1, 2) (5, 6)\` | both | apart |

> Intervals are half a step from being a tree; stay with the vector until a profile says otherwise.

The idea is in [Introduction to Algorithms](https://mitpress.mit.edu/) as a sweep over end points.`;

const THINKING = `The user wants the number of seconds in a leap year.

A leap year has 366 days. A day has 24 hours of 3600 seconds: 86,400 s.

366 × 86,400 = 31,622,400. Check: 365 × 86,400 = 31,536,000, plus 86,400 is 31,622,400. Good.`;

const HOSTILE = `<img src=x onerror="window.pwned = 1"> <script>window.pwned = 2</script>

<iframe srcdoc="<script>parent.pwned = 3</script>"></iframe>

[click](javascript:window.pwned=4) [data](data:text/html,<script>window.pwned=5</script>) ![beacon](http://127.0.0.1:9/beacon.png)

<a href="javascript:window.pwned=6">raw</a> <javascript:window.pwned=7> [ok](https://example.org/?a=1&amp;b=2)

\`\`\`html"><script>window.pwned = 8</script>
<img src=x onerror="window.pwned = 9">
\`\`\`
`;

const STORY = `Once upon a time there was a fire in a small house at the edge of a forest. `;

/** Each answer: pieces of thinking, of text, of calls; or an error. */
const ANSWERS = {
  write: () => ({ text: CODE }),
  code: () => ({ text: CODE }),
  think: () => ({ pause: 25, thinking: THINKING, text: "A leap year has **31,622,400** seconds." }),
  hostile: () => ({ text: HOSTILE }),
  long: () => ({ text: `${STORY.repeat(6)}\n\n`.repeat(60), finish: "length" }),
  slow: () => ({ text: STORY.repeat(40), pause: 60 }),
  tool: ({ messages }) =>
    messages.at(-1).role === "tool"
      ? { text: `The tool says: ${messages.at(-1).content}` }
      : { text: "I look that up.", calls: [{ name: "weather", arguments: '{"city": "Bern", "days": 3}' }], finish: "tool_calls" },
  error: () => ({ status: 400, message: "The prompt has 9,120 tokens; the context of SmolLM2-135M-Instruct has 8,192. Shorten it or choose a model with a longer context." }),
  busy: () => ({ status: 429, message: "The queue is full.", headers: { "Retry-After": "2" } }),
  broken: () => ({ text: "This answer will not", failure: "The model stopped: a worker panicked." }),
  echo: (body) => ({ text: "```json\n" + JSON.stringify(body, null, 2) + "\n```" }),
};

let answered = 0;

function answerTo(body) {
  const asked = body.messages.findLast((m) => m.role === "user")?.content ?? "";
  const word = /[a-z]+/.exec(asked.split("\n").at(-1).toLowerCase())?.[0];
  const written = Object.hasOwn(ANSWERS, word) ? ANSWERS[word](body) : { text: `${body.model} answers ${++answered}: ${asked}` };
  return { pause: 4, finish: "stop", ...written };
}

/** A text as tokens come: a word and what is before it. */
const tokens = (text) => text.match(/\s*\S+|\s+$/g) ?? [];

async function chat(body, response) {
  const answer = answerTo(body);
  if (answer.status) return sendError(response, answer.status, answer.message, answer.headers);
  const started = performance.now();
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  const send = (data) => response.write(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: Math.floor(Date.now() / 1000), model: body.model };
  const prompt_tokens = Math.ceil(JSON.stringify(body.messages).length / 4);
  let count = 0;
  const delta = (part, finish_reason = null) => {
    const usage = { prompt_tokens, completion_tokens: count, total_tokens: prompt_tokens + count };
    const soFar = body.stream_options?.continuous_usage_stats ? { usage } : {};
    send({ ...head, choices: [{ index: 0, delta: part, finish_reason }], ...soFar });
  };

  await sleep(MODELS.find((m) => m.id === body.model)?.akunu.loaded ? 60 : 600);
  for (const model of MODELS) if (model.id === body.model) model.akunu.loaded = true;
  delta({ role: "assistant", content: "" });
  const most = body.max_tokens ?? Infinity;
  for (const [key, text] of [["reasoning_content", answer.thinking], ["content", answer.text]]) {
    for (const token of tokens(text ?? "")) {
      if (response.destroyed) return;
      if (count === most) {
        answer.finish = "length";
        break;
      }
      count += 1;
      delta({ [key]: token });
      await sleep(answer.pause);
    }
  }
  for (const [index, call] of (answer.calls ?? []).entries()) {
    delta({ tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name: call.name, arguments: "" } }] });
    for (const piece of tokens(call.arguments)) delta({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  if (answer.failure) {
    send({ error: { message: answer.failure, type: "server_error", code: null } });
    return response.end();
  }
  delta({}, answer.finish);
  const predicted_ms = performance.now() - started;
  const usage = {
    prompt_tokens,
    completion_tokens: count,
    total_tokens: prompt_tokens + count,
    prompt_tokens_details: { cached_tokens: Math.floor(prompt_tokens * 0.8) },
  };
  const cache_miss = { why: `new from token ${usage.prompt_tokens_details.cached_tokens} on`, token: 9, message: body.messages.length - 1 };
  const timings = { prompt_ms: 41, cache_miss, predicted_ms, predicted_per_second: (count * 1000) / predicted_ms };
  send({ ...head, choices: [], usage, timings });
  send("[DONE]");
  response.end();
}

function sendError(response, status, message, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify({ error: { message, type: "invalid_request_error", code: null } }));
}

function sendJson(response, body) {
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

async function serve(request, response, key) {
  const path = request.url.split("?")[0];
  if (path === "/") {
    response.writeHead(200, { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "frame-ancestors 'none'" });
    return response.end(await readFile(PAGE));
  }
  if (path === "/health") return sendJson(response, { status: "ok" });
  if (key && request.headers.authorization !== `Bearer ${key}`) return sendError(response, 401, "A valid API key is needed.");
  switch (`${request.method} ${path}`) {
    case "GET /v1/models":
      return sendJson(response, { object: "list", data: MODELS });
    case "GET /metrics":
      response.writeHead(200, { "Content-Type": "text/plain; version=0.0.4" });
      return response.end(METRICS);
    case "POST /v1/chat/completions":
      return chat(JSON.parse(await bodyOf(request)), response);
    case "POST /v1/audio/transcriptions": {
      const form = (await bodyOf(request)).toString("latin1");
      if (!form.includes('name="file"') || !form.includes("ggml-base.en")) return sendError(response, 400, "file and model are needed.");
      await sleep(300);
      return sendJson(response, { text: " And so, my fellow Americans, ask not what your country can do for you." });
    }
    default:
      return sendError(response, 404, `There is nothing at ${path}.`);
  }
}

/** Listens on `port`, or on a free one, and returns the server. */
export function mock({ port = 0, key = "" } = {}) {
  const server = createServer((request, response) => {
    serve(request, response, key).catch((error) => {
      if (response.headersSent) response.destroy();
      else sendError(response, 500, error.message);
    });
  });
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const at = process.argv.indexOf("--key");
  const server = await mock({ port: Number(process.argv[2]) || 8080, key: at > 0 ? process.argv[at + 1] : "" });
  console.log(`http://127.0.0.1:${server.address().port}/`);
}
