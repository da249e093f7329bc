import { describe, expect, it } from "vitest";
import { decimalsOf, exactUsd, parseUsd, perMillion, perToken, plainUsd, usd } from "./money";

describe("amounts", () => {
  it("shows every nano-dollar", () => {
    expect(exactUsd(1)).toBe("$0.000000001");
    expect(exactUsd(1_234_567_890_123)).toBe("$1,234.567890123");
    expect(exactUsd(-5_000_000_000)).toBe("−$5.00");
    expect(exactUsd(9_007_199_254_740_991)).toBe("$9,007,199.254740991");
  });

  it("rounds for a glance, never to nothing", () => {
    expect(usd(0)).toBe("$0.00");
    expect(usd(1_234_567_890)).toBe("$1.23");
    expect(usd(1_235_000_000)).toBe("$1.24");
    expect(usd(1_234_567)).toBe("$0.00123");
    expect(usd(1)).toBe("$0.000000001");
    expect(usd(-123_456)).toBe("−$0.000123");
    expect(usd(220_000)).toBe("$0.000220");
    expect(usd(99_000_000)).toBe("$0.0990");
  });

  it("ends all amounts of a bill at the same place", () => {
    const amounts = [52_300, 20_930, 58_000, null];
    expect(decimalsOf(amounts)).toBe(8);
    expect(exactUsd(58_000, decimalsOf(amounts))).toBe("$0.00005800");
    expect(decimalsOf([2_000_000_000])).toBe(2);
  });

  it("reads what somebody types", () => {
    expect(parseUsd("50")).toBe(50_000_000_000);
    expect(parseUsd("$1,234.5")).toBe(1_234_500_000_000);
    expect(parseUsd("0.000000001")).toBe(1);
    expect(parseUsd("-1")).toBeNull();
    expect(parseUsd("1e3")).toBeNull();
    expect(parseUsd("")).toBeNull();
    expect(plainUsd(1_234_500_000_000)).toBe("1234.50");
  });

  it("turns prices per token into prices per million and back", () => {
    expect(perMillion("150")).toBe("$0.15");
    expect(perMillion("0.5")).toBe("$0.0005");
    expect(perToken("0.15")).toBe("150");
    expect(perToken("0.0005")).toBe("0.5");
    expect(perToken("0")).toBe("0");
    expect(perToken("free")).toBeNull();
  });
});
