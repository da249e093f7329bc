/** One way to the admin API: typed by its description, errors as the API words them, who calls from session.ts. */
import type { Operations } from "./schema";
import { authorization, renewSession, sessionEnded } from "./session";

export type OperationName = keyof Operations;
type Operation<N extends OperationName> = Operations[N];
type Part<N extends OperationName, P extends "path" | "query"> = Operation<N>[P];

export interface Ask<N extends OperationName> {
  path?: Part<N, "path">;
  query?: Part<N, "query">;
  body?: Operation<N>["body"];
  signal?: AbortSignal | undefined;
}

/** What the API said, or that it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | null,
    readonly param: string | null,
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export async function call<N extends OperationName>(name: N, ask: Ask<N> = {}): Promise<Operation<N>["answer"]> {
  const response = await send(name, ask);
  return (await response.json()) as Operation<N>["answer"];
}

/** For files: the answer's bytes. */
export async function download<N extends OperationName>(name: N, ask: Ask<N> = {}): Promise<Blob> {
  return (await send(name, ask)).blob();
}

/** For answers that come piece by piece. */
export function stream<N extends OperationName>(name: N, ask: Ask<N>): Promise<Response> {
  return send(name, ask);
}

async function send<N extends OperationName>(name: N, ask: Ask<N>): Promise<Response> {
  const first = await request(name, ask);
  if (first.status !== 401) return checked(first);
  if (await renewSession()) return checked(await request(name, ask));
  sessionEnded();
  return checked(first);
}

async function request<N extends OperationName>(name: N, ask: Ask<N>): Promise<Response> {
  const [method = "GET", template = ""] = name.split(" ");
  const path = template.replaceAll(/\{(\w+)\}/g, (_, field: string) => encodeURIComponent(String((ask.path as Record<string, unknown>)[field])));
  const headers: Record<string, string> = { ...authorization() };
  if (ask.body !== undefined) headers["content-type"] = "application/json";
  try {
    return await fetch(path + queryString(ask.query), {
      method,
      headers,
      body: ask.body === undefined ? null : JSON.stringify(ask.body),
      credentials: "same-origin",
      signal: ask.signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The gateway cannot be reached.", null, null, null);
  }
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  throw await refusal(response);
}

export async function refusal(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id");
  try {
    const { error } = (await response.json()) as { error: { message: string; code: string | null; param: string | null } };
    return new ApiError(response.status, error.message, error.code, error.param, requestId);
  } catch {
    return new ApiError(response.status, `The gateway answered ${response.status}.`, null, null, requestId);
  }
}

/** Arrays as repeated names; what is undefined, null or empty is left out. */
export function queryString(query: object | undefined): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") found.append(name, String(one));
    }
  }
  const text = found.toString();
  return text === "" ? "" : `?${text}`;
}
