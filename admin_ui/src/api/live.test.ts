import { describe, expect, it } from "vitest";
import { concerned } from "./live";

describe("what a hint concerns", () => {
  it("is asked for again, and nothing else", () => {
    expect(concerned(["usage"], "GET /v1/organization/requests")).toBe(true);
    expect(concerned(["usage"], "GET /v1/organization/usage/breakdown")).toBe(true);
    expect(concerned(["slo"], "GET /v1/organization/slo/board")).toBe(true);
    expect(concerned(["pools"], "GET /v1/organization/pools/{pool_id}")).toBe(true);
    expect(concerned(["pools"], "GET /v1/organization/projects")).toBe(false);
    expect(concerned(["unheard of"], "GET /v1/organization/requests")).toBe(false);
  });
});
