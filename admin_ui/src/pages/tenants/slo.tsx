/** What the tenant was promised, and how it is kept. */
import { useMemo } from "react";
import { useApi } from "@/api/queries";
import { Section } from "@/ui/page";
import { Board } from "../slo/board";
import { Latency } from "../slo/latency";
import type { TabProps } from "./one";

export function TenantSlo({ tenant }: TabProps) {
  const board = useApi("GET /v1/organization/slo/board", { query: { limit: 20, project_ids: [tenant.id] } });
  const objectives = useMemo(() => (board.data?.data ?? []).flatMap((line) => line.series).filter((one) => one.class === "interactive"), [board.data]);
  return (
    <>
      <Section title="Promises" lead="Worst first, over the last 30 days.">
        <Board tenant={tenant.id} />
      </Section>
      <Latency tenant={tenant.id} objectives={objectives} />
    </>
  );
}
