// Text whose end has not come yet: what would look like something else until it does.

/** The text without a last line that says nothing yet, and with its open code or emphasis closed. */
export function mended(text: string): string {
  if (isInFence(text)) return text;
  // A dash may become a list, but for now underlines the paragraph above it as a heading.
  const shown = text.replace(/\n[ \t]*(?:[-=*+#>|:]+|`{1,3}|\d{1,3}\.?)[ \t]*$/, "");
  const line = shown.slice(shown.lastIndexOf("\n") + 1);
  if (count(line, /`/g) % 2 === 1) return shown + "`";
  if (count(line, /\*\*/g) % 2 === 0) return shown;
  return line.endsWith("**") ? shown.slice(0, -2) : shown.trimEnd() + "**";
}

const isInFence = (text: string) => count(text, /^[ \t]*(?:```|~~~)/gm) % 2 === 1;

const count = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0;
