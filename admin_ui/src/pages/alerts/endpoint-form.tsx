/** An endpoint: made, changed, its secret shown once and rotated. */
import { useState } from "react";
import { useApi, useChange } from "@/api/queries";
import type { NewOperatorEndpoint, OperatorEndpoint } from "@/api/schema";
import { Button } from "@/ui/button";
import { Secret } from "@/ui/copyable";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Check, Field, Input, Options, Select } from "@/ui/field";
import { closing } from "@/ui/toast";
import type { Hooks } from "./hooks";

const FORMATS = [
  ["standard", "Signed JSON (Standard Webhooks)"],
  ["slack", "Slack"],
  ["pagerduty", "PagerDuty"],
  ["alertmanager", "Alertmanager"],
] as const;
type Format = (typeof FORMATS)[number][0];

interface Props {
  hooks: Hooks;
  endpoint: OperatorEndpoint | null;
  onClose: () => void;
}

export function EndpointDialog({ hooks, endpoint, onClose }: Props) {
  return (
    <Dialog open onClose={onClose} title={endpoint === null ? "New endpoint" : `Change ${endpoint.name}`} wide>
      <EndpointForm hooks={hooks} endpoint={endpoint} onClose={onClose} />
    </Dialog>
  );
}

function EndpointForm({ hooks, endpoint, onClose }: Props) {
  const types = useApi(hooks.calls.types, { path: hooks.own }).data?.data ?? [];
  const [name, setName] = useState(endpoint?.name ?? "");
  const [url, setUrl] = useState(endpoint?.url ?? "");
  const isKept = endpoint !== null && url === endpoint.url;
  const [format, setFormat] = useState<Format>(endpoint?.format ?? "standard");
  const [key, setKey] = useState("");
  const [chosen, setChosen] = useState<string[] | null>(endpoint?.event_types ?? null);
  const create = useChange(hooks.calls.create, [hooks.calls.list]);
  const update = useChange(hooks.calls.update, [hooks.calls.list]);
  const wanted = chosen ?? types;
  const isPager = format === "pagerduty";

  function submit() {
    const body = { name, event_types: wanted, ...(isPager ? {} : { url }), ...(key ? { routing_key: key } : {}) };
    if (endpoint === null) create.mutate({ path: hooks.own, body: { ...body, format } });
    else
      update.mutate({ path: { ...hooks.own, endpoint_id: endpoint.id }, body }, closing(onClose, "Endpoint saved"));
  }

  if (create.data) return <SecretShown endpoint={create.data} onClose={onClose} />;
  return (
    <DialogForm changes={[create, update]} action="Save endpoint" disabled={wanted.length === 0} onSubmit={submit} onClose={onClose}>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Name">
          <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={200} autoFocus />
        </Field>
        <Field label="Form">
          <Select value={format} disabled={endpoint !== null} onChange={(event) => setFormat(event.target.value as Format)}>
            <Options of={FORMATS} />
          </Select>
        </Field>
      </div>
      {isPager ? (
        <Field label="Routing key" hint="Of an Events API v2 integration.">
          <Input type="password" value={key} onChange={(event) => setKey(event.target.value)} required={endpoint === null} autoComplete="off" />
        </Field>
      ) : (
        <Field label="Address" hint={isKept && endpoint.format === "slack" ? "Not shown again; as long as you leave this alone it stays." : "Private and loopback addresses are refused unless the operator allows them."}>
          <Input type={isKept ? "text" : "url"} value={url} onChange={(event) => setUrl(event.target.value)} required placeholder="https://example.com/hooks" />
        </Field>
      )}
      <fieldset>
        <legend className="mb-1 text-[13px] font-medium">Hears of</legend>
        <div className="grid gap-1.5 sm:grid-cols-2">
          {types.map((type) => (
            <Check key={type} label={type} checked={wanted.includes(type)} onChange={(event) => setChosen(event.target.checked ? [...wanted, type] : wanted.filter((one) => one !== type))} />
          ))}
        </div>
      </fieldset>
    </DialogForm>
  );
}

function SecretShown({ endpoint, onClose }: { endpoint: NewOperatorEndpoint; onClose: () => void }) {
  return (
    <div className="space-y-4">
      <Secret label="The signing secret" value={endpoint.signing_secret} action="Copy secret">
        This is the only time the signing secret is shown. The receiver checks each delivery with it.
      </Secret>
      <div className="flex justify-end">
        <Button onClick={onClose}>Done</Button>
      </div>
    </div>
  );
}

export function RotateSecret({ hooks, endpoint, onClose }: { hooks: Hooks; endpoint: OperatorEndpoint; onClose: () => void }) {
  const [overlap, setOverlap] = useState(true);
  const rotate = useChange(hooks.calls.rotate, [hooks.calls.list]);
  return (
    <Dialog open onClose={onClose} title={`Rotate the secret of ${endpoint.name}`} wide>
      {rotate.data ? (
        <SecretShown endpoint={rotate.data} onClose={onClose} />
      ) : (
        <DialogForm changes={[rotate]} action="Rotate secret" onSubmit={() => rotate.mutate({ path: { ...hooks.own, endpoint_id: endpoint.id }, body: { keep_old_secret_active_for_24_hours: overlap } })} onClose={onClose}>
          <Check label="Sign with both secrets for 24 hours" hint="Without this the old one is worth nothing from now on." checked={overlap} onChange={(event) => setOverlap(event.target.checked)} />
        </DialogForm>
      )}
    </Dialog>
  );
}
