import { useState } from "react";
import { useActiveProjects } from "@/api/names";
import { useChange, useList } from "@/api/queries";
import { may } from "@/api/session";
import type { LinkedInvite } from "@/api/schema";
import type { Invite, User } from "@/api/shapes";
import { plural, words } from "@/lib/format";
import { Status, Tag, Time, When } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Copyable } from "@/ui/copyable";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty, Failure } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import type { Role } from "./roles";
import { ROLES } from "./roles";

const LIST = "GET /v1/organization/users";
const LINK = "POST /v1/organization/users/{user_id}/password_link";
const UPDATE = "POST /v1/organization/users/{user_id}";
const INVITES = "GET /v1/organization/invites";

export function Users() {
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<User | null>(null);
  const [helping, setHelping] = useState<User | null>(null);
  const { query, rows } = useList(LIST, { query: { limit: 50 } });
  const update = useChange(UPDATE, [LIST]);
  const columns: Column<User>[] = [
    { head: "Name", main: true, cell: (row) => row.name },
    { head: "Email", cell: (row) => row.email },
    {
      head: "Role",
      cell: (row) => may(UPDATE) ? (
        <Select aria-label={`Role of ${row.name}`} className="w-auto" value={row.role} onChange={(event) => update.mutate({ path: { user_id: row.id }, body: { role: event.target.value } })}>
          {ROLES.map(([role]) => (
            <option key={role} value={role}>
              {words(role)}
            </option>
          ))}
        </Select>
      ) : (
        words(row.role)
      ),
    },
    { head: "Tenants", cell: (row) => (row.projects.data.length === 0 ? "–" : <span className="inline-flex flex-wrap gap-1">{row.projects.data.slice(0, 3).map((one) => <Tag key={one.id}>{one.name}</Tag>)}{row.projects.data.length > 3 && plural(row.projects.data.length - 3, "more", "more")}</span>) },
    { head: "Since", cell: (row) => <When at={row.added_at} /> },
    {
      head: "Actions",
      action: true,
      needs: "DELETE /v1/organization/users/{user_id}",
      right: true,
      cell: (row) => (
        <span className="inline-flex flex-wrap justify-end gap-1">
          {row.email !== null && (
            <Button look="quiet" size="small" needs={LINK} onClick={() => setHelping(row)}>
              New password
            </Button>
          )}
          <Button look="quiet" size="small" className="text-bad" onClick={() => setRemoving(row)}>
            Remove
          </Button>
        </span>
      ),
    },
  ];
  const add = (
    <AddButton needs="POST /v1/organization/invites" onClick={() => setAdding(true)}>Invite somebody</AddButton>
  );
  return (
    <>
      <Section title="Users" lead="A role that is taken from a user is taken from all of their keys and sessions." actions={rows.length > 0 && add}>
        {update.error && <Failure error={update.error} className="mb-3" />}
        <PagedTable label="Users" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="No users yet" action={add}>Admin keys work without users; people sign in as one.</Empty>} />
      </Section>
      <Invites />
      <Dialog open={adding} onClose={() => setAdding(false)} title="Invite somebody">
        {adding && <UserForm onClose={() => setAdding(false)} />}
      </Dialog>
      {helping !== null && <PasswordLink user={helping} onClose={() => setHelping(null)} />}
      {removing !== null && <RemoveUser user={removing} onClose={() => setRemoving(null)} />}
    </>
  );
}

function Invites() {
  const { query, rows } = useList(INVITES, { query: { limit: 20 } });
  const remove = useChange("DELETE /v1/organization/invites/{invite_id}", [INVITES]);
  const columns: Column<Invite>[] = [
    { head: "Email", main: true, cell: (row) => row.email },
    { head: "Role", cell: (row) => words(row.organization_role) },
    { head: "State", cell: (row) => <Status tone={row.status === "pending" ? "busy" : row.status === "accepted" ? "good" : "plain"}>{words(row.status)}</Status> },
    { head: "Invited", cell: (row) => <When at={row.created_at} /> },
    { head: "Until", cell: (row) => <When at={row.expires_at} /> },
    {
      head: "Actions",
      action: true,
      needs: "DELETE /v1/organization/invites/{invite_id}",
      right: true,
      cell: (row) => (
        <Button key="withdraw" look="quiet" size="small" onClick={() => remove.mutate({ path: { invite_id: row.id } })}>
          Withdraw
        </Button>
      ),
    },
  ];
  if (rows.length === 0) return null;
  return (
    <Section title="Invites">
      {remove.error && <Failure error={remove.error} className="mb-3" />}
      <PagedTable label="Invites" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={null} />
    </Section>
  );
}

