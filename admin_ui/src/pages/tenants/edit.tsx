import { useState } from "react";
import { closing } from "@/ui/toast";
import { useChange } from "@/api/queries";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input } from "@/ui/field";
import type { TabProps } from "./one";

export function EditTenant({ tenant, open, onClose }: TabProps & { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title={`Edit ${tenant.name}`}>
      {open && <Form tenant={tenant} onClose={onClose} />}
    </Dialog>
  );
}

function Form({ tenant, onClose }: TabProps & { onClose: () => void }) {
  const [name, setName] = useState(tenant.name);
  const [weight, setWeight] = useState(String(tenant.fairness_weight));
  const update = useChange("POST /v1/organization/projects/{project_id}", ["GET /v1/organization/projects", "GET /v1/organization/projects/{project_id}"]);

  function submit() {
    update.mutate({ path: { project_id: tenant.id }, body: { name, fairness_weight: Number(weight) } }, closing(onClose, "Saved"));
  }

  return (
    <DialogForm changes={[update]} action="Save" onSubmit={submit} onClose={onClose}>
      <Field label="Name">
        <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={200} />
      </Field>
      <Field label="Weight" hint="Two tenants with weights 1 and 3 get a quarter and three quarters of a pool that both fill.">
        <Input type="number" min={1} max={1000} value={weight} onChange={(event) => setWeight(event.target.value)} required />
      </Field>
    </DialogForm>
  );
}
