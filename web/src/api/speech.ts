// POST /v1/audio/transcriptions: a file's words.
import { request } from "./http";

const ENDINGS = /\.(wav|mp3|m4a|flac|ogg|oga|opus|aac|aiff?|webm|mp4)$/i;

export function isAudio(file: File): boolean {
  return file.type.startsWith("audio/") || ENDINGS.test(file.name);
}

export async function transcribe(file: File, model: string, signal: AbortSignal): Promise<string> {
  const form = new FormData();
  form.set("model", model);
  form.set("file", file, file.name);
  const response = await request("v1/audio/transcriptions", { method: "POST", body: form, signal });
  const { text } = (await response.json()) as { text?: unknown };
  return typeof text === "string" ? text.trim() : "";
}
