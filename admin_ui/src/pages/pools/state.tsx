/** How far the pool is, who chooses how many replicas it has, and what its devices do. */
import type { Pool } from "@/api/shapes";
import { count, percent } from "@/lib/format";
import { Bar, Id, Status, When } from "@/ui/bits";
import { Panel, Section } from "@/ui/page";
import { Table } from "@/ui/table";
import { devicesOf, phaseOf, rollOf, scaledBy, sentenceOf } from "./progress";
import { ReplicaStatus } from "./replica-state";

export function Rolling({ pool }: { pool: Pool }) {
  const roll = rollOf(pool);
  if (roll === null || pool.desired_state === "stopped") return null;
  return (
    <Panel className="mb-7">
      <div className="mb-2 flex flex-wrap items-center justify-between gap-2">
        <p className="font-medium" role="status">
          Rolling to generation {pool.generation}: {sentenceOf(roll)}
        </p>
        <span className="figure text-ink-2">{percent(roll.done / roll.total, 0)}</span>
      </div>
      <Bar share={roll.done / roll.total} label="Replicas replaced" />
      <p className="mt-2 text-[13px] text-ink-2">Each new replica is ready before an old one stops taking requests, and an old one ends when it has finished what it has.</p>
    </Panel>
  );
}

export function Nodes({ pool }: { pool: Pool }) {
  if (pool.nodes.length === 0) return null;
  const scales = scaledBy(pool) === "by the queue";
  return (
    <Section title="On each node" lead={`The number of replicas is chosen ${scaledBy(pool)}.`}>
      <Table
        label="Nodes"
        rows={pool.nodes}
        rowKey={(node) => node.node}
        columns={[
          { head: "Node", main: true, cell: (node) => node.node },
          { head: "State", cell: (node) => <Status tone={phaseOf(node).tone}>{phaseOf(node).word}</Status> },
          { head: "Since", cell: (node) => <When at={node.since} /> },
          { head: "Why", wide: true, cell: (node) => <span className="text-[13px] break-words text-ink-2">{node.reason || "–"}</span> },
          ...(scales
            ? [
                { head: "Chosen", right: true, cell: (node: Pool["nodes"][number]) => count(node.replicas) },
                { head: "Chosen at", cell: (node: Pool["nodes"][number]) => <When at={node.scaled_at} never="not yet" /> },
                { head: "Chosen for", cell: (node: Pool["nodes"][number]) => <span className="text-[13px] text-ink-2">{node.scaled_for ?? "–"}</span> },
              ]
            : []),
        ]}
      />
    </Section>
  );
}

export function Devices({ pool }: { pool: Pool }) {
  const devices = devicesOf(pool);
  if (devices.length === 0) return null;
  return (
    <Section title="GPUs" lead="Those that are dedicated to the pool. The supervisor looks at their health every 15 seconds, and starts nothing on one in trouble.">
      <Table
        label="GPUs"
        rows={devices}
        rowKey={(device) => device.name}
        columns={[
          { head: "GPU", main: true, cell: (device) => <span className="font-normal sm:whitespace-nowrap"><Id>{device.name}</Id></span> },
          { head: "Health", cell: (device) => (device.trouble === null ? <Status tone="good">Nothing reported</Status> : <Status tone="bad">In trouble</Status>) },
          { head: "Held by", cell: (device) => (device.holder === null ? <span className="text-ink-3">nobody</span> : <span className="inline-flex max-w-full flex-wrap items-center justify-end gap-2 sm:flex-nowrap"><span className="min-w-0 break-all sm:break-normal sm:whitespace-nowrap"><Id>{device.holder.id}</Id></span> <ReplicaStatus state={device.holder.state} /></span>) },
          { head: "What is wrong", wide: true, cell: (device) => <span className="text-[13px] break-words text-ink-2">{device.trouble ?? "–"}</span> },
        ]}
      />
    </Section>
  );
}
