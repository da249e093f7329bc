/** What has changed, as the gateway tells open pages: what is shown of it is asked for again. A session's cookie goes with
the stream; who came with an admin key, which a stream cannot carry, is left to ask from time to time. */
import type { QueryClient } from "@tanstack/react-query";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { sessionEnded, useSession } from "./session";

const PREFIX = /^GET \/v1\/organization\//;
/** By topic, how the calls begin whose answers it concerns. */
const CONCERNS: Record<string, string[]> = {
  usage: ["requests", "usage/", "costs", "budgets", "overview"],
  alerts: ["alerts", "alert_episodes", "overview"],
  audit: ["audit_logs", "overview"],
  slo: ["slo/"],
  pools: ["pools", "replicas", "overview"],
};
/** A busy installation changes all the time; pages are read by people. */
const AT_MOST_EVERY_MS = 3_000;

export function concerned(topics: string[], call: string): boolean {
  const name = call.replace(PREFIX, "");
  return topics.some((topic) => CONCERNS[topic]?.some((start) => name === start || name.startsWith(start)));
}

export function useLive(): void {
  const client = useQueryClient();
  const session = useSession();
  const isPerson = Boolean(session?.me.session);
  useEffect(() => (isPerson ? listen(client) : undefined), [client, isPerson]);
}

/** Somebody has paged back: the lines under their eyes stay where they are. */
function isBeingRead(data: unknown): boolean {
  return ((data as { pages?: unknown[] } | undefined)?.pages?.length ?? 0) > 1;
}

function listen(client: QueryClient): () => void {
  const source = new EventSource("/v1/organization/live");
  const waiting = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  function later(topics: string[]) {
    for (const topic of topics) waiting.add(topic);
    timer ??= setTimeout(() => {
      const due = [...waiting];
      waiting.clear();
      timer = null;
      void client.invalidateQueries({ predicate: ({ queryKey, state }) => concerned(due, String(queryKey[0])) && !isBeingRead(state.data) });
    }, AT_MOST_EVERY_MS);
  }
  source.addEventListener("change", (event) => later((JSON.parse((event as MessageEvent<string>).data) as { topics: string[] }).topics));
  source.addEventListener("reset", () => later(Object.keys(CONCERNS)));
  source.addEventListener("end", () => {
    source.close();
    sessionEnded();
  });
  return () => {
    source.close();
    if (timer !== null) clearTimeout(timer);
  };
}
