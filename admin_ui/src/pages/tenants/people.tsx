/** Who of the organisation's users belongs to the tenant, and as what. */
import { useState } from "react";
import { toast } from "@/ui/toast";
import { useChange, useList } from "@/api/queries";
import { may } from "@/api/session";
import { words } from "@/lib/format";
import { When } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty, Failure } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import type { TabProps } from "./one";

const CHANGE = "POST /v1/organization/projects/{project_id}/users/{user_id}";
const LIST = "GET /v1/organization/projects/{project_id}/users";

interface Member {
  id: string;
  name: string;
  email: string;
  role: "owner" | "member";
  added_at: number;
}

export function TenantPeople({ tenant }: TabProps) {
  const [adding, setAdding] = useState(false);
  const path = { project_id: tenant.id };
  const { query, rows } = useList(LIST, { path, query: { limit: 50 } });
  const members = rows as Member[];
  const change = useChange(CHANGE, [LIST]);
  const remove = useChange("DELETE /v1/organization/projects/{project_id}/users/{user_id}", [LIST]);
  const columns: Column<Member>[] = [
    { head: "Name", main: true, cell: (row) => row.name },
    { head: "Email", cell: (row) => row.email },
    {
      head: "Role",
      cell: (row) => may(CHANGE) ? (
        <Select aria-label={`Role of ${row.name}`} className="w-auto" value={row.role} onChange={(event) => change.mutate({ path: { ...path, user_id: row.id }, body: { role: event.target.value as Member["role"] } })}>
          <option value="owner">Owner: keys and alerts</option>
          <option value="member">Member: reads</option>
        </Select>
      ) : (
        words(row.role)
      ),
    },
    { head: "Added", cell: (row) => <When at={row.added_at} /> },
    {
      head: "Actions",
      action: true,
      needs: "DELETE /v1/organization/projects/{project_id}/users/{user_id}",
      right: true,
      cell: (row) => (
        <Button
          key="remove"
          look="quiet"
          size="small"
          className="text-bad"
          onClick={() => remove.mutate({ path: { ...path, user_id: row.id } }, { onSuccess: () => toast.success(`${row.name} is removed`, { action: { label: "Undo", onClick: () => undo.mutate({ path, body: { user_id: row.id, role: row.role } }) } }) })}
        >
          Remove
        </Button>
      ),
    },
  ];
  const undo = useChange("POST /v1/organization/projects/{project_id}/users", [LIST]);
  const add = (
    <AddButton needs="POST /v1/organization/projects/{project_id}/users" onClick={() => setAdding(true)}>Add somebody</AddButton>
  );
  const error = change.error ?? remove.error ?? undo.error;
  return (
    <Section title="People" lead="They see this tenant and no other, unless they have a role in the whole installation." actions={members.length > 0 && add}>
      {error && <Failure error={error} className="mb-3" />}
      <PagedTable label="People" query={query} rows={members} columns={columns} rowKey={(row) => row.id} empty={<Empty title="Nobody belongs to this tenant" action={add}>Add a user to let them see its usage, keys and limits.</Empty>} />
      <Dialog open={adding} onClose={() => setAdding(false)} title={`Add somebody to ${tenant.name}`}>
        {adding && <AddForm tenant={tenant} onClose={() => setAdding(false)} />}
      </Dialog>
    </Section>
  );
}

function AddForm({ tenant, onClose }: TabProps & { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<"owner" | "member">("member");
  const add = useChange("POST /v1/organization/projects/{project_id}/users", [LIST]);
  function submit() {
    add.mutate({ path: { project_id: tenant.id }, body: { email, role } }, { onSuccess: onClose });
  }
  return (
    <DialogForm changes={[add]} action="Add" onSubmit={submit} onClose={onClose}>
      <Field label="Email of a user" hint="New users are made under Settings.">
        <Input type="email" value={email} onChange={(event) => setEmail(event.target.value)} required autoFocus />
      </Field>
      <Field label="Role">
        <Select value={role} onChange={(event) => setRole(event.target.value as typeof role)}>
          <option value="member">Member: reads</option>
          <option value="owner">Owner: keys and alerts</option>
        </Select>
      </Field>
    </DialogForm>
  );
}
