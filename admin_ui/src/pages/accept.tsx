/** The invited person's side: a name and a password, and they are in. */
import { useNavigate } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { useState } from "react";
import type { Invitation } from "@/api/schema";
import { opened, post } from "@/api/session";
import { Linked, useToken } from "@/app/linked";
import { Door, useAttempt } from "@/app/login";
import { Button } from "@/ui/button";
import { Field, Input } from "@/ui/field";
import { Failure } from "@/ui/states";

const INVITATIONS = "/v1/organization/invitations";

export function AcceptInvite() {
  const token = useToken();
  return (
    <Door title="You are invited to Tollway">
      <Linked<Invitation> token={token} lookup={`${INVITATIONS}/lookup`}>
        {({ email }) => <AcceptForm token={token} email={email} />}
      </Linked>
    </Door>
  );
}

function AcceptForm({ token, email }: { token: string; email: string }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const { error, busy, attempt } = useAttempt();
  const navigate = useNavigate();
  function submit(event: FormEvent) {
    event.preventDefault();
    void attempt(async () => {
      const refused = await opened(await post(`${INVITATIONS}/accept`, { token, name, password }));
      if (refused === null) void navigate({ to: "/", replace: true });
      return refused;
    });
  }
  return (
    <form onSubmit={submit} className="space-y-4">
      <Field label="Email">
        <Input type="email" value={email} autoComplete="username" readOnly />
      </Field>
      <Field label="Your name">
        <Input value={name} onChange={(event) => setName(event.target.value)} autoComplete="name" autoFocus required maxLength={200} />
      </Field>
      <Field label="Password" hint="At least 12 characters.">
        <Input type="password" value={password} onChange={(event) => setPassword(event.target.value)} autoComplete="new-password" minLength={12} required />
      </Field>
      {error && <Failure error={error} />}
      <Button type="submit" look="primary" className="w-full" busy={busy}>
        Accept
      </Button>
    </form>
  );
}
