import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, renderHook, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { makeQueryClient, useWhole } from "./queries";

const PATIENCE = { timeout: 20_000 };
const BUCKET = { object: "bucket", start_time: 0, end_time: 86_400 };
const PAGES: Record<string, object> = {
  "": { data: [{ ...BUCKET, start_time: 1 }], has_more: true, next_page: "page_2" },
  page_2: { data: [{ ...BUCKET, start_time: 2 }], has_more: true, next_page: "page_3" },
  page_3: { data: [{ ...BUCKET, start_time: 3 }], has_more: false, next_page: null },
};

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function ask() {
  const client = makeQueryClient();
  const wrapper = ({ children }: { children: ReactNode }) => <QueryClientProvider client={client}>{children}</QueryClientProvider>;
  return renderHook(() => useWhole("GET /v1/organization/costs", { query: { start_time: 1, limit: 1 } }), { wrapper }).result;
}

function pageOf(url: string): string {
  return new URL(url, "http://x").searchParams.get("page") ?? "";
}

describe("a whole list", () => {
  it("is there with its last page, and not before", async () => {
    const seen: (number | undefined)[] = [];
    vi.stubGlobal("fetch", vi.fn(async (url: string) => new Response(JSON.stringify(PAGES[pageOf(url)]))));
    const result = ask();
    await waitFor(() => {
      seen.push(result.current.data?.length);
      expect(result.current.data?.map((one) => one.start_time)).toEqual([1, 2, 3]);
    }, PATIENCE);
    expect(new Set(seen)).toEqual(new Set([undefined, 3]));
  });

  it("that cannot be had to its end is none, and says why", async () => {
    const refused = { error: { message: "no more", type: "x", param: null, code: null } };
    vi.stubGlobal("fetch", vi.fn(async (url: string) => (pageOf(url) === "page_2" ? new Response(JSON.stringify(refused), { status: 400 }) : new Response(JSON.stringify(PAGES[pageOf(url)])))));
    const result = ask();
    await waitFor(() => expect(result.current.error?.message).toBe("no more"), PATIENCE);
    expect(result.current.data).toBeUndefined();
  });
});
