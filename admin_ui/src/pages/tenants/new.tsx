/** A new tenant and its first key in one go, ending in something that can be pasted and run. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useServedNames } from "@/api/names";
import { useChange } from "@/api/queries";
import type { Project, ShownKey } from "@/api/shapes";
import { Button } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input } from "@/ui/field";
import { NewKeyShown } from "./snippets";

export function NewTenant({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title="New tenant" wide>
      {open && <Steps onClose={onClose} />}
    </Dialog>
  );
}

function Steps({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [keyName, setKeyName] = useState("default");
  const [weight, setWeight] = useState("1");
  const [made, setMade] = useState<{ tenant: Project; key: ShownKey } | null>(null);
  const [tenant, setTenant] = useState<Project | null>(null);
  const models = useServedNames();
  const createTenant = useChange("POST /v1/organization/projects", ["GET /v1/organization/projects"]);
  const createKey = useChange("POST /v1/organization/projects/{project_id}/api_keys", ["GET /v1/organization/projects/{project_id}/api_keys"]);

  async function submit() {
    try {
      const owner = tenant ?? (await createTenant.mutateAsync({ body: { name, fairness_weight: Number(weight) } }));
      setTenant(owner);
      const key = await createKey.mutateAsync({ path: { project_id: owner.id }, body: { name: keyName } });
      setMade({ tenant: owner, key });
    } catch {
      // Shown below the form; a tenant that was made is not made again.
    }
  }

  if (made !== null) {
    return (
      <>
        <NewKeyShown value={made.key.value ?? ""} models={models} />
        <div className="mt-5 flex justify-end gap-2">
          <Button asChild look="primary">
            <Link to="/tenants/$tenantId" params={{ tenantId: made.tenant.id }} onClick={onClose}>
              Open {made.tenant.name}
            </Link>
          </Button>
        </div>
      </>
    );
  }
  return (
    <DialogForm changes={[createTenant, createKey]} action="Create tenant and key" onSubmit={() => void submit()} onClose={onClose}>
      <Field label="Name" hint="As it will stand on bills and in lists.">
        <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={200} autoFocus disabled={tenant !== null} />
      </Field>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="First key’s name">
          <Input value={keyName} onChange={(event) => setKeyName(event.target.value)} required maxLength={200} />
        </Field>
        <Field label="Weight" hint="Its share of a busy pool, beside the others’.">
          <Input type="number" min={1} max={1000} value={weight} onChange={(event) => setWeight(event.target.value)} required disabled={tenant !== null} />
        </Field>
      </div>
    </DialogForm>
  );
}
