// Requests to the server that served this page: the key, and errors as sentences.
import { Cell } from "../cell";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const KEY = "akunu.key";

let key = storedKey();

/** Until the tab is closed; or the page, where the browser forbids storing. */
function storedKey(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keepKey(given: string): void {
  key = given;
  try {
    sessionStorage.setItem(KEY, given);
  } catch {
    // Kept above.
  }
}

/** The dialog that asks for a key, while it is open. */
export const keyRequest = new Cell<{ refused: boolean; answer: (key: string | null) => void } | null>(null);

let asking: Promise<string | null> | null = null;

/** Several requests may be refused at once; the reader is asked once. */
function askForKey(refused: boolean): Promise<string | null> {
  asking ??= new Promise<string | null>((answer) => {
    keyRequest.value = { refused, answer };
  }).then((given) => {
    keyRequest.value = null;
    asking = null;
    if (given !== null) keepKey(given);
    return given;
  });
  return asking;
}

/** A response with a good status; asks for the key where the server wants one. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = new Headers(init.headers);
    const sent = key;
    if (sent) headers.set("Authorization", `Bearer ${sent}`);
    let response: Response;
    try {
      response = await fetch(path, { ...init, headers, cache: "no-store" });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new ApiError(0, "The server does not answer. Is akunu serve running?");
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await failure(response);
    // Another request may have brought a new key meanwhile.
    if (key !== sent) continue;
    if ((await askForKey(sent !== null)) === null) throw new ApiError(401, "The server wants an API key.");
  }
}

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let message = "";
  try {
    message = errorMessage(JSON.parse(text)) ?? "";
  } catch {
    message = text.length < 300 ? text.trim() : "";
  }
  message ||= `The server answered with status ${response.status}.`;
  const wait = Number(response.headers.get("Retry-After"));
  if (wait > 0) message += ` Try again in ${wait} s.`;
  return new ApiError(response.status, message);
}

/** The sentence of OpenAI's error object. */
export function errorMessage(body: unknown): string | undefined {
  const error = (body as { error?: { message?: unknown } | string } | null)?.error;
  if (typeof error === "string") return error;
  return typeof error?.message === "string" ? error.message : undefined;
}
