/** uPlot in the page's colours. Loaded only where there is a chart. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "@/app/theme";
import type { ChartProps, Series } from "./chart";

interface Props extends ChartProps {
  height: number;
  onHover: (index: number | null) => void;
}

export default function Plot(props: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  const theme = useTheme();
  useEffect(() => {
    latest.current = props;
  });
  const { times, series, kind, height } = props;
  useEffect(() => {
    const element = holder.current;
    if (element === null) return undefined;
    const plot = new uPlot(options(latest, element, kind ?? "line", height), data(times, series, kind ?? "line"), element);
    const watch = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [times, series, kind, height, theme]);
  return <div ref={holder} className="h-full w-full" />;
}

/** Bars are stacked here, from the last to the first, so that each is drawn over the sum that holds it. */
function data(times: number[], series: Series[], kind: "line" | "bars"): uPlot.AlignedData {
  if (kind === "line") return [times, ...series.map((one) => one.values)];
  const sums = times.map(() => 0);
  const stacked = series.map((one) => one.values.map((value, index) => (sums[index] = (sums[index] ?? 0) + (value ?? 0))));
  return [times, ...stacked.toReversed()];
}

function options(latest: { current: Props }, element: HTMLElement, kind: "line" | "bars", height: number): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const drawn = kind === "bars" ? latest.current.series.toReversed() : latest.current.series;
  const { times } = latest.current;
  const half = times.length > 1 ? (times[1]! - times[0]!) / 2 : 1800;
  const paint = (one: string) => (one.startsWith("var(") ? colour(one.slice(4, -1)) : one);
  const font = `12px ${style.fontFamily}`;
  const axis = { stroke: colour("--ink-3"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: { x: { range: (_plot, low, high) => (kind === "bars" ? [low - half, high + half] : [low, high]) }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: 90, size: 30, values: (_plot, ticks, _axis, _space, step) => ticks.map((tick) => axisTime(tick, step)) },
      { ...axis, size: 72, values: (_plot, ticks) => ticks.map((tick) => latest.current.format(tick)) },
    ],
    series: [
      {},
      ...drawn.map(
        (one): uPlot.Series => ({
          label: one.label,
          stroke: paint(one.colour),
          width: 1.75,
          spanGaps: false,
          ...(one.dashed ? { dash: [6, 4] } : {}),
          points: { show: kind === "line" && latest.current.times.length < 2 },
          ...(kind === "bars" && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.72, 48], radius: 0.08 }), fill: paint(one.colour), width: 0, points: { show: false } } : {}),
        }),
      ),
    ],
    hooks: {
      setCursor: [(plot) => latest.current.onHover(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 8) return;
          latest.current.onRange?.(Math.floor(plot.posToVal(plot.select.left, "x")), Math.ceil(plot.posToVal(plot.select.left + plot.select.width, "x")));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });
const timeFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** Days as days; hours as hours, but midnight as the day that begins. */
function axisTime(unix: number, step: number): string {
  const at = new Date(unix * 1000);
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
  return step >= 86_400 || isMidnight ? dayFormat.format(at) : timeFormat.format(at);
}
