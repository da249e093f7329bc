/** Which served names the tenant sees: those whose routes match, less what its permissions take away. */
import { useState } from "react";
import { closing } from "@/ui/toast";
import { usePoolNames, useServedNames } from "@/api/names";
import { useApi, useChange } from "@/api/queries";
import { may } from "@/api/session";
import type { ModelPermission, Route } from "@/api/shapes";
import { plural } from "@/lib/format";
import { Status, Tag } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Check, Field, Select } from "@/ui/field";
import { Panel, Section } from "@/ui/page";
import { Empty, Failure, Loaded } from "@/ui/states";
import type { Column } from "@/ui/table";
import { Table } from "@/ui/table";
import type { TabProps } from "./one";

const PERMISSION = "GET /v1/organization/projects/{project_id}/model_permissions";

export function TenantModels({ tenant }: TabProps) {
  return may("GET /v1/organization/routes") ? <Routed tenant={tenant} /> : <Visible tenant={tenant} />;
}

/** What a member sees: the names, and nothing of where they lead. */
function Visible({ tenant }: TabProps) {
  const names = useServedNames(tenant.id);
  return (
    <Section title="Models" lead="The names that this tenant’s keys can call.">
      {names.length === 0 ? <Empty title="No models">The operator has not led any name here yet.</Empty> : <Table label="Models" rows={names} rowKey={(name) => name} columns={[{ head: "Model", main: true, cell: (name) => name }]} />}
    </Section>
  );
}

function Routed({ tenant }: TabProps) {
  const [editing, setEditing] = useState(false);
  const routes = useApi("GET /v1/organization/routes", { query: { limit: 100 } });
  const permission = useApi(PERMISSION, { path: { project_id: tenant.id } });
  const none = permission.error?.status === 404;
  const allowed = none ? null : (permission.data ?? null);
  const poolNames = usePoolNames();
  const matching = own(routes.data?.data ?? [], tenant.id);
  const columns: Column<Route>[] = [
    { head: "Model", main: true, cell: (row) => row.served_model },
    { head: "State", cell: (row) => (allows(allowed, row.served_model) ? <Status tone="good">Allowed</Status> : <Status tone="plain">Not allowed</Status>) },
    { head: "Pool", cell: (row) => poolNames.get(row.pool_id) ?? row.pool_id },
    { head: "Route", cell: (row) => (row.project_id === null ? "For all tenants" : "For this tenant") },
    { head: "SKU", cell: (row) => <Tag>{row.sku}</Tag> },
  ];
  return (
    <Section
      title="Models"
      lead={allowed === null ? "No permissions are set: every model that a route leads to." : allowed.mode === "allow_list" ? `Only ${plural(allowed.model_ids.length, "listed model")}.` : `All but ${plural(allowed.model_ids.length, "listed model")}.`}
      actions={
        <Button size="small" onClick={() => setEditing(true)} needs="POST /v1/organization/projects/{project_id}/model_permissions">
          Change permissions
        </Button>
      }
    >
      <Loaded query={routes}>
        {() => (matching.length === 0 ? <Empty title="No models">No route leads this tenant anywhere yet. Routes are made under Models & prices.</Empty> : <Table label="Models" rows={matching} columns={columns} rowKey={(row) => row.id} dim={(row) => !allows(allowed, row.served_model)} />)}
      </Loaded>
      {permission.error && !none && <Failure error={permission.error} className="mt-3" />}
      <Dialog open={editing} onClose={() => setEditing(false)} title={`Which models may ${tenant.name} use?`}>
        {editing && <PermissionForm tenant={tenant} permission={allowed} names={matching.map((one) => one.served_model)} onClose={() => setEditing(false)} />}
      </Dialog>
    </Section>
  );
}

/** A route of the tenant's own stands before one of the same name for all. */
function own(routes: Route[], tenantId: string): Route[] {
  const found = new Map<string, Route>();
  for (const route of routes) {
    if (!route.published || (route.project_id !== null && route.project_id !== tenantId)) continue;
    if (route.project_id !== null || !found.has(route.served_model)) found.set(route.served_model, route);
  }
  return [...found.values()].toSorted((a, b) => a.served_model.localeCompare(b.served_model));
}

export function allows(permission: ModelPermission | null, name: string): boolean {
  if (permission === null) return true;
  return permission.model_ids.includes(name) === (permission.mode === "allow_list");
}

interface FormProps extends TabProps {
  permission: ModelPermission | null;
  names: string[];
  onClose: () => void;
}

function PermissionForm({ tenant, permission, names, onClose }: FormProps) {
  const [mode, setMode] = useState<ModelPermission["mode"] | "all">(permission?.mode ?? "all");
  const [listed, setListed] = useState<string[]>(permission?.model_ids ?? []);
  const set = useChange("POST /v1/organization/projects/{project_id}/model_permissions", [PERMISSION]);
  const clear = useChange("DELETE /v1/organization/projects/{project_id}/model_permissions", [PERMISSION]);
  const path = { project_id: tenant.id };
  const done = closing(onClose, "Permissions saved");

  function submit() {
    if (mode === "all") clear.mutate({ path }, done);
    else set.mutate({ path, body: { mode, model_ids: listed } }, done);
  }

  return (
    <DialogForm changes={[set, clear]} action="Save" onSubmit={submit} onClose={onClose}>
      <Field label="May use">
        <Select value={mode} onChange={(event) => setMode(event.target.value as typeof mode)}>
          <option value="all">Every model that a route leads to</option>
          <option value="allow_list">Only these</option>
          <option value="deny_list">All but these</option>
        </Select>
      </Field>
      {mode !== "all" && (
        <Panel className="space-y-2">
          {[...new Set([...names, ...listed])].map((name) => (
            <Check key={name} label={name} checked={listed.includes(name)} onChange={(event) => setListed(event.target.checked ? [...listed, name] : listed.filter((one) => one !== name))} />
          ))}
        </Panel>
      )}
    </DialogForm>
  );
}
