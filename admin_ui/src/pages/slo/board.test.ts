import { describe, expect, it } from "vitest";
import { riskOf } from "./board";

const word = (budget_left: number | null, burn_1h: number | null) => riskOf({ budget_left, burn_1h }).word;

describe("a promise's risk", () => {
  it("is the worse of what is left and how fast it goes", () => {
    expect(word(1, 0)).toBe("Kept");
    expect(word(0.9, 1)).toBe("Watch");
    expect(word(0.2, 0)).toBe("Watch");
    expect(word(0.9, 6)).toBe("At risk");
    expect(word(0, 0)).toBe("Broken");
    expect(word(-0.4, 20)).toBe("Broken");
  });

  it("is none without requests", () => {
    expect(word(null, null)).toBe("No requests");
  });
});
