/** A table on a screen that is wide enough, cards on one that is not: the same cells in both. */
import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Fragment } from "react";
import type { ApiError, OperationName } from "@/api/client";
import { may } from "@/api/session";
import { cn } from "@/lib/cn";
import { Button } from "./button";
import { Failure, SkeletonRows } from "./states";

export interface Column<R> {
  head: string;
  cell: (row: R) => ReactNode;
  /** A figure, or what belongs at the end of the line. */
  right?: boolean;
  /** The line's name: its card's heading. */
  main?: boolean;
  /** Buttons: without a heading. */
  action?: boolean;
  wide?: boolean;
  /** Left out for who may do none of it. */
  needs?: OperationName;
}

/** The buttons of lines that can be changed and deleted by whoever may do the one that is named. */
export function changeOrDelete<R>(needs: OperationName, onChange: (row: R) => void, onDelete: (row: R) => void): Column<R> {
  return {
    head: "Actions",
    action: true,
    needs,
    right: true,
    cell: (row) => (
      <span className="inline-flex gap-1">
        <Button size="small" look="quiet" onClick={() => onChange(row)}>
          Change
        </Button>
        <Button size="small" look="quiet" className="text-bad" onClick={() => onDelete(row)}>
          Delete
        </Button>
      </span>
    ),
  };
}

interface TableProps<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  rowKey: (row: R) => string;
  dim?: (row: R) => boolean;
}

export function Table<R>({ label, columns: all, rows, rowKey, dim }: TableProps<R>) {
  const columns = all.filter(({ needs }) => needs === undefined || may(needs));
  return (
    <>
      <div className="hidden overflow-x-auto rounded-lg border bg-panel sm:block">
        <table aria-label={label} className="w-full text-[13.5px]">
          <thead>
            <tr className="border-b bg-sunken/60 text-left text-[12.5px] text-ink-2">
              {columns.map((column) => (
                <th key={column.head} scope="col" className={cn("h-8 px-3 font-medium whitespace-nowrap", column.right && "text-right")}>
                  {column.action ? <span className="sr-only">{column.head}</span> : column.head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y">
            {rows.map((row) => (
              <tr key={rowKey(row)} className={cn("hover:bg-sunken/50", dim?.(row) && "text-ink-3")}>
                {columns.map((column) => (
                  <td key={column.head} className={cn("h-9 px-3 py-1 align-middle", column.right && "figure text-right", column.wide && "w-full", column.main && "font-medium")}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <ul aria-label={label} className="space-y-2 sm:hidden">
        {rows.map((row) => (
          <li key={rowKey(row)} className={cn("rounded-lg border bg-panel p-3", dim?.(row) && "text-ink-3")}>
            <Card columns={columns} row={row} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Card<R>({ columns, row }: { columns: Column<R>[]; row: R }) {
  const main = columns.filter((column) => column.main);
  const actions = columns.filter((column) => column.action);
  const facts = columns.filter((column) => !column.main && !column.action);
  return (
    <>
      <div className="mb-2 font-medium">{main.map((column) => <Fragment key={column.head}>{column.cell(row)}</Fragment>)}</div>
      <dl className="space-y-1 text-[13px]">
        {facts.map((column) => (
          <div key={column.head} className="flex justify-between gap-4">
            <dt className="text-ink-3">{column.head}</dt>
            <dd className="figure min-w-0 text-right break-words">{column.cell(row)}</dd>
          </div>
        ))}
      </dl>
      {actions.length > 0 && <div className="mt-3 flex gap-2">{actions.map((column) => <Fragment key={column.head}>{column.cell(row)}</Fragment>)}</div>}
    </>
  );
}

interface ListQuery {
  query: UseInfiniteQueryResult<{ pages: unknown[] }, ApiError>;
  /** Stands where there is nothing. */
  empty: ReactNode;
}

interface PagedProps extends ListQuery {
  /** How many are shown. */
  count: number;
  skeletonRows?: number;
  children: ReactNode;
}

/** A list that may have more pages than are shown, however its items are drawn. */
export function Paged({ query, empty, count, skeletonRows = 6, children }: PagedProps) {
  return (
    <>
      {query.error && <Failure error={query.error} retry={() => void query.refetch()} className="mb-4" />}
      {query.isPending && !query.error ? <SkeletonRows rows={skeletonRows} /> : null}
      {query.data && count === 0 && !query.hasNextPage ? empty : null}
      {count > 0 && children}
      {query.hasNextPage && (
        <div className="mt-3 flex justify-center">
          <Button onClick={() => void query.fetchNextPage()} busy={query.isFetchingNextPage}>
            {count === 0 ? "Search further back" : "Show more"}
          </Button>
        </div>
      )}
    </>
  );
}

export function PagedTable<R>({ query, empty, ...table }: TableProps<R> & ListQuery) {
  return (
    <Paged query={query} empty={empty} count={table.rows.length}>
      <Table {...table} />
    </Paged>
  );
}
