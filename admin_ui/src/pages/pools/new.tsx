import { useState } from "react";
import { useChange } from "@/api/queries";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input } from "@/ui/field";
import { closing } from "@/ui/toast";
import { SpecFields } from "./fields";
import type { SpecDraft } from "./spec";
import { draftOf, specOf } from "./spec";

export function NewPool({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title="New pool" wide>
      {open && <PoolForm onClose={onClose} />}
    </Dialog>
  );
}

function PoolForm({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [draft, setDraft] = useState<SpecDraft>(draftOf(null));
  const create = useChange("POST /v1/organization/pools", ["GET /v1/organization/pools"]);
  function submit() {
    const spec = specOf(draft);
    if (spec === null) return;
    create.mutate({ body: { name, spec } }, closing(onClose, `${name} is being started`));
  }
  return (
    <DialogForm changes={[create]} action="Create pool" disabled={specOf(draft) === null} onSubmit={submit} onClose={onClose}>
      <Field label="Name">
        <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={100} autoFocus />
      </Field>
      <SpecFields draft={draft} onChange={setDraft} />
    </DialogForm>
  );
}
