import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { closing } from "@/ui/toast";
import { useActiveProjects, usePoolNames, usePools, useProjectNames } from "@/api/names";
import { useApi, useChange, useList } from "@/api/queries";
import type { Price, Route } from "@/api/shapes";
import { count } from "@/lib/format";
import { perMillion } from "@/lib/money";
import { daysAgo, nowUnix } from "@/lib/time";
import { Status, Tag } from "@/ui/bits";
import { AddButton } from "@/ui/button";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Check, Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { changeOrDelete, PagedTable } from "@/ui/table";

const LIST = "GET /v1/organization/routes";
type Doing = { what: "set"; route: Route | null } | { what: "delete"; route: Route } | null;

export function Routes() {
  const [doing, setDoing] = useState<Doing>(null);
  const { query, rows } = useList(LIST, { query: { limit: 50 } });
  const pools = usePoolNames();
  const tenants = useProjectNames();
  const prices = useCurrentPrices();
  const columns: Column<Route>[] = [
    { head: "Served name", main: true, cell: (row) => row.served_model },
    { head: "For", cell: (row) => (row.project_id === null ? "All tenants" : (tenants.get(row.project_id) ?? row.project_id)) },
    { head: "Pool", cell: (row) => <Link to="/pools/$poolId" params={{ poolId: row.pool_id }} className="hover:underline">{pools.get(row.pool_id) ?? row.pool_id}</Link> },
    { head: "State", cell: (row) => <Status tone={row.published ? "good" : "plain"}>{row.published ? "Published" : "Hidden"}</Status> },
    { head: "SKU", cell: (row) => <Tag>{row.sku}</Tag> },
    { head: "In, $/M", right: true, cell: (row) => priceOf(prices, row.sku, "input") },
    { head: "Cached, $/M", right: true, cell: (row) => priceOf(prices, row.sku, "cached_input") },
    { head: "Out, $/M", right: true, cell: (row) => priceOf(prices, row.sku, "output") },
    { head: "Default output", right: true, cell: (row) => count(row.default_max_output) },
    changeOrDelete("DELETE /v1/organization/routes/{route_id}", (row) => setDoing({ what: "set", route: row }), (row) => setDoing({ what: "delete", route: row })),
  ];
  const add = (
    <AddButton needs="POST /v1/organization/routes" onClick={() => setDoing({ what: "set", route: null })}>New route</AddButton>
  );
  return (
    <Section title="Routes" lead="The same name may lead two tenants to two pools." actions={rows.length > 0 && add}>
      <PagedTable label="Routes" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} dim={(row) => !row.published} empty={<Empty title="No routes" action={add}>Until a route leads a name to a pool no tenant can call anything.</Empty>} />
      <Dialog open={doing?.what === "set"} onClose={() => setDoing(null)} title={doing?.route ? `Change ${doing.route.served_model}` : "New route"}>
        {doing?.what === "set" && <RouteForm route={doing.route} onClose={() => setDoing(null)} />}
      </Dialog>
      {doing?.what === "delete" && <DeleteRoute route={doing.route} onClose={() => setDoing(null)} />}
    </Section>
  );
}

/** By sku and component, what is in force now. */
function useCurrentPrices(): Map<string, Price> {
  const [at] = useState(nowUnix);
  const { data } = useApi("GET /v1/organization/prices", { query: { at, limit: 100 } });
  return new Map((data?.data ?? []).map((price) => [`${price.sku} ${price.component}`, price]));
}

function priceOf(prices: Map<string, Price>, sku: string, component: string) {
  const found = prices.get(`${sku} ${component}`);
  return found === undefined ? <span className="text-ink-3">–</span> : perMillion(found.nanousd_per_token);
}

function RouteForm({ route, onClose }: { route: Route | null; onClose: () => void }) {
  const pools = usePools();
  const projects = useActiveProjects();
  const [name, setName] = useState(route?.served_model ?? "");
  const [pool, setPool] = useState(route?.pool_id ?? "");
  const [sku, setSku] = useState(route?.sku ?? "");
  const [tenant, setTenant] = useState(route?.project_id ?? "");
  const [output, setOutput] = useState(String(route?.default_max_output ?? 4096));
  const [published, setPublished] = useState(route?.published ?? true);
  const create = useChange("POST /v1/organization/routes", [LIST]);
  const update = useChange("PATCH /v1/organization/routes/{route_id}", [LIST]);
  const poolId = pool || (pools[0]?.id ?? "");
  const done = closing(onClose, "Route saved");

  function submit() {
    const body = { pool_id: poolId, sku, default_max_output: Number(output), published };
    if (route === null) create.mutate({ body: { ...body, served_model: name, project_id: tenant || null } }, done);
    else update.mutate({ path: { route_id: route.id }, body }, done);
  }

  return (
    <DialogForm changes={[create, update]} action="Save route" onSubmit={submit} onClose={onClose}>
      <Field label="Served name" hint="What callers send as “model”.">
        <Input value={name} onChange={(event) => setName(event.target.value)} required disabled={route !== null} pattern="[A-Za-z0-9][A-Za-z0-9._:\/\-]{0,127}" />
      </Field>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Pool">
          <Select value={poolId} onChange={(event) => setPool(event.target.value)} required>
            <Options of={pools.map((one) => [one.id, one.name])} />
          </Select>
        </Field>
        <Field label="For">
          <Select value={tenant} onChange={(event) => setTenant(event.target.value)} disabled={route !== null}>
            <option value="">All tenants</option>
            <Options of={projects.map((one) => [one.id, one.name])} />
          </Select>
        </Field>
        <Field label="SKU" hint="Its prices are under Prices.">
          <Input value={sku} onChange={(event) => setSku(event.target.value)} required maxLength={200} />
        </Field>
        <Field label="Default output, tokens" hint="For callers that ask for no maximum.">
          <Input type="number" min={1} value={output} onChange={(event) => setOutput(event.target.value)} required />
        </Field>
      </div>
      <Check label="Published" hint="A hidden route is seen by nobody." checked={published} onChange={(event) => setPublished(event.target.checked)} />
    </DialogForm>
  );
}

function DeleteRoute({ route, onClose }: { route: Route; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/routes/{route_id}", [LIST]);
  const [since] = useState(() => daysAgo(1));
  const usage = useApi("GET /v1/organization/usage/breakdown", { query: { start_time: since, group_by: "model", models: [route.served_model], limit: 1, ...(route.project_id ? { project_ids: [route.project_id] } : {}) } });
  return (
    <Confirm open onClose={onClose} title={`Delete the route ${route.served_model}?`} action="Delete route" change={remove} onConfirm={() => remove.mutate({ path: { route_id: route.id } }, { onSuccess: onClose })}>
      <p>{usage.data ? `${count(usage.data.total.num_model_requests)} requests asked for this name in the last 24 hours.` : "Counting its requests of the last 24 hours…"}</p>
      <p>Within two seconds callers are told that there is no such model. Requests under way go on.</p>
    </Confirm>
  );
}
