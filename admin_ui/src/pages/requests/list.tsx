/** Every request as the ledger has it. The filters stand in the address, so that a view can be sent to somebody. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { usePoolNames, usePools, useProjectNames, useProjects, useServedNames } from "@/api/names";
import { useList } from "@/api/queries";
import { may, ownProjects } from "@/api/session";
import { useRange } from "@/app/time-range";
import { Freshness } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Check, Input, Options, Select } from "@/ui/field";
import { Page } from "@/ui/page";
import { Empty } from "@/ui/states";
import { PagedTable } from "@/ui/table";
import { requestColumns } from "./columns";

const STATUSES = ["ok", "partial", "cancelled", "error", "unknown"];
const CLASSES = ["interactive", "batch"];
const LIVE_MS = 5_000;

export function Requests() {
  const { range: _range, from: _from, to: _to, ...filters } = useSearch({ from: "/requests" });
  const range = useRange();
  const navigate = useNavigate({ from: "/requests" });
  const [live, setLive] = useState(false);
  const set = (change: Record<string, string | undefined>) => void navigate({ search: (known) => ({ ...known, ...change }), replace: true });
  const { query, rows } = useList(
    "GET /v1/organization/requests",
    {
      query: {
        limit: 50,
        project_id: filters["tenant"] ?? ownProjects()?.[0]?.id,
        model: filters["model"],
        status: filters["status"] ? [filters["status"]] : [],
        class: filters["class"],
        pool_id: filters["pool"],
        api_key_id: filters["key"],
        start_time: range.start,
        end_time: range.isOpen ? undefined : range.end,
      } as never,
    },
    live ? { everyMs: LIVE_MS } : {},
  );
  const names = useProjectNames();
  const pools = usePoolNames();
  const filtered = Object.values(filters).some(Boolean);
  return (
    <Page
      wide
      title="Requests"
      lead="One line for each settled request: its tokens, its cost, how long it took."
      actions={
        <>
          {live && <Freshness at={query.dataUpdatedAt} failing={query.isRefetchError} />}
          <Check label="Live" checked={live} onChange={(event) => setLive(event.target.checked)} />
        </>
      }
    >
      <Filters filters={filters} set={set} clear={filtered ? () => void navigate({ search: {}, replace: true }) : null} />
      <PagedTable
        label="Requests"
        query={query}
        rows={rows}
        columns={requestColumns(names, may("GET /v1/organization/pools") ? pools : null)}
        rowKey={(row) => row.id}
        empty={
          filtered ? (
            <Empty title={`No request ${range.during} matches`} action={<Button onClick={() => void navigate({ search: {}, replace: true })}>Clear the filters</Button>} />
          ) : (
            <Empty title={`No requests ${range.during}`}>Once a tenant calls a model, each of its requests stands here. The range of time is chosen above.</Empty>
          )
        }
      />
    </Page>
  );
}

interface FilterProps {
  filters: Record<string, string | undefined>;
  set: (change: Record<string, string | undefined>) => void;
  clear: (() => void) | null;
}

function Filters({ filters, set, clear }: FilterProps) {
  const projects = useProjects();
  const pools = usePools();
  const models = useServedNames();
  const choice = (name: string, label: string, options: [string, string][]) => (
    <Select aria-label={label} value={filters[name] ?? ""} onChange={(event) => set({ [name]: event.target.value || undefined })} className="w-auto min-w-32">
      <option value="">{label}</option>
      <Options of={options} />
      {filters[name] && !options.some(([value]) => value === filters[name]) && <option value={filters[name]}>{filters[name]}</option>}
    </Select>
  );
  return (
    <div role="search" aria-label="Filters" className="mb-4 flex flex-wrap items-center gap-2">
      {choice("tenant", "Any tenant", projects.map(({ id, name }) => [id, name]))}
      {choice("model", "Any model", models.map((name) => [name, name]))}
      {choice("status", "Any status", STATUSES.map((name) => [name, name]))}
      {choice("class", "Any class", CLASSES.map((name) => [name, name]))}
      {pools.length > 0 && choice("pool", "Any pool", pools.map(({ id, name }) => [id, name]))}
      <KeyFilter key={filters["key"] ?? ""} value={filters["key"] ?? ""} onChange={(key) => set({ key: key || undefined })} />
      {clear && (
        <Button look="quiet" onClick={clear}>
          Clear
        </Button>
      )}
    </div>
  );
}

function KeyFilter({ value, onChange }: { value: string; onChange: (key: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => onChange(text.trim()), 400);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return <Input aria-label="Key id" placeholder="Key id" value={text} onChange={(event) => setText(event.target.value)} className="w-36" />;
}
