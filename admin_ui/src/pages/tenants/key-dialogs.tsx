/** The three things that happen to a key. */
import { useState } from "react";
import { closing } from "@/ui/toast";
import { useServedNames } from "@/api/names";
import { useChange } from "@/api/queries";
import type { ApiKey, ShownKey } from "@/api/shapes";
import { count } from "@/lib/format";
import { Time } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Check, Field, Input, Options, Select, TextArea } from "@/ui/field";
import type { TabProps } from "./one";
import { NewKeyShown } from "./snippets";

interface Props extends TabProps {
  open: boolean;
  onClose: () => void;
}

const LIST = "GET /v1/organization/projects/{project_id}/api_keys";
const DAY = 86_400;
const LIFETIMES = [
  ["", "Never"],
  [String(30 * DAY), "In 30 days"],
  [String(90 * DAY), "In 90 days"],
  [String(365 * DAY), "In a year"],
] as const;
const SCOPES = [
  ["model.request", "Call models", "What an application needs."],
  ["usage.read", "Read usage and cost", "Of this tenant, through the admin API."],
  ["webhooks.write", "Manage webhooks", "The tenant’s own endpoints."],
] as const;

export function CreateKey({ open, onClose, tenant }: Props) {
  return (
    <Dialog open={open} onClose={onClose} title="New API key" wide>
      {open && <CreateForm tenant={tenant} onClose={onClose} />}
    </Dialog>
  );
}

function CreateForm({ tenant, onClose }: TabProps & { onClose: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["model.request"]);
  const [expires, setExpires] = useState("");
  const [addresses, setAddresses] = useState("");
  const models = useServedNames(tenant.id);
  const create = useChange("POST /v1/organization/projects/{project_id}/api_keys", [LIST]);

  function submit() {
    create.mutate({
      path: { project_id: tenant.id },
      body: {
        name,
        scopes,
        ip_allow_list: addresses.split(/[\s,]+/).filter(Boolean),
        ...(expires === "" ? {} : { expires_in_seconds: Number(expires) }),
      },
    });
  }

  if (create.data) return <Shown apiKey={create.data} models={models} onClose={onClose} />;
  return (
    <DialogForm changes={[create]} action="Create key" disabled={scopes.length === 0} onSubmit={submit} onClose={onClose}>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Name" hint="Where it will be used.">
          <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={200} autoFocus />
        </Field>
        <Field label="Expires">
          <Select value={expires} onChange={(event) => setExpires(event.target.value)}>
            <Options of={LIFETIMES} />
          </Select>
        </Field>
      </div>
      <fieldset className="space-y-2">
        <legend className="mb-1 text-[13px] font-medium">May</legend>
        {SCOPES.map(([scope, label, hint]) => (
          <Check
            key={scope}
            label={label}
            hint={hint}
            checked={scopes.includes(scope)}
            onChange={(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))}
          />
        ))}
      </fieldset>
      <Field label="Only from these addresses" hint="IP addresses or networks, one a line. Empty: from anywhere.">
        <TextArea rows={2} value={addresses} onChange={(event) => setAddresses(event.target.value)} className="font-mono text-[13px]" spellCheck={false} />
      </Field>
    </DialogForm>
  );
}

function Shown({ apiKey, models, onClose }: { apiKey: ShownKey; models: string[]; onClose: () => void }) {
  return (
    <>
      <NewKeyShown value={apiKey.value ?? ""} models={models} />
      <div className="mt-5 flex justify-end">
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </>
  );
}

const GRACES = [
  ["0", "None: the old key stops now"],
  ["3600", "An hour"],
  [String(DAY), "A day"],
  [String(7 * DAY), "A week"],
] as const;

export function RotateKey({ open, onClose, tenant, apiKey }: Props & { apiKey: ApiKey }) {
  return (
    <Dialog open={open} onClose={onClose} title={`Rotate ${apiKey.name}`} description="A new value under the same name, with the same limits and budget." wide>
      {open && <RotateForm tenant={tenant} apiKey={apiKey} onClose={onClose} />}
    </Dialog>
  );
}

function RotateForm({ tenant, apiKey, onClose }: TabProps & { apiKey: ApiKey; onClose: () => void }) {
  const [grace, setGrace] = useState(String(DAY));
  const [once] = useState(() => crypto.randomUUID?.() ?? `${apiKey.id}-${Date.now()}`);
  const models = useServedNames(tenant.id);
  const rotate = useChange("POST /v1/organization/projects/{project_id}/api_keys/{key_id}/rotate", [LIST]);
  if (rotate.data) return <Shown apiKey={rotate.data} models={models} onClose={onClose} />;
  return (
    <DialogForm changes={[rotate]} action="Rotate key" onSubmit={() => rotate.mutate({ path: { project_id: tenant.id, key_id: apiKey.id }, body: { grace_s: Number(grace), idempotency_key: once } })} onClose={onClose}>
      <Field label="Both keys work for" hint="Long enough to bring the new key everywhere the old one is.">
        <Select value={grace} onChange={(event) => setGrace(event.target.value)}>
          <Options of={GRACES} />
        </Select>
      </Field>
    </DialogForm>
  );
}

export function RevokeKey({ open, onClose, tenant, apiKey, requests }: Props & { apiKey: ApiKey; requests: number }) {
  const revoke = useChange("DELETE /v1/organization/projects/{project_id}/api_keys/{key_id}", [LIST]);
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title={`Revoke ${apiKey.name}?`}
      action="Revoke key"
      typed={apiKey.name}
      change={revoke}
      onConfirm={() =>
        revoke.mutate({ path: { project_id: tenant.id, key_id: apiKey.id } }, closing(onClose, `${apiKey.name} is revoked`))
      }
    >
      <p>
        {requests > 0 ? `${count(requests)} requests were made with it in the last 30 days` : "Nothing was asked with it in the last 30 days"}
        {apiKey.last_used_at !== null && (
          <>
            , the last one <Time at={apiKey.last_used_at} />
          </>
        )}
        .
      </p>
      <p>New requests with it are refused within two seconds, on every gateway. It cannot be brought back; rotating it instead leaves time to change over.</p>
    </Confirm>
  );
}
