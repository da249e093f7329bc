/** A page's heading, its sections and cards. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useEffect } from "react";
import { cn } from "@/lib/cn";

interface PageProps {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
  /** The list that it is one of. */
  within?: { to: "/requests" | "/tenants" | "/pools"; title: string };
  children: ReactNode;
}

export function Page({ title, lead, actions, wide, within, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Tollway`;
  }, [title]);
  return (
    <div className={cn("mx-auto w-full px-4 py-5 sm:px-6", wide ? "max-w-[1600px]" : "max-w-[1280px]")}>
      {within && (
        <nav aria-label="Where you are" className="mb-1 text-[13px] text-ink-2">
          <Link to={within.to} className="hover:text-ink hover:underline">
            {within.title}
          </Link>
        </nav>
      )}
      <header className="mb-5 flex flex-wrap items-start gap-x-4 gap-y-3">
        <div className="min-w-0 flex-[1_1_280px]">
          <h1 className="text-[19px] leading-7 font-semibold tracking-[-0.01em] break-words">{title}</h1>
          {lead && <div className="mt-0.5 text-ink-2">{lead}</div>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface SectionProps {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}

export function Section({ title, lead, actions, children, className }: SectionProps) {
  return (
    <section aria-label={title} className={cn("mb-7", className)}>
      <div className="mb-2.5 flex flex-wrap items-end gap-x-3 gap-y-2">
        <div className="min-w-0 flex-[1_1_240px]">
          <h2 className="text-[15px] font-semibold">{title}</h2>
          {lead && <p className="text-[13px] text-ink-2">{lead}</p>}
        </div>
        {actions}
      </div>
      {children}
    </section>
  );
}

export function Panel({ children, className }: { children: ReactNode; className?: string }) {
  return <div className={cn("min-w-0 rounded-lg border bg-panel p-4", className)}>{children}</div>;
}

/** One figure with its name; `note` is what it is compared with. */
export function Figure({ label, children, note, className }: { label: string; children: ReactNode; note?: ReactNode; className?: string }) {
  return (
    <div className={cn("min-w-0", className)}>
      <p className="text-[12.5px] text-ink-2">{label}</p>
      <p className="figure mt-0.5 text-[20px] leading-7 font-semibold tracking-[-0.01em]">{children}</p>
      {note && <p className="figure text-[12.5px] text-ink-3">{note}</p>}
    </div>
  );
}

export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="divide-y text-[13.5px]">
      {rows.map(([name, value]) => (
        <div key={name} className="flex flex-wrap justify-between gap-x-6 gap-y-0.5 py-2">
          <dt className="text-ink-2">{name}</dt>
          <dd className="figure min-w-0 text-right break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
