import { describe, expect, it } from "vitest";
import { bytes, change, compact, count, ms, percent, words } from "./format";
import { isoDay, relative, utcDay, utcTime } from "./time";

describe("figures", () => {
  it("groups and shortens", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(count(null)).toBe("–");
    expect(compact(9999)).toBe("9,999");
    expect(compact(1_234_567)).toBe("1.23M");
    expect(percent(0.9991, 2)).toBe("99.91 %");
    expect(bytes(999)).toBe("999 B");
    expect(bytes(1_500_000)).toBe("1.5 MB");
    expect(words("service_account")).toBe("Service account");
  });

  it("keeps the unit of a duration readable", () => {
    expect(ms(3.2)).toBe("3.2 ms");
    expect(ms(840.4)).toBe("840 ms");
    expect(ms(1840)).toBe("1.84 s");
    expect(ms(125_000)).toBe("2 min 5 s");
  });

  it("has no change from nothing", () => {
    expect(change(5, 0)).toBeNull();
    expect(change(5, 4)).toBe(0.25);
  });
});

describe("times", () => {
  it("tells how long ago, and how long yet", () => {
    expect(relative(100, 103)).toBe("now");
    expect(relative(100, 190)).toBe("1 minute ago");
    expect(relative(100_000, 7200 + 100_000)).toBe("2 hours ago");
    expect(relative(172_800, 0)).toBe("in 2 days");
  });

  it("names UTC days", () => {
    expect(utcTime(0)).toBe("1970-01-01 00:00:00 UTC");
    expect(utcDay(86_401)).toBe(86_400);
    expect(isoDay(86_401)).toBe("1970-01-02");
  });
});
