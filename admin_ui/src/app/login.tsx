/** Nobody is signed in: the way in, with a password or with an admin key. */
import type { FormEvent, ReactNode } from "react";
import { lazy, Suspense, useEffect, useState } from "react";
import type { ApiError } from "@/api/client";
import { refusal } from "@/api/client";
import type { SignInMethods } from "@/api/schema";
import { post, signIn, signInWithKey } from "@/api/session";
import { Button } from "@/ui/button";
import { Field, Input } from "@/ui/field";
import { Failure, Skeleton } from "@/ui/states";
import { Logo } from "./logo";

export function SignIn() {
  const [way, setWay] = useState<"password" | "key" | "lost">("password");
  const methods = useMethods();
  const provider = methods?.oidc ?? null;
  const failed = new URLSearchParams(location.search).get("error");
  return (
    <Door title="Sign in to Tollway">
      {failed !== null && location.pathname.endsWith("/sign-in") && (
        <p role="alert" className="mb-4 rounded-md border border-bad/40 bg-bad-soft px-3 py-2 text-[13px]">
          {REASONS[failed] ?? "The identity provider did not let you in."}
        </p>
      )}
      {provider !== null && (
        <div className="mb-4 border-b pb-4">
          <Button asChild look="primary" className="w-full">
            <a href={provider.start_path}>Continue with {provider.name}</a>
          </Button>
        </div>
      )}
      {way === "password" && <PasswordForm />}
      {way === "key" && <KeyForm />}
      {way === "lost" && <LostPassword byMail={methods?.password_reset === "mail"} />}
      <div className="mt-4 flex flex-wrap justify-center gap-1 border-t pt-3">
        {WAYS.filter(([one]) => one !== way).map(([one, words]) => (
          <Button key={one} look="quiet" size="small" onClick={() => setWay(one)}>
            {words}
          </Button>
        ))}
      </div>
    </Door>
  );
}

const WAYS = [
  ["password", "Sign in with a password"],
  ["lost", "Forgot your password?"],
  ["key", "Use an admin key"],
] as const;

const REASONS: Record<string, string> = {
  unknown_user: "Nobody here has your address. Ask an owner of this installation to invite you.",
  email_not_verified: "The identity provider has not verified your address.",
  no_role: "The identity provider gives you no role here.",
  too_late: "That took too long. Please begin again.",
  provider_unavailable: "The identity provider cannot be reached right now.",
};

/** Which ways in there are; null until that is known. */
function useMethods(): SignInMethods | null {
  const [methods, setMethods] = useState<SignInMethods | null>(null);
  useEffect(() => {
    void fetch("/v1/organization/sessions/methods")
      .then(async (response) => (response.ok ? ((await response.json()) as SignInMethods) : null))
      .then(setMethods)
      .catch(() => setMethods(null));
  }, []);
  return methods;
}

const NewPasswordForm = lazy(() => import("@/pages/new-password").then((page) => ({ default: page.NewPasswordForm })));

/** First the address, then what came to it. */
function LostPassword({ byMail }: { byMail: boolean }) {
  const [email, setEmail] = useState("");
  const [sent, setSent] = useState(false);
  const { error, busy, attempt } = useAttempt();
  function submit(event: FormEvent) {
    event.preventDefault();
    void attempt(async () => {
      const response = await post("/v1/organization/password_resets", { email });
      setSent(response.ok);
      return response.ok ? null : response;
    });
  }
  if (!byMail) return <p className="text-ink-2">No mail can be sent from here. Ask an owner of this installation for a link: they make it under Settings, Users.</p>;
  if (sent) {
    return (
      <Suspense fallback={<Skeleton className="h-40" />}>
        <NewPasswordForm email={email} />
      </Suspense>
    );
  }
  return (
    <form onSubmit={submit} className="space-y-4">
      <Field label="Email" hint="A code for a new password is mailed to it.">
        <Input type="email" value={email} onChange={(event) => setEmail(event.target.value)} autoComplete="username" autoFocus required />
      </Field>
      {error && <Failure error={error} />}
      <Button type="submit" look="primary" className="w-full" busy={busy}>
        Mail me a code
      </Button>
    </form>
  );
}

/** What stands before the console: one panel in the middle. */
export function Door({ title, children }: { title: string; children: ReactNode }) {
  return (
    <main className="grid min-h-dvh place-items-center px-4 py-10">
      <div className="w-full max-w-[360px]">
        <div className="mb-6 flex items-center gap-2.5">
          <Logo className="size-8" />
          <h1 className="text-[20px] font-semibold tracking-tight">{title}</h1>
        </div>
        <div className="rounded-lg border bg-panel p-5">{children}</div>
      </div>
    </main>
  );
}

/** Sends a form and keeps why it was refused. */
export function useAttempt(): { error: ApiError | null; busy: boolean; attempt: (act: () => Promise<Response | null>) => Promise<void> } {
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  async function attempt(act: () => Promise<Response | null>) {
    setBusy(true);
    setError(null);
    const refused = await act().catch(() => new Response(null, { status: 502 }));
    setBusy(false);
    if (refused !== null) setError(await refusal(refused));
  }
  return { error, busy, attempt };
}

function PasswordForm() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const { error, busy, attempt } = useAttempt();
  function submit(event: FormEvent) {
    event.preventDefault();
    void attempt(() => signIn(email, password));
  }
  return (
    <form onSubmit={submit} className="space-y-4">
      <Field label="Email">
        <Input type="email" name="email" value={email} onChange={(event) => setEmail(event.target.value)} autoComplete="username" autoFocus required />
      </Field>
      <Field label="Password">
        <Input type="password" name="password" value={password} onChange={(event) => setPassword(event.target.value)} autoComplete="current-password" required />
      </Field>
      {error && <Failure error={error} />}
      <Button type="submit" look="primary" className="w-full" busy={busy}>
        Sign in
      </Button>
    </form>
  );
}

function KeyForm() {
  const [key, setKey] = useState("");
  const { error, busy, attempt } = useAttempt();
  function submit(event: FormEvent) {
    event.preventDefault();
    void attempt(() => signInWithKey(key.trim()));
  }
  return (
    <form onSubmit={submit} className="space-y-4">
      <Field label="Admin key" hint="Kept in this page’s memory only: a reload asks for it again.">
        <Input type="password" value={key} onChange={(event) => setKey(event.target.value)} autoComplete="off" autoFocus required spellCheck={false} />
      </Field>
      {error && <Failure error={error} />}
      <Button type="submit" look="primary" className="w-full" busy={busy}>
        Sign in
      </Button>
    </form>
  );
}
