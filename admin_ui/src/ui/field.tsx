/** Form controls: native ones, with a label, a hint, and the API's own words when it refuses a value. */
import type { ComponentProps, ReactElement, ReactNode } from "react";
import { cloneElement, useId } from "react";
import { cn } from "@/lib/cn";

const BOX =
  "w-full rounded-md border border-line-strong bg-panel px-2.5 text-ink placeholder:text-ink-3 disabled:bg-sunken disabled:text-ink-3 aria-invalid:border-bad";

interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | null | undefined;
  className?: string;
  children: ReactElement<{ id?: string; "aria-describedby"?: string; "aria-invalid"?: boolean }>;
}

export function Field({ label, hint, error, className, children }: FieldProps) {
  const id = useId();
  const note = error ?? hint;
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {cloneElement(children, { id, ...(note ? { "aria-describedby": `${id}-note` } : {}), ...(error ? { "aria-invalid": true } : {}) })}
      {note && (
        <p id={`${id}-note`} className={cn("mt-1 text-[12.5px]", error ? "text-bad" : "text-ink-3")}>
          {note}
        </p>
      )}
    </div>
  );
}

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={cn(BOX, "h-8", className)} {...rest} />;
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={cn(BOX, "py-1.5 leading-5", className)} {...rest} />;
}

export function Select({ className, ...rest }: ComponentProps<"select">) {
  return <select className={cn(BOX, "select-arrow h-8 appearance-none pr-7", className)} {...rest} />;
}

/** A select's choices: what each stands for, and its words. */
export function Options({ of }: { of: readonly (readonly [string, string, ...unknown[]])[] }) {
  return of.map(([value, label]) => (
    <option key={value} value={value}>
      {label}
    </option>
  ));
}

interface CheckProps extends Omit<ComponentProps<"input">, "type"> {
  label: string;
  hint?: string;
}

export function Check({ label, hint, className, ...rest }: CheckProps) {
  return (
    <label className={cn("flex cursor-pointer items-start gap-2", className)}>
      <input type="checkbox" className="mt-0.5 size-4 accent-(--accent)" {...rest} />
      <span>
        {label}
        {hint && <span className="block text-[12.5px] text-ink-3">{hint}</span>}
      </span>
    </label>
  );
}
