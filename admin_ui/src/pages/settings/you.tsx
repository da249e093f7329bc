/** One's own account: who one is here, one's password, where one is signed in. */
import type { FormEvent } from "react";
import { useState } from "react";
import { toast } from "@/ui/toast";
import { useChange, useList } from "@/api/queries";
import type { Session } from "@/api/schema";
import { sessionEnded, useSession } from "@/api/session";
import { words } from "@/lib/format";
import { Id, Status, When } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Field, Input } from "@/ui/field";
import { Facts, Panel, Section } from "@/ui/page";
import { Empty, Failure } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";

const LIST = "GET /v1/organization/sessions";

export function You() {
  const me = useSession()?.me;
  if (me === undefined) return null;
  return (
    <>
      <Section title="You">
        <Panel className="max-w-xl py-2">
          <Facts
            rows={[
              ["Name", me.user?.name ?? "–"],
              ["Email", me.user?.email ?? "–"],
              ["Role", me.roles.map(words).join(", ")],
              ["Tenants", me.is_bound_to_projects ? me.projects.map((one) => `${one.name} (${one.role})`).join(", ") : "all"],
            ]}
          />
        </Panel>
      </Section>
      {me.session === null ? (
        <Empty title="Signed in with an admin key">Passwords and sessions belong to people; sign in as one to see yours.</Empty>
      ) : (
        <>
          <Section title="Password">
            <PasswordForm />
          </Section>
          <Sessions />
        </>
      )}
    </>
  );
}

function PasswordForm() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useChange("POST /v1/organization/me/password", [LIST]);
  function submit(event: FormEvent) {
    event.preventDefault();
    change.mutate(
      { body: { current_password: current, new_password: next } },
      {
        onSuccess: () => {
          toast.success("Your password is changed, and your other sessions have ended");
          setCurrent("");
          setNext("");
        },
      },
    );
  }
  return (
    <Panel className="max-w-xl">
      <form onSubmit={submit} className="space-y-4">
        <Field label="Current password">
          <Input type="password" value={current} onChange={(event) => setCurrent(event.target.value)} autoComplete="current-password" required />
        </Field>
        <Field label="New password" hint="At least 12 characters. Your other sessions end.">
          <Input type="password" value={next} onChange={(event) => setNext(event.target.value)} autoComplete="new-password" minLength={12} required />
        </Field>
        {change.error && <Failure error={change.error} />}
        <Button type="submit" busy={change.isPending}>
          Change password
        </Button>
      </form>
    </Panel>
  );
}

function Sessions() {
  const { query, rows } = useList(LIST, { query: { limit: 20 } });
  const end = useChange("DELETE /v1/organization/sessions/{session_id}", [LIST]);
  const everywhere = useChange("POST /v1/organization/sessions/logout_everywhere");
  const columns: Column<Session>[] = [
    { head: "Where", main: true, cell: (row) => <span title={row.user_agent ?? undefined}>{browserOf(row.user_agent)}</span> },
    { head: "Address", cell: (row) => <Id>{row.ip_address ?? "–"}</Id> },
    { head: "By", cell: (row) => words(row.method) },
    { head: "State", cell: (row) => (row.is_current ? <Status tone="good">This one</Status> : <Status tone="plain">Open</Status>) },
    { head: "Last seen", cell: (row) => <When at={row.last_used_at} /> },
    {
      head: "Actions",
      action: true,
      right: true,
      cell: (row) =>
        row.is_current ? null : (
          <Button look="quiet" size="small" onClick={() => end.mutate({ path: { session_id: row.id } })}>
            End
          </Button>
        ),
    },
  ];
  return (
    <Section
      title="Where you are signed in"
      actions={
        <Button size="small" busy={everywhere.isPending} onClick={() => everywhere.mutate({}, { onSuccess: sessionEnded })}>
          Sign out everywhere
        </Button>
      }
    >
      {(end.error ?? everywhere.error) && <Failure error={(end.error ?? everywhere.error)!} className="mb-3" />}
      <PagedTable label="Sessions" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="No sessions" />} />
    </Section>
  );
}

export function browserOf(agent: string | null): string {
  if (agent === null) return "Unknown";
  const name = /(Firefox|Edg|OPR|Chrome|Safari)\//.exec(agent)?.[1] ?? "Browser";
  const system = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(agent)?.[1];
  return [{ Edg: "Edge", OPR: "Opera" }[name] ?? name, system?.replace("Mac OS X", "macOS")].filter(Boolean).join(" on ");
}
