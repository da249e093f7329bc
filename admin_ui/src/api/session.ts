/** Who is signed in: a person by cookies that no script can read, or an admin key in this page's memory alone. */
import { useSyncExternalStore } from "react";
import type { OperationName } from "./client";
import type { Me } from "./schema";

export interface Session {
  /** How the top bar names it. */
  name: string;
  me: Me;
}

const ME = "/v1/organization/me";
const SESSIONS = "/v1/organization/sessions";
/** No other site can set it, so the API believes that a change comes from here. */
export const CONSOLE_HEADER = { "x-tollway-console": "1" };

let adminKey: string | null = null;
/** Undefined until it is known. */
let session: Session | null | undefined;
let renewal: Promise<boolean> | null = null;
const watchers = new Set<() => void>();

export function authorization(): Record<string, string> {
  return adminKey === null ? CONSOLE_HEADER : { authorization: `Bearer ${adminKey}` };
}

/** Whoever is still signed in from before, after a reload. */
export async function restoreSession(): Promise<void> {
  let response = await fetch(ME, { headers: CONSOLE_HEADER });
  if (response.status === 401 && (await renewSession())) response = await fetch(ME, { headers: CONSOLE_HEADER });
  change(response.ok ? asSession((await response.json()) as Me, null) : null);
}

/** By who is not signed in yet, or no more. */
export const post = (path: string, body?: object): Promise<Response> =>
  fetch(path, { method: "POST", headers: { ...CONSOLE_HEADER, ...(body && { "content-type": "application/json" }) }, body: body ? JSON.stringify(body) : null });

/** The refusal, or null when it went well. */
export async function signIn(email: string, password: string): Promise<Response | null> {
  return opened(await post(SESSIONS, { email, password }));
}

/** After something that set the cookies of a session. */
export async function opened(response: Response): Promise<Response | null> {
  if (!response.ok) return response;
  adminKey = null;
  await restoreSession();
  return null;
}

export async function signInWithKey(key: string): Promise<Response | null> {
  const response = await fetch(ME, { headers: { authorization: `Bearer ${key}` } });
  if (!response.ok) return response;
  adminKey = key;
  change(asSession((await response.json()) as Me, key));
  return null;
}

export async function signOut(): Promise<void> {
  if (adminKey === null) await post(`${SESSIONS}/logout`);
  sessionEnded();
}

export function sessionEnded(): void {
  adminKey = null;
  change(null);
}

/** A second chance after a 401: once for all who wait. Nothing renews an admin key. */
export function renewSession(): Promise<boolean> {
  if (adminKey !== null) return Promise.resolve(false);
  renewal ??= post(`${SESSIONS}/refresh`)
    .then(({ ok }) => ok)
    .finally(() => {
      renewal = null;
    });
  return renewal;
}

export function useSession(): Session | null | undefined {
  return useSyncExternalStore(watch, currentSession);
}

export const currentSession = (): Session | null | undefined => session;

/** Whether the table of roles and routes lets the caller do that, in some tenant at least. */
export function may(operation: OperationName): boolean {
  const [method = "", path = ""] = operation.split(" ");
  return session?.me.may.includes(`${method} ${path.replace("/v1/organization", "")}`) ?? false;
}

/** Of whom the caller sees nothing else: a member of some tenants. Null for who sees all. */
export function ownProjects(): { id: string; name: string; role: string }[] | null {
  return session?.me.is_bound_to_projects ? session.me.projects : null;
}

function asSession(me: Me, key: string | null): Session {
  const name = key === null ? null : `${key.slice(0, 11)}…`;
  return { name: name ?? me.user?.email ?? me.user?.name ?? "Signed in", me };
}

function change(next: Session | null): void {
  session = next;
  for (const tell of watchers) tell();
}

function watch(tell: () => void): () => void {
  watchers.add(tell);
  return () => watchers.delete(tell);
}
