import { useState } from "react";
import { useChange, useList } from "@/api/queries";
import type { AdminKey } from "@/api/shapes";
import { words } from "@/lib/format";
import { Id, When } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Secret } from "@/ui/copyable";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import type { Role } from "./roles";
import { ROLES } from "./roles";

const LIST = "GET /v1/organization/admin_api_keys";

export function AdminKeys() {
  const [making, setMaking] = useState(false);
  const [deleting, setDeleting] = useState<AdminKey | null>(null);
  const { query, rows } = useList(LIST, { query: { limit: 50 } });
  const columns: Column<AdminKey>[] = [
    { head: "Name", main: true, cell: (row) => row.name },
    { head: "Key", cell: (row) => <Id>{row.redacted_value}</Id> },
    { head: "Role", cell: (row) => words(row.role) },
    { head: "Of", cell: (row) => row.owner.name ?? "–" },
    { head: "Last used", cell: (row) => <When at={row.last_used_at} never="never" /> },
    { head: "Expires", cell: (row) => <When at={row.expires_at} never="never" /> },
    {
      head: "Actions",
      action: true,
      needs: "DELETE /v1/organization/admin_api_keys/{key_id}",
      right: true,
      cell: (row) => (
        <Button key="delete" look="quiet" size="small" className="text-bad" onClick={() => setDeleting(row)}>
          Delete
        </Button>
      ),
    },
  ];
  const add = (
    <AddButton needs="POST /v1/organization/admin_api_keys" onClick={() => setMaking(true)}>New admin key</AddButton>
  );
  return (
    <Section title="Admin keys" lead="For programs that operate this installation. Whatever is changed, one owner’s key stays." actions={add}>
      <PagedTable label="Admin keys" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="No admin keys" />} />
      <Dialog open={making} onClose={() => setMaking(false)} title="New admin key">
        {making && <KeyForm onClose={() => setMaking(false)} />}
      </Dialog>
      {deleting !== null && <DeleteKey adminKey={deleting} onClose={() => setDeleting(null)} />}
    </Section>
  );
}

function KeyForm({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const create = useChange("POST /v1/organization/admin_api_keys", [LIST]);
  if (create.data) {
    return (
      <div className="space-y-4">
        <Secret label="The new key" value={create.data.value ?? ""} action="Copy key">
          This is the only time the key is shown.
        </Secret>
        <div className="flex justify-end">
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    );
  }
  function submit() {
    create.mutate({ body: { name, role } });
  }
  return (
    <DialogForm changes={[create]} action="Create key" onSubmit={submit} onClose={onClose}>
      <Field label="Name">
        <Input value={name} onChange={(event) => setName(event.target.value)} required autoFocus maxLength={200} />
      </Field>
      <Field label="Role">
        <Select value={role} onChange={(event) => setRole(event.target.value as Role)}>
          <Options of={ROLES} />
        </Select>
      </Field>
    </DialogForm>
  );
}

function DeleteKey({ adminKey, onClose }: { adminKey: AdminKey; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/admin_api_keys/{key_id}", [LIST]);
  return (
    <Confirm open onClose={onClose} title={`Delete ${adminKey.name}?`} action="Delete key" typed={adminKey.name} change={remove} onConfirm={() => remove.mutate({ path: { key_id: adminKey.id } }, { onSuccess: onClose })}>
      <p>
        What calls with it is refused within two seconds. It was last used: <When at={adminKey.last_used_at} never="never" />. It cannot be brought back.
      </p>
    </Confirm>
  );
}
