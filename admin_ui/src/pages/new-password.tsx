/** A new password for who lost theirs: with an owner’s link, or with the code that they were mailed. */
import { useNavigate } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { useState } from "react";
import type { PasswordReset } from "@/api/schema";
import { opened, post } from "@/api/session";
import { Linked, useToken } from "@/app/linked";
import { Door, useAttempt } from "@/app/login";
import { Button } from "@/ui/button";
import { Field, Input } from "@/ui/field";
import { Failure } from "@/ui/states";

const RESETS = "/v1/organization/password_resets";

export function NewPassword() {
  const token = useToken();
  return (
    <Door title="A new password">
      {token === "" ? (
        <p className="text-ink-2">Open the link that an owner gave you, or ask for a code on the sign-in page.</p>
      ) : (
        <Linked<PasswordReset> token={token} lookup={`${RESETS}/lookup`}>
          {({ email }) => <NewPasswordForm email={email} token={token} />}
        </Linked>
      )}
    </Door>
  );
}

/** Without a token it asks for the code. */
export function NewPasswordForm({ email, token = null }: { email: string; token?: string | null }) {
  const [code, setCode] = useState("");
  const [password, setPassword] = useState("");
  const { error, busy, attempt } = useAttempt();
  const navigate = useNavigate();
  function submit(event: FormEvent) {
    event.preventDefault();
    void attempt(async () => {
      const refused = await opened(await post(`${RESETS}/accept`, { token: token ?? code.trim(), password }));
      if (refused === null) void navigate({ to: "/", replace: true });
      return refused;
    });
  }
  return (
    <form onSubmit={submit} className="space-y-4">
      <Field label="Email">
        <Input type="email" value={email} autoComplete="username" readOnly />
      </Field>
      {token === null && (
        <Field label="Code from the mail" hint="If there is such an account, it is on its way. It is good for 30 minutes.">
          <Input value={code} onChange={(event) => setCode(event.target.value)} autoComplete="one-time-code" spellCheck={false} autoFocus required className="font-mono text-[13px]" />
        </Field>
      )}
      <Field label="New password" hint="At least 12 characters. Your other sessions end.">
        <Input type="password" value={password} onChange={(event) => setPassword(event.target.value)} autoComplete="new-password" minLength={12} autoFocus={token !== null} required />
      </Field>
      {error && <Failure error={error} />}
      <Button type="submit" look="primary" className="w-full" busy={busy}>
        Change it and sign in
      </Button>
    </form>
  );
}
