/** Closed days of the ledger as files for a bill, a warehouse or a spreadsheet. */
import { Download } from "lucide-react";
import { useState } from "react";
import { closing, toast } from "@/ui/toast";
import type { ApiError } from "@/api/client";
import { download } from "@/api/client";
import { useProjectNames, useProjects } from "@/api/names";
import { useChange, useList } from "@/api/queries";
import type { ExportRun } from "@/api/shapes";
import { bytes, count, words } from "@/lib/format";
import { isoDay, nowUnix, utcDay } from "@/lib/time";
import type { Tone } from "@/ui/bits";
import { Status, Tag, Time } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import { saveFile } from "./explorer";

const LIST = "GET /v1/organization/exports";
const TONES: Record<string, Tone> = { succeeded: "good", failed: "bad", running: "busy", queued: "plain" };
const FORMATS = [
  ["csv", "CSV"],
  ["jsonl", "JSON lines"],
  ["parquet", "Parquet"],
  ["focus", "FOCUS 1.2"],
  ["stripe", "Stripe meter events"],
] as const;

export function Exports() {
  const [making, setMaking] = useState(false);
  const names = useProjectNames();
  const { query, rows } = useList(LIST, { query: { limit: 50 } }, { everyMs: 5_000 });
  const add = (
    <AddButton needs="POST /v1/organization/exports" onClick={() => setMaking(true)}>New export</AddButton>
  );
  const columns: Column<ExportRun>[] = [
    { head: "Days, UTC", main: true, cell: (row) => `${row.start_date} – ${lastDay(row.end_date)}` },
    { head: "Format", cell: (row) => <Tag>{row.format}</Tag> },
    { head: "Tenant", cell: (row) => (row.project_id === null ? "All" : (names.get(row.project_id) ?? row.project_id)) },
    {
      head: "State",
      cell: (row) => (
        <span title={row.error ?? undefined}>
          <Status tone={TONES[row.status] ?? "plain"}>{words(row.status)}</Status>
        </span>
      ),
    },
    { head: "Lines", right: true, cell: (row) => count(row.rows) },
    { head: "Asked for", cell: (row) => <Time at={row.created_at} short /> },
    { head: "Files", action: true, right: true, cell: (row) => <Files key="files" run={row} /> },
  ];
  return (
    <Section title="Exports" lead="A day is closed two hours after its end; the same days give the same bytes." actions={rows.length > 0 && add}>
      <PagedTable
        label="Exports"
        query={query}
        rows={rows}
        columns={columns}
        rowKey={(row) => row.id}
        empty={
          <Empty title="No exports yet" action={add}>
            An export holds every line of the ledger of the days that you choose, with totals that match the bills.
          </Empty>
        }
      />
      <Dialog open={making} onClose={() => setMaking(false)} title="New export">
        {making && <ExportForm onClose={() => setMaking(false)} />}
      </Dialog>
    </Section>
  );
}

/** `end_date` is the day after the last. */
const lastDay = (end: string): string => isoDay(Date.parse(end) / 1000 - 86_400);

function Files({ run }: { run: ExportRun }) {
  return (
    <span className="inline-flex flex-wrap justify-end gap-1">
      {run.files?.map((file) => (
        <Button key={file.name} look="quiet" size="small" title={`${file.name}\nsha256 ${file.sha256}`} onClick={() => void fetchFile(run.id, file.name)}>
          <Download />
          {bytes(file.bytes)}
        </Button>
      ))}
    </span>
  );
}

async function fetchFile(exportId: string, name: string): Promise<void> {
  try {
    saveFile(await download("GET /v1/organization/exports/{export_id}/files/{name}", { path: { export_id: exportId, name } }), name);
  } catch (error) {
    toast.error((error as ApiError).message);
  }
}

function ExportForm({ onClose }: { onClose: () => void }) {
  const today = utcDay(nowUnix());
  const month = new Date(today * 1000);
  const [format, setFormat] = useState<(typeof FORMATS)[number][0]>("csv");
  const [tenant, setTenant] = useState("");
  const [first, setFirst] = useState(isoDay(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() - 1, 1) / 1000));
  const [last, setLast] = useState(isoDay(Date.UTC(month.getUTCFullYear(), month.getUTCMonth(), 0) / 1000));
  const projects = useProjects();
  const create = useChange("POST /v1/organization/exports", [LIST]);

  function submit() {
    create.mutate({ body: { format, start_date: first, end_date: isoDay(Date.parse(last) / 1000 + 86_400), ...(tenant ? { project_id: tenant } : {}) } }, closing(onClose, "The export is being made"));
  }

  return (
    <DialogForm changes={[create]} action="Make the export" onSubmit={submit} onClose={onClose}>
      <div className="grid grid-cols-2 gap-4">
        <Field label="First day">
          <Input type="date" value={first} onChange={(event) => setFirst(event.target.value)} required />
        </Field>
        <Field label="Last day">
          <Input type="date" value={last} min={first} onChange={(event) => setLast(event.target.value)} required />
        </Field>
        <Field label="Format">
          <Select value={format} onChange={(event) => setFormat(event.target.value as typeof format)}>
            <Options of={FORMATS} />
          </Select>
        </Field>
        <Field label="Tenant">
          <Select value={tenant} onChange={(event) => setTenant(event.target.value)}>
            <option value="">All tenants</option>
            <Options of={projects.map((one) => [one.id, one.name])} />
          </Select>
        </Field>
      </div>
    </DialogForm>
  );
}
