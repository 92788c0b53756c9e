// Takes pictures of the page against the mock, for looking at: test/shots/*.png.
import { mkdir } from "node:fs/promises";
import { launch } from "./browser.mjs";
import { mock } from "./mock.mjs";

const OUT = new URL("shots/", import.meta.url).pathname;
const only = process.argv[2] ?? "";
await mkdir(OUT, { recursive: true });
const server = await mock();
const url = `http://127.0.0.1:${server.address().port}/`;
const browser = await launch();

const SIZES = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

async function ask(page, text) {
  await page.fill("#composer", text);
  await page.getByRole("button", { name: "Send", exact: true }).click();
}
const last = (page) => page.locator("article.answer").last();
const finished = (page, count) =>
  page.waitForFunction((n) => document.querySelectorAll('.answer[aria-busy="false"]').length >= n, count);

const TITLES = ["Merging intervals", "A letter to the landlord about the heating that has not worked since October", "SQL window functions", "Names for a boat", "Why is the sky dark at night?", "Packing list", "Regex for dates", "Bread without yeast", "Translate a poem by Rilke", "Explain Raft"];

/** An export with conversations of the last months. */
function history() {
  const conversations = TITLES.map((title, i) => {
    const time = Date.now() - i * i * 86_400_000;
    return { id: `00000000000000${i + 10}`, title, created: time, updated: time, model: "m", system: "", settings: {}, tools: "", messages: [], leaf: null };
  });
  return JSON.stringify({ format: "akunu-conversations", version: 1, conversations });
}

for (const [size, viewport] of Object.entries(SIZES)) {
  for (const scheme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport, colorScheme: scheme, deviceScaleFactor: size === "phone" ? 2 : 1, hasTouch: size === "phone", isMobile: size === "phone" });
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && console.log(size, scheme, message.text()));
    page.on("pageerror", (error) => console.log(size, scheme, error.stack));
    const shot = async (name) => {
      await page.waitForTimeout(250);
      if (name.includes(only)) await page.screenshot({ path: `${OUT}${size}-${scheme}-${name}.png` });
    };
    await page.goto(url);
    await page.waitForSelector(".welcome");
    await shot("1-empty");
    await ask(page, "Write a Rust function that merges overlapping intervals, with tests.");
    await page.locator(".hl-keyword").nth(3).waitFor();
    if ("2-streaming".includes(only)) await page.screenshot({ path: `${OUT}${size}-${scheme}-2-streaming.png` });
    await finished(page, 1);
    await shot("3-code-end");
    await page.locator(".thread").evaluate((pane) => (pane.scrollTop = 0));
    await shot("4-code-top");
    await ask(page, "Think: how many seconds has a leap year?");
    await page.waitForSelector(".thinking.live .latest");
    await page.waitForTimeout(100);
    await shot("5-thinking");
    await finished(page, 2);
    await page.locator(".thinking button").last().click();
    await page.getByRole("button", { name: "Answer again" }).last().click();
    await page.waitForTimeout(100);
    await finished(page, 2);
    await ask(page, "Error, please: what happens with a prompt that is too long?");
    await finished(page, 3);
    await shot("6-error");
    await page.getByRole("button", { name: /^Model:/ }).click();
    await shot("7-models");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Settings", exact: true }).click();
    await shot("8-settings");
    await page.getByRole("button", { name: "Close settings" }).click();
    await ask(page, "tool: what is the weather in Bern?");
    await finished(page, 4);
    await shot("9-tool");
    await ask(page, "Slow story");
    await page.waitForTimeout(900);
    if (size === "phone") await page.getByRole("button", { name: "Show the list" }).click();
    await page.waitForTimeout(250);
    await shot("a-list");
    if (size === "phone") await page.locator(".scrim").click({ position: { x: 370, y: 400 } });
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".question").last().hover();
    await page.getByRole("button", { name: "Edit" }).last().click();
    await shot("b-edit");
    await page.keyboard.press("Escape");
    await page.evaluate(() => {
      const files = new DataTransfer();
      files.items.add(new File(["RIFF"], "a talk about bread.wav", { type: "audio/wav" }));
      window.dispatchEvent(new DragEvent("dragover", { dataTransfer: files }));
    });
    await shot("h-drop");
    await page.route("**/v1/audio/transcriptions", async (route) => setTimeout(() => route.continue().catch(() => undefined), 700));
    await page.evaluate(() => {
      const files = new DataTransfer();
      files.items.add(new File(["RIFF"], "a talk about bread.wav", { type: "audio/wav" }));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: files }));
    });
    await shot("i-transcribing");
    await page.waitForFunction(() => document.querySelector("#composer").value.includes("Americans"));
    await shot("j-transcribed");
    await page.fill("#composer", "");
    await page.locator("main").click({ position: { x: 200, y: 20 } });
    await page.keyboard.press("?");
    await shot("c-shortcuts");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Model:/ }).click();
    await page.getByRole("radio", { name: /Qwen/ }).click();
    await ask(page, "Hello, other model");
    await finished(page, 6);
    await last(page).getByTitle("Tokens and speed").click();
    await shot("d-stats");
    await page.keyboard.press("Escape");
    await page.setInputFiles("#import", { name: "x.json", mimeType: "application/json", buffer: Buffer.from(history()) });
    await page.locator(".notice").waitFor();
    if (size === "phone") await page.getByRole("button", { name: "Show the list" }).click();
    await page.locator(".entry").nth(1).hover();
    await page.getByRole("button", { name: /^Actions/ }).nth(1).click();
    await shot("e-history");
    await page.keyboard.press("Escape");
    await page.route("**/v1/models", (route) => route.fulfill({ status: 401, json: { error: { message: "no" } } }));
    await page.goto(url);
    await page.getByRole("dialog").waitFor();
    await shot("f-key");
    await page.unroute("**/v1/models");
    await page.route("**/v1/models", (route) => route.abort());
    await page.goto(url);
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await shot("g-down");
    await context.close();
  }
}
await browser.close();
server.close();
