/** What the tenant was promised, and how it is kept. */
import { useMemo } from "react";
import { Section } from "@/ui/page";
import { Board, useBoard } from "../slo/board";
import { Latency } from "../slo/latency";
import type { TabProps } from "./one";

export function TenantSlo({ tenant }: TabProps) {
  const { rows } = useBoard(tenant.id);
  const objectives = useMemo(() => rows.flatMap((line) => line.series).filter((one) => one.class === "interactive"), [rows]);
  return (
    <>
      <Section title="Promises" lead="Worst first, over the last 30 days.">
        <Board tenant={tenant.id} />
      </Section>
      <Latency tenant={tenant.id} objectives={objectives} />
    </>
  );
}
