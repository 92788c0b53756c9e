// Finds and starts Chromium: the one that CHROMIUM names, or a system's.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The browser's path, or nothing. */
export function browserPath() {
  return [process.env.CHROMIUM, ...PLACES].find((path) => path && existsSync(path));
}

export function launch() {
  // Without a sandbox: it needs privileges that containers lack. The page is ours, and the network is this machine.
  return chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox", "--disable-gpu"] });
}
