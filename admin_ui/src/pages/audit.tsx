/** The audit log of the whole installation. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { useState } from "react";
import { useProjects } from "@/api/names";
import { Button } from "@/ui/button";
import { Input, Options, Select } from "@/ui/field";
import { Page } from "@/ui/page";
import { AuditTable } from "./audit-table";

export function Audit() {
  const search = useSearch({ from: "/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const [actor, setActor] = useState(search["actor"] ?? "");
  const [type, setType] = useState(search["type"] ?? "");
  const projects = useProjects();
  const set = (next: Record<string, string | undefined>) => void navigate({ search: (known) => ({ ...known, ...next }), replace: true });
  function submit(event: FormEvent) {
    event.preventDefault();
    set({ actor: actor.trim() || undefined, type: type.trim() || undefined });
  }
  return (
    <Page title="Audit log" lead="Who changed what, with what was and what is. It is never changed itself.">
      <form role="search" onSubmit={submit} className="mb-4 flex flex-wrap gap-2">
        <Select aria-label="Tenant" className="w-auto" value={search["tenant"] ?? ""} onChange={(event) => set({ tenant: event.target.value || undefined })}>
          <option value="">Any tenant</option>
          <Options of={projects.map((one) => [one.id, one.name])} />
        </Select>
        <Input type="email" aria-label="Email of who did it" placeholder="Email of who did it" className="w-56" value={actor} onChange={(event) => setActor(event.target.value)} />
        <Input aria-label="Action, such as api_key.created" placeholder="Action, such as api_key.created" className="w-64" value={type} onChange={(event) => setType(event.target.value)} />
        <Button type="submit">Filter</Button>
      </form>
      <AuditTable
        query={{
          ...(search["tenant"] ? { project_ids: [search["tenant"]] } : {}),
          ...(search["actor"] ? { actor_emails: [search["actor"]] } : {}),
          ...(search["type"] ? { event_types: [search["type"]] } : {}),
        }}
      />
    </Page>
  );
}
