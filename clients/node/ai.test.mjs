// Vercel's `ai`, through its providers for OpenAI's two APIs, for servers like OpenAI's, and for Anthropic's API.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";
import { frees, url } from "./shared.mjs";

const baseURL = `${url}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "none" });
const compatible = createOpenAICompatible({ name: "akunu", baseURL, includeUsage: true, supportsStructuredOutputs: true });
const anthropic = createAnthropic({ baseURL, apiKey: "none" });

const prompt = "Name three colours.";
const usual = { prompt, temperature: 0, maxOutputTokens: 16, maxRetries: 0 };
const providers = {
  "openai chat": openai.chat("chat"),
  "openai responses": openai.responses("chat"),
  "openai-compatible": compatible("chat"),
  anthropic: anthropic("chat"),
};

for (const [name, model] of Object.entries(providers)) {
  test(`${name}: a stream says what an answer says`, async () => {
    const whole = await generateText({ model, ...usual });
    assert.equal(whole.finishReason, "length");
    assert.equal(whole.usage.outputTokens, 16);
    assert.ok(whole.usage.inputTokens > 0);
    const stream = streamText({ model, ...usual });
    let text = "";
    for await (const part of stream.textStream) text += part;
    assert.equal(text, whole.text);
    assert.equal(await stream.finishReason, "length");
    assert.equal((await stream.usage).outputTokens, 16);
  });

  test(`${name}: an object keeps to its schema`, async () => {
    const schema = z.object({ friend: z.boolean(), kind: z.enum(["cat", "dog"]) });
    const { object } = await generateObject({ model, ...usual, schema, maxOutputTokens: 96 });
    schema.parse(object);
  });

  test(`${name}: a tool is called and its result sent back`, async () => {
    const inputSchema = z.object({ unit: z.enum(["celsius", "fahrenheit"]) });
    const seen = [];
    const weather = tool({
      description: "The weather",
      inputSchema,
      execute: (input) => {
        seen.push(inputSchema.parse(input));
        return "rain";
      },
    });
    const answer = await generateText({ model, ...usual, tools: { weather }, toolChoice: "required", maxOutputTokens: 96 });
    assert.equal(answer.finishReason, "tool-calls");
    assert.ok(seen.length >= 1);
    const again = await generateText({
      model,
      temperature: 0,
      maxOutputTokens: 8,
      maxRetries: 0,
      tools: { weather },
      toolChoice: "none",
      messages: [{ role: "user", content: prompt }, ...answer.response.messages],
    });
    assert.ok(again.text);
  });

  test(`${name}: a bad request is one`, async () => {
    const wrong = generateText({ model, ...usual, maxOutputTokens: undefined, topP: 7 });
    await assert.rejects(wrong, (error) => APICallError.isInstance(error) && error.statusCode === 400 && !error.isRetryable);
  });

  test(`${name}: a client that leaves frees its place`, () =>
    frees(async () => {
      const controller = new AbortController();
      const stream = streamText({ model, ...usual, maxOutputTokens: 4000, abortSignal: controller.signal, onError() {} });
      for await (const part of stream.textStream) if (part) break;
      controller.abort();
    }));
}

for (const [name, model] of [["openai", openai.embedding("embed")], ["openai-compatible", compatible.embeddingModel("embed")]]) {
  test(`${name}: embeddings`, async () => {
    const { embeddings } = await embedMany({ model, values: ["a cat", "a dog"], maxRetries: 0 });
    assert.deepEqual(embeddings.map((v) => v.length), [384, 384]);
  });
}
