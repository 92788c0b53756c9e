// GET /v1/models: what the server can run, and what of it is in memory.
import { Cell } from "../cell";
import { ApiError, request } from "./http";

export interface Model {
  id: string;
  /** `chat`, `speech`, or what this page has no use for. */
  kind: string;
  loaded: boolean;
  bytes?: number;
  context?: number;
  /** Why it cannot be used. */
  error?: string;
}

export const models = new Cell<Model[]>([]);

/** Why the list could not be read, or nothing. */
export const modelsError = new Cell<string>("");

/** Whether it may be there later without anybody doing anything here. */
export let isAway = false;

interface Listed {
  id?: unknown;
  akunu?: { loaded?: unknown; bytes?: unknown; context?: unknown; kind?: unknown; error?: unknown };
}

/** Whether one can talk to it. */
export const canChat = (model: Model) => model.kind === "chat" && model.error === undefined;

export async function refreshModels(): Promise<void> {
  try {
    const response = await request("v1/models");
    const { data } = (await response.json()) as { data?: Listed[] };
    models.value = (data ?? []).flatMap(readModel);
    modelsError.value = "";
    isAway = false;
  } catch (error) {
    isAway = !(error instanceof ApiError) || error.status !== 401;
    modelsError.value = error instanceof Error ? error.message : String(error);
  }
}

function readModel({ id, akunu }: Listed): Model[] {
  if (typeof id !== "string") return [];
  const count = (value: unknown) => (typeof value === "number" && value > 0 ? value : undefined);
  const kind = typeof akunu?.kind === "string" ? akunu.kind : "chat";
  const error = typeof akunu?.error === "string" ? akunu.error : undefined;
  return [{ id, kind, error, loaded: akunu?.loaded !== false, bytes: count(akunu?.bytes), context: count(akunu?.context) }];
}
