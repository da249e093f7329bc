/** What stands in a page's place: while it is fetched, when it broke, when there is none. */
import type { ErrorComponentProps } from "@tanstack/react-router";
import { Link } from "@tanstack/react-router";
import { Button } from "@/ui/button";
import { Page } from "@/ui/page";
import { Skeleton, SkeletonRows } from "@/ui/states";

export function PagePending() {
  return (
    <div className="mx-auto w-full max-w-[1280px] px-4 py-5 sm:px-6">
      <Skeleton className="mb-6 h-6 w-48" />
      <SkeletonRows />
    </div>
  );
}

export function PageFailure({ error }: ErrorComponentProps) {
  return (
    <Page title="This page broke">
      <div role="alert" className="rounded-lg border border-bad/40 bg-bad-soft px-4 py-3">
        <p>{error instanceof Error ? error.message : String(error)}</p>
        <p className="mt-1 text-[13px] text-ink-2">After an upgrade of the gateway a reload fetches the console that belongs to it.</p>
      </div>
      <Button className="mt-4" onClick={() => location.reload()}>
        Reload
      </Button>
    </Page>
  );
}

export function PageMissing() {
  return (
    <Page title="There is no such page">
      <Button asChild>
        <Link to="/">Go to the overview</Link>
      </Button>
    </Page>
  );
}
