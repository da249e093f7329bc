/** What is to be copied from here; a secret is not shown again. */
import type { ReactNode } from "react";
import { CopyButton } from "./bits";

interface Props {
  label: string;
  value: string;
  /** The button's words. */
  action: string;
}

export function Copyable({ label, value, action }: Props) {
  return (
    <div className="flex items-center gap-2">
      <code aria-label={label} className="min-w-0 flex-1 truncate rounded-md border bg-sunken px-2.5 py-1.5 font-mono text-[13px]">
        {value}
      </code>
      <CopyButton text={value} label={action} look="primary" />
    </div>
  );
}

export function Secret({ children, ...shown }: Props & { children: ReactNode }) {
  return (
    <>
      <div className="rounded-md border border-warn/40 bg-warn-soft px-3 py-2 text-[13px]">{children}</div>
      <Copyable {...shown} />
    </>
  );
}
