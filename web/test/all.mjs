// `npm test`: the units, that the committed page is what the sources build, and the page in a browser against the mock.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browserPath } from "./browser.mjs";
import { mock } from "./mock.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const node = (...args) => spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" }).status;

assert.equal(node("--test", "test/units.mjs"), 0, "the units");

const folder = mkdtempSync(join(tmpdir(), "akunu-page-"));
try {
  assert.equal(node("build.mjs", join(folder, "index.html")), 0, "the build");
  const [built, committed] = [join(folder, "index.html"), join(root, "dist", "index.html")].map((path) => readFileSync(path));
  assert.ok(built.equals(committed), "dist/index.html is not what the sources build: run `npm run build`");
} finally {
  rmSync(folder, { recursive: true });
}

if (browserPath()) {
  const server = await mock();
  const env = { ...process.env, AKUNU_URL: `http://127.0.0.1:${server.address().port}/` };
  // Not `spawnSync`: the mock answers from this process.
  const child = spawn(process.execPath, ["test/page.mjs"], { cwd: root, stdio: "inherit", env });
  const status = await new Promise((resolve) => child.on("exit", resolve));
  server.close();
  assert.equal(status, 0, "the page");
} else {
  console.log("skipped: the page in a browser: there is no Chromium (CHROMIUM may name one)");
}
