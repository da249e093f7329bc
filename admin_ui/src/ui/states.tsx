/** What a view shows when it has nothing to show yet, nothing at all, no right to, or an error. */
import { CircleAlert, Lock } from "lucide-react";
import type { ReactNode } from "react";
import type { ApiError } from "@/api/client";
import { cn } from "@/lib/cn";
import { Button } from "./button";

export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden className={cn("skeleton h-4", className)} />;
}

export function SkeletonRows({ rows = 6 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading" className="divide-y rounded-lg border bg-panel">
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="flex h-9 items-center gap-6 px-3">
          <Skeleton className="w-1/4" />
          <Skeleton className="w-1/6" />
          <Skeleton className="ml-auto w-1/12" />
        </div>
      ))}
    </div>
  );
}

export function Empty({ title, children, action, small }: { title: string; children?: ReactNode; action?: ReactNode; small?: boolean }) {
  return (
    <div className={cn("rounded-lg border border-dashed border-line-strong px-6 text-center", small ? "py-5" : "py-10")}>
      <p className="font-medium">{title}</p>
      {children && <p className="mx-auto mt-1 max-w-md text-ink-2">{children}</p>}
      {action && <div className="mt-4 flex justify-center">{action}</div>}
    </div>
  );
}

/** The API's words, the request's id, and another try where one makes sense. */
export function Failure({ error, retry, className }: { error: ApiError; retry?: () => void; className?: string }) {
  if (error.status === 403) return <Forbidden error={error} className={className ?? ""} />;
  return (
    <div role="alert" className={cn("flex gap-3 rounded-lg border border-bad/40 bg-bad-soft px-4 py-3", className)}>
      <CircleAlert className="mt-0.5 size-4 shrink-0 text-bad" aria-hidden />
      <div className="min-w-0 flex-1">
        <p className="break-words">{error.message}</p>
        {error.requestId && (
          <p className="mt-0.5 text-[12.5px] text-ink-2">
            Request <code className="font-mono">{error.requestId}</code>
          </p>
        )}
      </div>
      {retry && (
        <Button size="small" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

function Forbidden({ error, className }: { error: ApiError; className: string }) {
  return (
    <div role="alert" className={cn("flex gap-3 rounded-lg border bg-sunken px-4 py-3", className)}>
      <Lock className="mt-0.5 size-4 shrink-0 text-ink-3" aria-hidden />
      <div>
        <p>{error.message}</p>
        <p className="text-[12.5px] text-ink-2">An owner of this installation can grant it under Settings, Users.</p>
      </div>
    </div>
  );
}

interface LoadedProps<T> {
  query: { data: T | undefined; error: ApiError | null; refetch: () => unknown };
  skeleton?: ReactNode;
  children: (data: T) => ReactNode;
}

/** What was known stays on the screen when asking again fails, under what went wrong. */
export function Loaded<T>({ query, skeleton = <SkeletonRows />, children }: LoadedProps<T>) {
  return (
    <>
      {query.error && <Failure error={query.error} retry={() => void query.refetch()} className="mb-4" />}
      {query.data !== undefined ? children(query.data) : query.error ? null : skeleton}
    </>
  );
}
