import { Plus } from "lucide-react";
import { Slot } from "radix-ui";
import type { ComponentProps } from "react";
import type { OperationName } from "@/api/client";
import { may } from "@/api/session";
import { cn } from "@/lib/cn";

const LOOKS = {
  primary: "bg-accent text-on-accent hover:brightness-110",
  plain: "border border-line-strong bg-raised text-ink hover:bg-sunken",
  quiet: "text-ink-2 hover:bg-sunken hover:text-ink",
  danger: "bg-bad text-on-bad hover:brightness-110",
};

const SIZES = { normal: "h-8 px-3", small: "h-7 px-2 text-[13px]", icon: "size-8 justify-center" };

interface Props extends ComponentProps<"button"> {
  look?: keyof typeof LOOKS;
  size?: keyof typeof SIZES;
  asChild?: boolean;
  busy?: boolean;
  /** What it does: who may not do that does not see it. */
  needs?: OperationName;
}

export function Button({ look = "plain", size = "normal", asChild, busy, needs, className, disabled, type = "button", ...rest }: Props) {
  if (needs !== undefined && !may(needs)) return null;
  const classes = cn(
    "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors select-none disabled:opacity-50 [&_svg]:size-4",
    LOOKS[look],
    SIZES[size],
    className,
  );
  if (asChild) return <Slot.Root className={classes} {...rest} />;
  return <button type={type} className={classes} disabled={disabled || busy} aria-busy={busy || undefined} {...rest} />;
}

/** Begins something new. */
export function AddButton({ children, ...rest }: Omit<Props, "look" | "asChild">) {
  return (
    <Button look="primary" size="small" {...rest}>
      <Plus />
      {children}
    </Button>
  );
}
