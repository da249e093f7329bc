/** What stands behind a link that somebody was sent: its token is looked up first. */
import type { ReactNode } from "react";
import { useEffect, useState } from "react";
import type { ApiError } from "@/api/client";
import { refusal } from "@/api/client";
import { post } from "@/api/session";
import { Failure, Skeleton } from "@/ui/states";

/** Behind the `#`, which browsers send to nobody. */
export function useToken(): string {
  const [token] = useState(() => location.hash.slice(1));
  return token;
}

interface Props<T> {
  token: string;
  /** Of the call that says what the token is for. */
  lookup: string;
  children: (found: T) => ReactNode;
}

export function Linked<T>({ token, lookup, children }: Props<T>) {
  const [found, setFound] = useState<T | null>(null);
  const [failure, setFailure] = useState<ApiError | null>(null);
  useEffect(() => {
    void post(lookup, { token }).then(async (response) => (response.ok ? setFound((await response.json()) as T) : setFailure(await refusal(response))));
  }, [lookup, token]);
  if (failure) return <Failure error={failure} />;
  return found === null ? <Skeleton className="h-40" /> : children(found);
}
