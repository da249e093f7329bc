/** Tabs whose choice stands in the address. */
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { cn } from "@/lib/cn";

interface Props {
  label: string;
  tabs: readonly (readonly [string, string, ...unknown[]])[];
  current: string;
}

export function Tabs({ label, tabs, current }: Props) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow screen the chosen one may lie beyond the edge.
    const chosen = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (bar.current && chosen) bar.current.scrollLeft = chosen.offsetLeft - (bar.current.clientWidth - chosen.offsetWidth) / 2;
  }, [current]);
  return (
    <nav ref={bar} aria-label={label} className="relative mb-5 flex gap-1 overflow-x-auto border-b">
      {tabs.map(([id, title]) => (
        <Link
          key={id}
          to="."
          search={(known: Record<string, string | undefined>) => ({ ...known, tab: id })}
          replace
          aria-current={id === current ? "page" : undefined}
          className={cn(
            "-mb-px flex h-9 items-center border-b-2 px-3 font-medium whitespace-nowrap",
            id === current ? "border-accent text-ink" : "border-transparent text-ink-2 hover:text-ink",
          )}
        >
          {title}
        </Link>
      ))}
    </nav>
  );
}
