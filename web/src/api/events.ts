// Server-sent events of a response's body, however the network cuts it.

export interface ServerEvent {
  event: string;
  data: string;
}

export async function* serverEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  let event = "";
  let data: string[] = [];
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    // A carriage return at the end may be half of a line's end.
    const cut = rest.endsWith("\r") ? rest.length - 1 : rest.length;
    const lines = rest.slice(0, cut).split(/\r\n|\n|\r/);
    rest = (lines.pop() ?? "") + rest.slice(cut);
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { event: event || "message", data: data.join("\n") };
        event = "";
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      } else if (line.startsWith("event:")) {
        event = line.slice(6).trim();
      }
    }
  }
}

/** A stream's chunks; `ReadableStream` is not iterable in every browser. */
export async function* chunks(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
