/** The calls as hooks: cached by name and arguments, cancelled when nobody waits, told apart by their errors. */
import { keepPreviousData, QueryClient, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { UseInfiniteQueryResult, UseMutationResult, UseQueryResult } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import type { Ask, OperationName } from "./client";
import { ApiError, call } from "./client";
import type { Operations } from "./schema";
import type { List, PageOf } from "./shapes";

export type Answer<N extends OperationName> = Operations[N]["answer"];

interface Options {
  enabled?: boolean;
  /** Asked again this often while the page is looked at. */
  everyMs?: number;
  staleMs?: number;
}

export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => failures < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 502),
        retryDelay: (attempt) => 500 * 2 ** attempt,
        refetchOnWindowFocus: true,
      },
    },
  });
}

export function useApi<N extends OperationName>(name: N, ask: Ask<N> = {}, options: Options = {}): UseQueryResult<Answer<N>, ApiError> {
  return useQuery<Answer<N>, ApiError>({
    queryKey: [name, ask.path ?? {}, ask.query ?? {}],
    queryFn: ({ signal }) => call(name, { ...ask, signal }) as Promise<Answer<N>>,
    enabled: options.enabled ?? true,
    refetchInterval: options.everyMs ?? false,
    placeholderData: keepPreviousData,
    ...(options.staleMs === undefined ? {} : { staleTime: options.staleMs }),
  });
}

type RowOf<A> = A extends { data: (infer R)[] } ? R : never;

export interface Rows<R> {
  query: UseInfiniteQueryResult<{ pages: unknown[] }, ApiError>;
  rows: R[];
}

export interface Whole<R> {
  data: R[] | undefined;
  error: ApiError | null;
  refetch: () => unknown;
}

/** A list page by page, by `after` or by `page`. */
export function useList<N extends OperationName>(name: N, ask: Ask<N> = {}, options: Options = {}): Rows<RowOf<Answer<N>>> {
  type Row = RowOf<Answer<N>>;
  type Page = List<Row> & Partial<PageOf<Row>>;
  const query = useInfiniteQuery({
    queryKey: [name, ask.path ?? {}, ask.query ?? {}, "pages"],
    queryFn: ({ signal, pageParam }) => call(name, { ...ask, query: { ...ask.query, ...pageParam } as never, signal }) as unknown as Promise<Page>,
    initialPageParam: {} as Record<string, string>,
    getNextPageParam: (last: Page): Record<string, string> | undefined => {
      if (!last.has_more) return undefined;
      return last.next_page ? { page: last.next_page } : { after: last.last_id ?? "" };
    },
    enabled: options.enabled ?? true,
    refetchInterval: options.everyMs ?? false,
    placeholderData: keepPreviousData,
  });
  const { data } = query;
  const rows = useMemo(() => data?.pages.flatMap((page) => page.data) ?? [], [data]);
  return { query: query as unknown as Rows<Row>["query"], rows };
}

/** All pages of a list that is known to be short, one after the other; nothing before the last one is there. */
export function useWhole<N extends OperationName>(name: N, ask: Ask<N> = {}, options: Options = {}): Whole<RowOf<Answer<N>>> {
  const { query, rows } = useList(name, ask, options);
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage, data, error, refetch } = query;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
    // A page that came at once is seen by its being there alone.
  }, [data, hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  return { data: data === undefined || hasNextPage ? undefined : rows, error, refetch };
}

/** A change; afterwards what the named calls answered is asked for again. */
export function useChange<N extends OperationName>(name: N, touches: OperationName[] = []): UseMutationResult<Answer<N>, ApiError, Ask<N>> {
  const client = useQueryClient();
  return useMutation<Answer<N>, ApiError, Ask<N>>({
    mutationFn: (ask) => call(name, ask) as Promise<Answer<N>>,
    onSuccess: () => Promise.all(touches.map((one) => client.invalidateQueries({ queryKey: [one] }))).then(() => undefined),
  });
}
