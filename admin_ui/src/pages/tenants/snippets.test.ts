import { describe, expect, it } from "vitest";
import { LANGUAGES, snippet } from "./snippets";

describe("snippets", () => {
  it.each(LANGUAGES)("%s names the address, the key and the model", (language) => {
    const text = snippet(language, "tw-1-x", "gemma", "https://llm.example.com");
    expect(text).toContain("https://llm.example.com/v1");
    expect(text).toContain("tw-1-x");
    expect(text).toContain('"gemma"');
  });

  it("is a request that a shell and a JSON reader take", () => {
    const body = /-d '(.*)'$/s.exec(snippet("curl", "k", "a/b", "http://x"))?.[1];
    expect(JSON.parse(body ?? "")).toEqual({ model: "a/b", messages: [{ role: "user", content: "Hello" }] });
  });
});
