// Builds the page into one file: dist/index.html, or the path that is given.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(root, "dist", "index.html");
const MAX_BYTES = 300_000;

const { outputFiles, warnings } = await build({
  absWorkingDir: root,
  entryPoints: ["src/main.tsx"],
  outdir: "out",
  bundle: true,
  write: false,
  minify: true,
  format: "iife",
  target: ["chrome123", "firefox125", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
});
if (warnings.length > 0) throw new Error("the sources have warnings");
const output = (ending) => outputFiles.find((file) => file.path.endsWith(ending)).text.trim();
const [script, style] = [output(".js"), output(".css")];
if (/<\/script/i.test(script) || /<\/style/i.test(style)) throw new Error("the bundle would end its own element");

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

// The licences of what is bundled ask that their notices go with it.
const notices = [];
for (const name of ["preact", "marked", "highlight.js"]) {
  const folder = join(root, "node_modules", name);
  const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const licence = (await readFile(join(folder, "LICENSE"), "utf8")).replaceAll("--", "- -").trim();
  notices.push(`${name} ${version}\n\n${licence}`);
}

// What the page is built from, for a test that has no Node: `SHA-256  path` of every source as `sha256sum` lists them, by path, and
// of that list.
const hex = (data) => createHash("sha256").update(data).digest("hex");
const entries = await readdir(join(root, "src"), { recursive: true, withFileTypes: true });
const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
const paths = [...files.map((path) => path.replaceAll(sep, "/")), "build.mjs", "package-lock.json"].sort();
const lines = await Promise.all(paths.map(async (path) => `${hex(await readFile(join(root, path)))}  ${path}\n`));
notices.unshift(`sources ${hex(lines.join(""))}`);

const parts = { policy, style, script };
const template = await readFile(join(root, "src", "index.html"), "utf8");
const page = template.replace(/\{\{(\w+)\}\}/g, (_, part) => parts[part]).trimEnd() + `\n<!--\n${notices.join("\n\n")}\n-->\n`;
const bytes = Buffer.byteLength(page);
if (bytes > MAX_BYTES) throw new Error(`the page has ${bytes} bytes; ${MAX_BYTES} are the most`);
await mkdir(dirname(out), { recursive: true });
await writeFile(out, page);
console.log(`${out}: ${bytes} bytes`);
