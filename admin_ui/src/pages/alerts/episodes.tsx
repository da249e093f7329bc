/** What is wrong now and what was: an episode fires once and is over once. Silences keep it from waking somebody. */
import { BellOff } from "lucide-react";
import { useState } from "react";
import { useProjectNames } from "@/api/names";
import { useChange, useList } from "@/api/queries";
import type { AlertEpisode, AlertSilence } from "@/api/schema";
import { words } from "@/lib/format";
import { Freshness, Status, Time, When } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty, Failure } from "@/ui/states";
import { closing } from "@/ui/toast";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import { detailsOf, Fired, titleOf } from "./fired";

const EPISODES = "GET /v1/organization/alert_episodes";
const SILENCES = "GET /v1/organization/alert_silences";
const LIVE_MS = 10_000;

export function Episodes() {
  const [state, setState] = useState<"open" | "resolved" | "">("open");
  const [silencing, setSilencing] = useState<AlertEpisode | null>(null);
  const names = useProjectNames();
  const { query, rows } = useList(EPISODES, { query: { limit: 50, ...(state ? { state } : {}) } }, { everyMs: LIVE_MS });
  const columns: Column<AlertEpisode>[] = [
    { head: "What", main: true, cell: (row) => <span className="whitespace-nowrap">{titleOf(row.source)}</span> },
    { head: "State", cell: (row) => <EpisodeStatus episode={row} /> },
    { head: "Severity", cell: (row) => words(row.severity) },
    { head: "Of", cell: (row) => <span className="whitespace-nowrap">{row.project_id === null ? "The installation" : (names.get(row.project_id) ?? row.project_id)}</span> },
    { head: "Values", wide: true, cell: (row) => <span className="text-[13px] text-ink-2">{detailsOf(row.last_values)}</span> },
    { head: "Since", cell: (row) => <When at={row.fired_at} /> },
    { head: "Until", cell: (row) => <Time at={row.resolved_at} short /> },
    {
      head: "Actions",
      action: true,
      right: true,
      needs: "POST /v1/organization/alert_silences",
      cell: (row) =>
        row.state === "open" && row.silence_id === null ? (
          <Button size="small" look="quiet" onClick={() => setSilencing(row)}>
            <BellOff />
            Silence
          </Button>
        ) : null,
    },
  ];
  return (
    <>
      <Section
        title="Episodes"
        lead="Each fires once and is over once, however often its figures cross the line in between."
        actions={
          <div className="flex items-center gap-3">
            <Freshness at={query.dataUpdatedAt} failing={query.isRefetchError} />
            <Select aria-label="State" className="w-auto" value={state} onChange={(event) => setState(event.target.value as typeof state)}>
              <option value="open">Open</option>
              <option value="resolved">Over</option>
              <option value="">All</option>
            </Select>
          </div>
        }
      >
        <PagedTable label="Episodes" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title={state === "open" ? "Nothing is wrong" : "Nothing has been wrong"}>Promises at risk, queues too long and replicas that are down stand here.</Empty>} />
      </Section>
      <Silences />
      <Fired />
      <Dialog open={silencing !== null} onClose={() => setSilencing(null)} title={silencing === null ? "" : `Silence “${titleOf(silencing.source)}”`}>
        {silencing !== null && <SilenceForm episode={silencing} onClose={() => setSilencing(null)} />}
      </Dialog>
    </>
  );
}

function EpisodeStatus({ episode }: { episode: AlertEpisode }) {
  if (episode.state === "resolved") return <Status tone="good">Over</Status>;
  if (episode.silence_id !== null) return <Status tone="plain">Silenced</Status>;
  return <Status tone={episode.severity === "page" ? "bad" : "warn"}>{episode.quiet_since === null ? "Firing" : "Calming down"}</Status>;
}

const LENGTHS = [
  ["3600", "An hour"],
  ["14400", "4 hours"],
  ["86400", "A day"],
  ["604800", "A week"],
] as const;

function SilenceForm({ episode, onClose }: { episode: AlertEpisode; onClose: () => void }) {
  const [lasts, setLasts] = useState("3600");
  const [reason, setReason] = useState("");
  const create = useChange("POST /v1/organization/alert_silences", [EPISODES, SILENCES]);
  function submit() {
    create.mutate({ body: { source: episode.source, scope: episode.scope, project_id: episode.project_id, lasts_s: Number(lasts), reason } }, closing(onClose, "Silenced: nobody is told"));
  }
  return (
    <DialogForm changes={[create]} action="Silence" onSubmit={submit} onClose={onClose}>
      <Field label="For">
        <Select value={lasts} onChange={(event) => setLasts(event.target.value)}>
          <Options of={LENGTHS} />
        </Select>
      </Field>
      <Field label="Why" hint="For whoever looks at it next.">
        <Input value={reason} onChange={(event) => setReason(event.target.value)} required maxLength={500} autoFocus />
      </Field>
    </DialogForm>
  );
}

function Silences() {
  const { query, rows } = useList(SILENCES, { query: { limit: 20, state: "open" } });
  const end = useChange("DELETE /v1/organization/alert_silences/{silence_id}", [SILENCES, EPISODES]);
  const columns: Column<AlertSilence>[] = [
    { head: "What", main: true, cell: (row) => (row.source === null ? "Everything" : titleOf(row.source)) },
    { head: "Why", wide: true, cell: (row) => row.reason },
    { head: "By", cell: (row) => row.created_by },
    { head: "Until", cell: (row) => <When at={row.ends_at} /> },
    {
      head: "Actions",
      action: true,
      right: true,
      needs: "DELETE /v1/organization/alert_silences/{silence_id}",
      cell: (row) => (
        <Button size="small" look="quiet" onClick={() => end.mutate({ path: { silence_id: row.id } })}>
          End
        </Button>
      ),
    },
  ];
  if (rows.length === 0) return null;
  return (
    <Section title="Silences">
      {end.error && <Failure error={end.error} className="mb-3" />}
      <PagedTable label="Silences" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={null} />
    </Section>
  );
}
