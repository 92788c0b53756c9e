// What became of each test as a line of JSON, for `cargo xtask clients`.
export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    // A suite's result is that of its tests.
    if (data.details?.type === "suite") continue;
    const skipped = data.skip !== undefined;
    const reason = skipped ? String(data.skip) : (data.details?.error?.cause?.message ?? data.details?.error?.message ?? "");
    const outcome = skipped ? "skipped" : type === "test:pass" ? "passed" : "failed";
    const seconds = Math.round(data.details.duration_ms / 10) / 100;
    yield `${JSON.stringify({ test: data.name, outcome, reason: reason.slice(0, 2000), seconds })}\n`;
  }
}
