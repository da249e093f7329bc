/** One request: what it cost by which prices, how its time was spent, which attempts it took, what was corrected. */
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { usePoolNames, useProjectNames } from "@/api/names";
import { useApi } from "@/api/queries";
import type { Attempt, RequestDetail } from "@/api/shapes";
import { count, ms, NONE, words } from "@/lib/format";
import { decimalsOf, perMillion } from "@/lib/money";
import { CopyButton, Id, Money, Status, Tag, Time } from "@/ui/bits";
import { Facts, Page, Panel, Section } from "@/ui/page";
import { Empty, Loaded, SkeletonRows } from "@/ui/states";
import type { Column } from "@/ui/table";
import { Table } from "@/ui/table";
import { RequestStatus } from "./columns";
import { Timeline } from "./timeline";

export function RequestPage() {
  const { requestId } = useParams({ from: "/requests/$requestId" });
  const query = useApi("GET /v1/organization/requests/{request_id}", { path: { request_id: requestId } });
  return (
    <Page
      title="Request"
      within={{ to: "/requests", title: "Requests" }}
      lead={
        <span className="flex flex-wrap items-center gap-2">
          <Id>{requestId}</Id>
          <CopyButton text={requestId} label="Copy id" look="quiet" />
        </span>
      }
    >
      <Loaded query={query} skeleton={<SkeletonRows rows={10} />}>
        {(found) => <Detail request={found} />}
      </Loaded>
    </Page>
  );
}

function Detail({ request }: { request: RequestDetail }) {
  return (
    <>
      <Section title="How its time was spent">
        <Timeline request={request} />
      </Section>
      <div className="grid gap-x-6 lg:grid-cols-2">
        <Section title="Who and what">
          <Panel className="py-2">
            <About request={request} />
          </Panel>
        </Section>
        <Section title="Cost">
          <Bill request={request} />
        </Section>
      </div>
      <Section title="Attempts" lead="What each replica did for it. Only what the caller received is billed.">
        {request.attempts.length === 0 ? <Empty title="No attempts are recorded" /> : <Table label="Attempts" rows={request.attempts} rowKey={(row) => String(row.attempt)} columns={ATTEMPTS} />}
      </Section>
      {request.corrections.length > 0 && (
        <Section title="Corrections">
          <Table
            label="Corrections"
            rows={request.corrections}
            rowKey={(row) => row.event_id}
            columns={[
              { head: "Time", main: true, cell: (row) => <Time at={row.occurred_at} /> },
              { head: "Kind", cell: (row) => words(row.kind) },
              { head: "Reason", wide: true, cell: (row) => row.reason ?? NONE },
              { head: "Amount", right: true, cell: (row) => <Money nano={row.amount_nanousd} exact /> },
            ]}
          />
        </Section>
      )}
    </>
  );
}

function About({ request }: { request: RequestDetail }) {
  const tenants = useProjectNames();
  const pools = usePoolNames();
  const rows: [string, ReactNode][] = [
    ["Status", <RequestStatus key="status" status={request.status} code={request.error_code} />],
    ["Arrived", <Time key="time" at={request.occurred_at} />],
    [
      "Tenant",
      <Link key="tenant" to="/tenants/$tenantId" params={{ tenantId: request.project_id }} className="text-accent-ink hover:underline">
        {tenants.get(request.project_id) ?? request.project_id}
      </Link>,
    ],
    ["Key", request.api_key_id === null ? NONE : <Link key="key" to="/requests" search={{ key: request.api_key_id }} className="hover:underline"><Id>{request.api_key_id}</Id></Link>],
    ["Model", request.model],
    ["Endpoint", `${words(request.endpoint)}${request.stream ? ", streamed" : ""}`],
    ["Class", words(request.class)],
  ];
  if (request.pool_id) rows.push(["Pool", <Link key="pool" to="/pools/$poolId" params={{ poolId: request.pool_id }} className="text-accent-ink hover:underline">{pools.get(request.pool_id) ?? request.pool_id}</Link>]);
  if (request.end_user) rows.push(["End user", request.end_user]);
  if (request.client_retry_count) rows.push(["Client’s retry", request.client_retry_count]);
  rows.push(["Event", <Id key="event">{request.event_id}</Id>]);
  return <Facts rows={rows} />;
}

