/** A chart over time with its table: one meaning per axis, gaps stay gaps, a brush changes the page's range. */
import { lazy, Suspense, useState } from "react";
import { cn } from "@/lib/cn";
import { NONE } from "@/lib/format";
import { Time } from "./bits";
import { Skeleton } from "./states";

const Plot = lazy(() => import("./plot"));

export interface Series {
  label: string;
  values: (number | null)[];
  colour: string;
  dashed?: boolean;
}

export interface ChartProps {
  label: string;
  /** Unix seconds, one per value. */
  times: number[];
  series: Series[];
  format: (value: number) => string;
  /** Bars are stacked on each other; lines are not. */
  kind?: "line" | "bars";
  height?: number;
  onRange?: (from: number, to: number) => void;
  /** Stands in a panel already. */
  bare?: boolean;
}

export function Chart(props: ChartProps) {
  const [asTable, setAsTable] = useState(false);
  const [at, setAt] = useState<number | null>(null);
  const height = props.height ?? 220;
  return (
    <figure aria-label={props.label} className={props.bare ? "-mx-2" : "rounded-lg border bg-panel"}>
      <figcaption className={cn("flex flex-wrap items-center gap-x-4 gap-y-1 text-[13px]", props.bare ? "px-2" : "px-4 pt-3")}>
        <span className="font-medium">{props.label}</span>
        <ul className="flex flex-wrap gap-x-4 gap-y-1 text-ink-2">
          {props.series.map((one) => (
            <li key={one.label} className="flex items-center gap-1.5">
              <span aria-hidden className={cn("h-0 border-t-2", one.dashed ? "w-5 border-dashed" : "w-3")} style={{ borderColor: one.colour }} />
              {one.label}
              {at !== null && <span className="figure font-medium text-ink">{shown(one.values[at], props.format)}</span>}
            </li>
          ))}
        </ul>
        <span className="ml-auto flex items-center gap-3 text-ink-3">
          {at !== null && <Time at={props.times[at]} short />}
          <button type="button" aria-pressed={asTable} onClick={() => setAsTable(!asTable)} className="rounded px-1 text-ink-2 underline-offset-2 hover:text-ink hover:underline">
            {asTable ? "Chart" : "Table"}
          </button>
        </span>
      </figcaption>
      {isEmpty(props) ? (
        <p className="grid place-items-center px-4 text-[13px] text-ink-3" style={{ height }}>
          Nothing was measured in this range.
        </p>
      ) : asTable ? (
        <Figures {...props} />
      ) : (
        <div className="px-2 pt-1 pb-2" style={{ height }}>
          <Suspense fallback={<Skeleton className="h-full" />}>
            <Plot {...props} height={height - 12} onHover={setAt} />
          </Suspense>
        </div>
      )}
    </figure>
  );
}

function Figures({ label, times, series, format }: ChartProps) {
  return (
    <div className="max-h-80 overflow-auto p-2">
      <table aria-label={label} className="w-full text-[13px]">
        <thead className="sticky top-0 bg-panel text-left text-ink-2">
          <tr>
            <th className="px-2 py-1 font-medium">Time</th>
            {series.map((one) => (
              <th key={one.label} className="px-2 py-1 text-right font-medium">
                {one.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((time, index) => (
            <tr key={time} className="border-t">
              <td className="px-2 py-1">
                <Time at={time} short />
              </td>
              {series.map((one) => (
                <td key={one.label} className="figure px-2 py-1 text-right">
                  {shown(one.values[index], format)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const isEmpty = ({ series }: ChartProps): boolean => series.every((one) => one.dashed || one.values.every((value) => value === null));

const shown = (value: number | null | undefined, format: (value: number) => string): string => (value === null || value === undefined ? NONE : format(value));
