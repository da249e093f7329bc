import { describe, expect, it } from "vitest";
import { events } from "./playground-chat";

async function read(...pieces: string[]): Promise<string[]> {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(encoder.encode(piece));
      controller.close();
    },
  });
  const found: string[] = [];
  for await (const data of events(body)) found.push(data);
  return found;
}

describe("events of a stream", () => {
  it("are put together however they were cut", async () => {
    expect(await read('data: {"a', '":1}\n', "\n: keep-alive\n\nda", "ta: [DONE]\n\n")).toEqual(['{"a":1}', "[DONE]"]);
  });

  it("may end their lines as on Windows", async () => {
    expect(await read("data: 1\r\n\r\ndata: 2\r\n\r\n")).toEqual(["1", "2"]);
  });
});
