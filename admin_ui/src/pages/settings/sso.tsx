/** One identity provider: people sign in with what they have already. */
import type { FormEvent } from "react";
import { useState } from "react";
import { useApi, useChange } from "@/api/queries";
import type { IdentityProvider } from "@/api/schema";
import { CopyButton } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { Check, Field, Input, Select } from "@/ui/field";
import { Panel, Section } from "@/ui/page";
import { Failure, Skeleton } from "@/ui/states";
import { toast } from "@/ui/toast";

const ONE = "GET /v1/organization/identity_provider";

export function SingleSignOn() {
  const query = useApi(ONE);
  const none = query.error?.status === 404;
  if (query.isPending) return <Skeleton className="h-72" />;
  if (query.error && !none) return <Failure error={query.error} retry={() => void query.refetch()} />;
  return <ProviderForm key={none ? "new" : "known"} known={none ? null : (query.data ?? null)} />;
}

function ProviderForm({ known }: { known: IdentityProvider | null }) {
  const [fields, setFields] = useState({
    name: known?.name ?? "",
    issuer: known?.issuer ?? "",
    client_id: known?.client_id ?? "",
    client_secret: "",
    origin: known?.origin ?? location.origin,
    default_role: known?.default_role === "member" ? ("member" as const) : ("viewer" as const),
    enabled: known?.enabled ?? true,
    allows_registration: known?.allows_registration ?? false,
  });
  const [removing, setRemoving] = useState(false);
  const save = useChange("POST /v1/organization/identity_provider", [ONE]);
  const remove = useChange("DELETE /v1/organization/identity_provider", [ONE]);
  const set = (change: Partial<typeof fields>) => setFields({ ...fields, ...change });
  const callback = `${fields.origin}/v1/organization/sessions/oidc/callback`;

  function submit(event: FormEvent) {
    event.preventDefault();
    const { client_secret: secret, ...rest } = fields;
    save.mutate(
      { body: { ...rest, client_secret: secret || null, scopes: known?.scopes, role_claim: known?.role_claim, role_map: known?.role_map } },
      { onSuccess: () => toast.success("Single sign-on is saved") },
    );
  }

  return (
    <Section title="Single sign-on" lead="OpenID Connect: authorization code with PKCE. Passwords and keys go on working beside it.">
      <Panel className="max-w-2xl">
        <form onSubmit={submit} className="space-y-4">
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Name on the button">
              <Input value={fields.name} onChange={(event) => set({ name: event.target.value })} required placeholder="Okta" />
            </Field>
            <Field label="Issuer">
              <Input type="url" value={fields.issuer} onChange={(event) => set({ issuer: event.target.value })} required placeholder="https://id.example.com" />
            </Field>
            <Field label="Client id">
              <Input value={fields.client_id} onChange={(event) => set({ client_id: event.target.value })} required autoComplete="off" />
            </Field>
            <Field label="Client secret" hint={known?.has_client_secret ? "Empty: the stored one stays." : undefined}>
              <Input type="password" value={fields.client_secret} onChange={(event) => set({ client_secret: event.target.value })} autoComplete="off" />
            </Field>
            <Field label="This console’s address">
              <Input type="url" value={fields.origin} onChange={(event) => set({ origin: event.target.value })} required />
            </Field>
            <Field label="Role of who registers">
              <Select value={fields.default_role} onChange={(event) => set({ default_role: event.target.value as typeof fields.default_role })}>
                <option value="viewer">Viewer: reads</option>
                <option value="member">Member: only their tenants</option>
              </Select>
            </Field>
          </div>
          <div>
            <p className="mb-1 text-[13px] font-medium">Redirect address to register there</p>
            <div className="flex items-center gap-2">
              <code className="min-w-0 flex-1 rounded-md border bg-sunken px-2.5 py-1.5 font-mono text-[12.5px] break-all">{callback}</code>
              <CopyButton text={callback} />
            </div>
          </div>
          <Check label="Enabled" checked={fields.enabled} onChange={(event) => set({ enabled: event.target.checked })} />
          <Check label="Whoever the provider lets in may register" hint="Without this only those who are users here get in." checked={fields.allows_registration} onChange={(event) => set({ allows_registration: event.target.checked })} />
          {save.error && <Failure error={save.error} />}
          <div className="flex gap-2">
            <Button type="submit" look="primary" busy={save.isPending} needs="POST /v1/organization/identity_provider">
              Save
            </Button>
            {known !== null && (
              <Button className="text-bad" onClick={() => setRemoving(true)} needs="DELETE /v1/organization/identity_provider">
                Remove…
              </Button>
            )}
          </div>
        </form>
      </Panel>
      <Confirm open={removing} onClose={() => setRemoving(false)} title="Remove single sign-on?" action="Remove" change={remove} onConfirm={() => remove.mutate({}, { onSuccess: () => setRemoving(false) })}>
        <p>Whoever has no password cannot sign in any more. Sessions that are open go on.</p>
      </Confirm>
    </Section>
  );
}
