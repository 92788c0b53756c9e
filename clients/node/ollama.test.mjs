// The package `ollama`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ollama } from "ollama";
import { ask, frees, isWeather, url, weather } from "./shared.mjs";

const client = new Ollama({ host: url });
const options = { temperature: 0, num_predict: 16, seed: 7 };
const fields = { model: "chat", messages: ask, options };

test("a stream says what a chat says", async () => {
  const whole = await client.chat(fields);
  assert.equal(whole.done_reason, "length");
  assert.equal(whole.eval_count, 16);
  let text = "";
  for await (const part of await client.chat({ ...fields, stream: true })) text += part.message.content;
  assert.equal(text, whole.message.content);
});

test("generate", async () => {
  const answer = await client.generate({ model: "chat", prompt: "Name three colours.", options });
  assert.equal(answer.response, (await client.chat(fields)).message.content);
});

test("models are listed, shown and running", async () => {
  assert.ok((await client.list()).models.some((m) => m.name.startsWith("chat")));
  assert.equal((await client.show({ model: "chat" })).details.family, "llama");
  assert.ok((await client.ps()).models.some((m) => m.name.startsWith("chat")));
});

test("embeddings", async () => {
  const answer = await client.embed({ model: "embed", input: ["a cat", "a dog"] });
  assert.deepEqual(answer.embeddings.map((v) => v.length), [384, 384]);
});

test("a form holds", async () => {
  const answer = await client.chat({ ...fields, format: weather, options: { ...options, num_predict: 64 } });
  isWeather(JSON.parse(answer.message.content));
});

test("what is wrong is named", async () => {
  await assert.rejects(client.chat({ ...fields, model: "nobody-here" }), (error) => error.status_code === 404);
  const wrong = client.chat({ ...fields, options: { temperature: -1 } });
  await assert.rejects(wrong, (error) => error.status_code === 400 && /temperature/.test(error.error));
});

test("a client that leaves frees its place", () =>
  frees(async () => {
    const stream = await client.chat({ ...fields, stream: true, options: { num_predict: 4000 } });
    for await (const part of stream) if (part.message.content) break;
    stream.abort();
  }));
