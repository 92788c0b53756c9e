// Character references in Markdown's text. Not all 2,231 of HTML: those that models write.

const NAMED: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", deg: "°", micro: "µ",
  hellip: "…", mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", laquo: "«", raquo: "»", bull: "•",
  middot: "·", times: "×", divide: "÷", plusmn: "±", minus: "−", ne: "≠", le: "≤", ge: "≥", asymp: "≈", infin: "∞",
  larr: "←", uarr: "↑", rarr: "→", darr: "↓", harr: "↔", rArr: "⇒", check: "✓", para: "¶", sect: "§", euro: "€", pound: "£",
};

export function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z]{2,8}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name]! : whole;
    const code = decimal !== undefined ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
  });
}
