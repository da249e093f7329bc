/** Who changed what: a line per change, with what was and what is. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useState } from "react";
import { useList } from "@/api/queries";
import type { AuditLine } from "@/api/shapes";
import { useRange } from "@/app/time-range";
import { words } from "@/lib/format";
import { Id, Tag, Time } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Facts } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";

interface Props {
  query: { project_ids?: string[]; actor_emails?: string[]; event_types?: string[] };
  hideTenant?: boolean;
}

export function AuditTable({ query, hideTenant }: Props) {
  const [shown, setShown] = useState<AuditLine | null>(null);
  const range = useRange();
  const list = useList("GET /v1/organization/audit_logs", { query: { limit: 50, ...query, "effective_at[gte]": range.start, ...(range.isOpen ? {} : { "effective_at[lt]": range.end }) } });
  const columns: Column<AuditLine>[] = [
    { head: "Time", main: true, cell: (row) => <span className="font-normal"><Time at={row.effective_at} short /></span> },
    { head: "Who", cell: (row) => actorOf(row) },
    { head: "Did", cell: (row) => <span className="sm:whitespace-nowrap">{actionOf(row.action)}</span> },
    ...(hideTenant
      ? []
      : [
          {
            head: "Tenant",
            cell: (row: AuditLine) =>
              row.project === null ? (
                <span className="text-ink-3">–</span>
              ) : (
                <Link to="/tenants/$tenantId" params={{ tenantId: row.project.id }} className="hover:underline sm:whitespace-nowrap">
                  {row.project.name ?? row.project.id}
                </Link>
              ),
          },
        ]),
    { head: "To", wide: true, cell: (row) => <Id>{row.resource.id}</Id> },
    {
      head: "Details",
      action: true,
      right: true,
      cell: (row) => (
        <Button key="details" look="quiet" size="small" onClick={() => setShown(row)}>
          Details
        </Button>
      ),
    },
  ];
  return (
    <>
      <PagedTable label="Audit log" query={list.query} rows={list.rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title={`Nothing changed ${range.during}`}>Every change that somebody makes leaves a line here.</Empty>} />
      <Dialog open={shown !== null} onClose={() => setShown(null)} title={shown === null ? "" : actionOf(shown.action)} wide>
        {shown !== null && <Details line={shown} />}
      </Dialog>
    </>
  );
}

export function actorOf(line: AuditLine): string {
  const { session, api_key: key, system } = line.actor;
  if (session !== null && session !== undefined) return session.user.email ?? session.user.id;
  if (system !== undefined) return words(system.id);
  return key?.user?.email ?? (key === null ? "–" : key.type === "service_account" ? "a service account" : "an admin key");
}

/** `api_key.rotated` → `API key rotated`. */
export function actionOf(action: string): string {
  const [thing = "", ...verb] = action.split(".");
  return words([thing, ...verb].join("_")).replace(/^Api /, "API ").replace(/ api /, " API ");
}

function Details({ line }: { line: AuditLine }) {
  const { before, after, ...rest } = line.details;
  const fields = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter((name) => shownValue(before?.[name]) !== shownValue(after?.[name]));
  const address = line.actor.session?.ip_address ?? line.actor.ip_address;
  return (
    <>
      <Facts
        rows={[
          ["When", <Time key="at" at={line.effective_at} />],
          ["Who", actorOf(line)],
          ...(line.actor.api_key ? ([["Key", <Id key="key">{line.actor.api_key.id}</Id>]] as [string, ReactNode][]) : []),
          ...(address ? ([["From", <Id key="from">{address}</Id>]] as [string, ReactNode][]) : []),
          ["What", <span key="what">{words(line.resource.type)} <Id>{line.resource.id}</Id></span>],
          ...(line.request_id ? ([["Request", <Id key="request">{line.request_id}</Id>]] as [string, ReactNode][]) : []),
          ...Object.entries(rest).map(([name, value]): [string, ReactNode] => [words(name), shownValue(value)]),
        ]}
      />
      {fields.length > 0 && (
        <table aria-label="What changed" className="mt-3 w-full text-[13px]">
          <thead>
            <tr className="border-b text-left text-[12.5px] text-ink-2">
              <th className="h-8 pr-3 font-medium">Field</th>
              {before && <th className="px-3 font-medium">Before</th>}
              {after && <th className="px-3 font-medium">After</th>}
            </tr>
          </thead>
          <tbody className="divide-y align-top">
            {fields.map((name) => (
              <tr key={name}>
                <td className="py-1.5 pr-3">{words(name)}</td>
                {before && <td className="px-3 py-1.5 font-mono text-[12.5px] break-all text-ink-2">{shownValue(before[name])}</td>}
                {after && <td className="px-3 py-1.5 font-mono text-[12.5px] break-all">{shownValue(after[name])}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {line.project !== null && <p className="mt-3"><Tag>{line.project.name ?? line.project.id}</Tag></p>}
    </>
  );
}

function shownValue(value: unknown): string {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
