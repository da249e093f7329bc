/** A line without axes, for a shape at a glance; the figures stand beside it. */
interface Props {
  values: (number | null)[];
  label: string;
  className?: string;
}

export function Sparkline({ values, label, className }: Props) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 0) || 1;
  const step = 100 / Math.max(1, values.length - 1);
  let path = "";
  let open = false;
  values.forEach((value, index) => {
    if (value === null) {
      open = false;
      return;
    }
    const point = `${(index * step).toFixed(2)} ${(22 - (value / top) * 20).toFixed(2)}`;
    path += open ? `L${point}` : `M${point}h.01`;
    open = true;
  });
  return (
    <svg viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label} className={className ?? "h-6 w-24"}>
      <path d={path} fill="none" stroke="var(--accent)" strokeWidth="1.75" vectorEffect="non-scaling-stroke" strokeLinejoin="round" strokeLinecap="round" />
    </svg>
  );
}
