import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, call, queryString } from "./client";
import { currentSession, may, restoreSession, sessionEnded, signInWithKey } from "./session";

const ME = { kind: "admin_key", user: null, roles: ["owner"], is_bound_to_projects: false, projects: [], may: ["GET /pools", "POST /projects/{project_id}/api_keys"], session: null };
const ENDED = { error: { message: "no", type: "x", param: null, code: "session_expired" } };

interface Reply {
  status: number;
  body: unknown;
}

/** Each call takes the next reply; the last one is for all that follow. */
function answering(...replies: Reply[]): ReturnType<typeof vi.fn> {
  let turn = 0;
  const fetch = vi.fn(async () => {
    const { status, body } = replies[Math.min(turn++, replies.length - 1)]!;
    return new Response(JSON.stringify(body), { status, headers: { "x-request-id": "req_1" } });
  });
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

const asked = (fetch: ReturnType<typeof vi.fn>) => fetch.mock.calls.map(([path, options]) => `${options?.method ?? "GET"} ${path}`);

afterEach(() => {
  sessionEnded();
  vi.unstubAllGlobals();
});

describe("call", () => {
  it("fills the path, repeats arrays and leaves out what is not given", async () => {
    const fetch = answering({ status: 200, body: { data: [] } });
    await call("GET /v1/organization/projects/{project_id}/api_keys", { path: { project_id: "a/b" }, query: { limit: 5 } });
    expect(asked(fetch)).toEqual(["GET /v1/organization/projects/a%2Fb/api_keys?limit=5"]);
    expect(queryString({ a: ["x", "y"], b: undefined, c: null, d: "", e: 0 })).toBe("?a=x&a=y&e=0");
  });

  it("says what the API said, with the request's id", async () => {
    answering({ status: 409, body: { error: { message: "There is a pool of that name already.", type: "x", param: "name", code: "taken" } } });
    const failure = call("POST /v1/organization/projects", { body: { name: "x" } });
    await expect(failure).rejects.toMatchObject({ status: 409, message: "There is a pool of that name already.", param: "name", code: "taken", requestId: "req_1" });
    await expect(failure).rejects.toBeInstanceOf(ApiError);
  });

  it("sends the key, and forgets it when it is refused", async () => {
    const fetch = answering({ status: 200, body: ME }, { status: 401, body: ENDED });
    await signInWithKey("tw-12345678-secret");
    await expect(call("GET /v1/organization/pools")).rejects.toMatchObject({ status: 401 });
    expect(fetch.mock.calls[1]?.[1]?.headers).toMatchObject({ authorization: "Bearer tw-12345678-secret" });
    expect(currentSession()).toBeNull();
  });
});

describe("a session", () => {
  it("is renewed once for all who wait, and what was asked is asked again", async () => {
    const fetch = answering({ status: 401, body: ENDED }, { status: 401, body: ENDED }, { status: 200, body: {} }, { status: 200, body: { data: [] } });
    await Promise.all([call("GET /v1/organization/pools"), call("GET /v1/organization/routes")]);
    expect(asked(fetch).filter((one) => one.startsWith("POST"))).toEqual(["POST /v1/organization/sessions/refresh"]);
    expect(fetch).toHaveBeenCalledTimes(5);
  });

  it("knows what its caller may do", async () => {
    answering({ status: 200, body: ME });
    await restoreSession();
    expect(may("GET /v1/organization/pools")).toBe(true);
    expect(may("POST /v1/organization/projects/{project_id}/api_keys")).toBe(true);
    expect(may("POST /v1/organization/pools")).toBe(false);
  });

  it("that has ended is none", async () => {
    answering({ status: 401, body: ENDED });
    await restoreSession();
    expect(currentSession()).toBeNull();
    expect(may("GET /v1/organization/pools")).toBe(false);
  });
});
