// The server is started by `cargo xtask clients`; see ../python/conftest.py for its models.
import assert from "node:assert/strict";

export const url = process.env.AKUNU_URL;
export const ask = [{ role: "user", content: "Name three colours." }];

export const weather = {
  type: "object",
  properties: { city: { type: "string", maxLength: 12 }, unit: { type: "string", enum: ["celsius", "fahrenheit"] } },
  required: ["city", "unit"],
  additionalProperties: false,
};

export function isWeather(value) {
  assert.deepEqual(Object.keys(value).sort(), ["city", "unit"]);
  assert.equal(typeof value.city, "string");
  assert.ok([...value.city].length <= 12 && weather.properties.unit.enum.includes(value.unit));
}

async function gauge(name, model = "chat") {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = new RegExp(`^akunu_${name}\\{model="${model}"\\} (\\S+)$`, "m").exec(text);
  return found ? Number(found[1]) : 0;
}

// A client that leaves in the middle of an answer frees its place.
export async function frees(leave) {
  const before = await gauge("requests_cancelled_total");
  await leave();
  const end = Date.now() + 10_000;
  while ((await gauge("requests_running")) > 0 || (await gauge("requests_cancelled_total")) === before) {
    assert.ok(Date.now() < end, "the request was not cancelled");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