function Bill({ request }: { request: RequestDetail }) {
  const price = (component: string) => request.prices.find((one) => one.component === component || one.component === `batch_${component}`);
  const lines = [
    { name: "Input", tokens: request.input_tokens - request.input_cached_tokens, price: price("input"), amount: request.input_nanousd },
    { name: "Cached input", tokens: request.input_cached_tokens, price: price("cached_input"), amount: request.cached_input_nanousd },
    { name: "Output", tokens: request.output_tokens, price: price("output"), amount: request.output_nanousd },
  ];
  const decimals = decimalsOf([request.amount_nanousd, ...lines.map((line) => line.amount)]);
  return (
    <Panel className="overflow-x-auto p-0">
      <table aria-label="Cost" className="w-full text-[13.5px]">
        <thead>
          <tr className="border-b bg-sunken/60 text-[12.5px] text-ink-2">
            <th className="h-8 px-3 text-left font-medium">Part</th>
            <th className="px-3 text-right font-medium">Tokens</th>
            <th className="px-3 text-right font-medium">Per million</th>
            <th className="px-3 text-right font-medium">Amount</th>
          </tr>
        </thead>
        <tbody className="divide-y">
          {lines.map((line) => (
            <tr key={line.name}>
              <td className="h-9 px-3">{line.name}</td>
              <td className="px-3 text-right">{count(line.tokens)}</td>
              <td className="px-3 text-right" title={line.price ? `Price ${line.price.id} of ${line.price.sku}` : undefined}>
                {line.price ? perMillion(line.price.nanousd_per_token) : NONE}
              </td>
              <td className="px-3 text-right">
                <Money nano={line.amount} exact decimals={decimals} />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot className="border-t font-semibold">
          <tr>
            <td className="h-9 px-3" colSpan={3}>
              Charged{" "}
              {request.is_provisional && (
                <Status tone="warn">
                  Provisional
                </Status>
              )}
            </td>
            <td className="px-3 text-right">
              <Money nano={request.amount_nanousd} exact decimals={decimals} />
            </td>
          </tr>
          {request.net_amount_nanousd !== request.amount_nanousd && (
            <tr>
              <td className="h-9 px-3" colSpan={3}>
                After corrections
              </td>
              <td className="px-3 text-right">
                <Money nano={request.net_amount_nanousd} exact />
              </td>
            </tr>
          )}
        </tfoot>
      </table>
    </Panel>
  );
}

const ATTEMPTS: Column<Attempt>[] = [
  { head: "Attempt", main: true, cell: (row) => `Attempt ${row.attempt + 1}` },
  { head: "Replica", cell: (row) => (row.replica_id ? <Id>{row.replica_id}</Id> : NONE) },
  { head: "Ended", cell: (row) => (row.finish_reason ? words(row.finish_reason) : NONE) },
  { head: "In", right: true, cell: (row) => count(row.input_tokens) },
  { head: "Cached", right: true, cell: (row) => count(row.input_cached_tokens) },
  { head: "Out", right: true, cell: (row) => count(row.output_tokens) },
  { head: "Billed out", right: true, cell: (row) => count(row.billed_output_tokens) },
  { head: "Unbilled", cell: (row) => (row.unbilled_reason ? <Tag>{words(row.unbilled_reason)}</Tag> : NONE) },
  { head: "Queue", right: true, cell: (row) => ms(row.queue_ms) },
  { head: "TTFT", right: true, cell: (row) => ms(row.ttft_ms) },
  { head: "Total", right: true, cell: (row) => ms(row.e2e_ms) },
];