function Invited({ invite, onClose }: { invite: LinkedInvite; onClose: () => void }) {
  return (
    <div className="space-y-4">
      {invite.mailed && <p>The invitation is on its way to {invite.email}.</p>}
      {invite.mail_error && <p className="rounded-md bg-warn-soft px-3 py-2 text-[13px]">It could not be mailed: {invite.mail_error}</p>}
      {invite.accept_url && (
        <>
          <p>Give this link to {invite.email}. It is good once, until <Time at={invite.expires_at} />, and is not shown again.</p>
          <Copyable label="The invitation’s link" value={invite.accept_url} action="Copy link" />
        </>
      )}
      <div className="flex justify-end">
        <Button onClick={onClose}>Done</Button>
      </div>
    </div>
  );
}

function UserForm({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [tenant, setTenant] = useState("");
  const projects = useActiveProjects();
  const create = useChange("POST /v1/organization/invites", [INVITES]);
  function submit() {
    create.mutate({ body: { email, role, ...(tenant ? { projects: [{ id: tenant, role: "member" as const }] } : {}) } });
  }
  if (create.data) return <Invited invite={create.data} onClose={onClose} />;
  return (
    <DialogForm changes={[create]} action="Invite" onSubmit={submit} onClose={onClose}>
      <Field label="Email">
        <Input type="email" value={email} onChange={(event) => setEmail(event.target.value)} required autoFocus />
      </Field>
      <Field label="Role">
        <Select value={role} onChange={(event) => setRole(event.target.value as Role)}>
          <Options of={ROLES} />
        </Select>
      </Field>
      {role === "member" && (
        <Field label="Tenant" hint="The only one they see; more can be added on the tenants’ pages.">
          <Select value={tenant} onChange={(event) => setTenant(event.target.value)} required>
            <option value="">Choose one</option>
            <Options of={projects.map((one) => [one.id, one.name])} />
          </Select>
        </Field>
      )}
    </DialogForm>
  );
}

/** For who has lost theirs: a link, to be passed on. */
function PasswordLink({ user, onClose }: { user: User; onClose: () => void }) {
  const make = useChange(LINK);
  return (
    <Dialog open onClose={onClose} title={`A new password for ${user.name}`} wide>
      {make.data ? (
        <div className="space-y-4">
          <p>
            Give this link to {make.data.email}, and to nobody else: who opens it can sign in as them. It is good once, until <Time at={make.data.expires_at} />, and is not shown again.
          </p>
          <Copyable label="The link for a new password" value={make.data.url} action="Copy link" />
          <div className="flex justify-end">
            <Button onClick={onClose}>Done</Button>
          </div>
        </div>
      ) : (
        <DialogForm changes={[make]} action="Make the link" onSubmit={() => make.mutate({ path: { user_id: user.id } })} onClose={onClose}>
          <p className="text-ink-2">You make a link with which they choose a new password. Until they do, the old one works; then all of their sessions end.</p>
        </DialogForm>
      )}
    </Dialog>
  );
}

function RemoveUser({ user, onClose }: { user: User; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/users/{user_id}", [LIST]);
  return (
    <Confirm open onClose={onClose} title={`Remove ${user.name}?`} action="Remove user" typed={user.email ?? user.name} change={remove} onConfirm={() => remove.mutate({ path: { user_id: user.id } }, { onSuccess: onClose })}>
      <p>Their sessions end and their admin keys stop working within two seconds. They leave {plural(user.projects.data.length, "tenant")}.</p>
    </Confirm>
  );
}
