// The package `@anthropic-ai/sdk`.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { ask, frees, isWeather, url, weather } from "./shared.mjs";

const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const fields = { model: "chat", messages: ask, temperature: 0, max_tokens: 16 };
const tools = [{ name: "get_weather", description: "The weather", input_schema: weather }];

test("a stream says what a message says", async () => {
  const whole = await client.messages.create(fields);
  assert.equal(whole.stop_reason, "max_tokens");
  assert.equal(whole.usage.output_tokens, 16);
  const stream = client.messages.stream(fields);
  let text = "";
  stream.on("text", (delta) => (text += delta));
  const final = await stream.finalMessage();
  assert.equal(final.content[0].text, whole.content[0].text);
  assert.equal(text, whole.content[0].text);
  assert.equal(final.usage.output_tokens, 16);
});

test("tokens are counted", async () => {
  const counted = await client.messages.countTokens({ model: "chat", messages: ask, system: "Be brief." });
  const { usage } = await client.messages.create({ ...fields, max_tokens: 1, system: "Be brief." });
  assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens);
});

test("a required call is valid, and the same in a stream", async () => {
  const required = { ...fields, tools, tool_choice: { type: "any" }, max_tokens: 128 };
  const whole = await client.messages.create(required);
  assert.equal(whole.stop_reason, "tool_use");
  const inputs = (message) => message.content.filter((b) => b.type === "tool_use").map((b) => b.input);
  inputs(whole).forEach(isWeather);
  assert.deepEqual(inputs(await client.messages.stream(required).finalMessage()), inputs(whole));
});

test("results may be sent back", async () => {
  const call = { type: "tool_use", id: "toolu_1", name: "get_weather", input: { city: "Oslo", unit: "celsius" } };
  const result = { type: "tool_result", tool_use_id: "toolu_1", content: "rain" };
  const messages = [...ask, { role: "assistant", content: [call] }, { role: "user", content: [result] }];
  // A model may have nothing to say to it.
  assert.equal((await client.messages.create({ ...fields, messages, tools })).type, "message");
});

test("what is wrong is named", async () => {
  const wrong = client.messages.create({ ...fields, temperature: -1 });
  await assert.rejects(wrong, (error) => error instanceof Anthropic.BadRequestError && /temperature/.test(error.message));
});

test("a client that leaves frees its place", () =>
  frees(async () => {
    const stream = client.messages.stream({ ...fields, max_tokens: 4000 });
    for await (const event of stream) if (event.type === "content_block_delta") break;
    stream.abort();
  }));
