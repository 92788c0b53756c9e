// The package `openai`.
import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { ask, frees, isWeather, url, weather } from "./shared.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const fields = { model: "chat", messages: ask, temperature: 0, seed: 7, max_tokens: 16 };
const tools = [{ type: "function", function: { name: "get_weather", description: "The weather", parameters: weather } }];

test("models are listed", async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  for (const name of ["chat", "embed", "speech"]) assert.ok(names.includes(name));
});

test("a stream says what an answer says", async () => {
  const whole = await client.chat.completions.create(fields);
  assert.equal(whole.choices[0].finish_reason, "length");
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 16);
  let text = "";
  let usage;
  const options = { include_usage: true };
  for await (const chunk of await client.chat.completions.create({ ...fields, stream: true, stream_options: options })) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, 16);
});

test("the package puts a stream together", async () => {
  const whole = await client.chat.completions.create(fields);
  const stream = client.chat.completions.stream(fields);
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
});

test("a zod schema holds", async () => {
  const person = z.object({ friend: z.boolean(), kind: z.enum(["cat", "dog"]) });
  const form = zodResponseFormat(person, "person");
  const answer = await client.chat.completions.parse({ ...fields, response_format: form, max_tokens: 64 });
  person.parse(answer.choices[0].message.parsed);
});

test("a required call is valid, and the same in a stream", async () => {
  const required = { ...fields, tools, tool_choice: "required", max_tokens: 128 };
  const whole = await client.chat.completions.create(required);
  assert.equal(whole.choices[0].finish_reason, "tool_calls");
  const calls = whole.choices[0].message.tool_calls;
  calls.forEach((call) => isWeather(JSON.parse(call.function.arguments)));
  const final = await client.chat.completions.stream(required).finalChatCompletion();
  const streamed = final.choices[0].message.tool_calls;
  assert.deepEqual(streamed.map((c) => c.function.arguments), calls.map((c) => c.function.arguments));
});

test("the package runs tools and sends their results back", async () => {
  const seen = [];
  const weatherTool = {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather",
      parameters: weather,
      parse: JSON.parse,
      function: (value) => {
        isWeather(value);
        seen.push(value);
        return "rain";
      },
    },
  };
  const choice = { type: "function", function: { name: "get_weather" } };
  const runner = client.chat.completions.runTools({ ...fields, tools: [weatherTool], tool_choice: choice, max_tokens: 128 });
  await runner.done();
  assert.ok(seen.length >= 1);
});

test("embeddings", async () => {
  const short = await client.embeddings.create({ model: "embed", input: ["a cat", "a dog"] });
  const plain = await client.embeddings.create({ model: "embed", input: ["a cat", "a dog"], encoding_format: "float" });
  assert.equal(short.data.length, 2);
  short.data.forEach((item, i) => {
    assert.equal(item.embedding.length, 384);
    item.embedding.forEach((x, j) => assert.ok(Math.abs(x - plain.data[i].embedding[j]) < 1e-5));
  });
});

test("a response and its events", async () => {
  const request = { model: "chat", input: "Name three colours.", temperature: 0, max_output_tokens: 16 };
  const whole = await client.responses.create(request);
  assert.ok(whole.output_text);
  let text = "";
  for await (const event of await client.responses.create({ ...request, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, whole.output_text);
});

test("a transcription", async () => {
  const file = createReadStream(`${process.env.AKUNU_FIXTURES}/audio/speech/jfk.flac`);
  const answer = await client.audio.transcriptions.create({ model: "speech", file });
  assert.match(answer.text, /country/i);
});

test("what is wrong is named", async () => {
  const wrong = client.chat.completions.create({ ...fields, temperature: -1 });
  await assert.rejects(wrong, (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  const missing = client.models.retrieve("nobody");
  await assert.rejects(missing, (error) => error instanceof OpenAI.NotFoundError);
});

test("a client that leaves frees its place", () =>
  frees(async () => {
    const stream = await client.chat.completions.create({ ...fields, stream: true, max_tokens: 4000 });
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
    stream.controller.abort();
  }));
