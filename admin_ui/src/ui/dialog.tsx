/** A dialog, and the one that asks before something dangerous is done. */
import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { FormEvent, ReactNode } from "react";
import { useState } from "react";
import type { ApiError } from "@/api/client";
import { cn } from "@/lib/cn";
import { Button } from "./button";
import { Field, Input } from "./field";
import { Failure } from "./states";

interface Props {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: ReactNode;
  wide?: boolean;
  children: ReactNode;
}

/** Whoever closes a dialog goes on where they were: it has no trigger of its own that could take the focus back. */
export function useGiveBack(open: boolean): (event: Event) => void {
  const [opener, setOpener] = useState<Element | null>(null);
  const [was, setWas] = useState(false);
  if (open !== was) {
    setWas(open);
    // Before a field in it takes the focus.
    if (open) setOpener(document.activeElement);
  }
  return (event) => {
    event.preventDefault();
    if (opener instanceof HTMLElement) opener.focus();
  };
}

export function Dialog({ open, onClose, title, description, wide, children }: Props) {
  const giveBack = useGiveBack(open);
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/40" />
        <Radix.Content
          onCloseAutoFocus={giveBack}
          {...(description ? {} : { "aria-describedby": undefined })}
          className={cn(
            "floating rise fixed inset-x-0 bottom-0 z-50 max-h-[92dvh] overflow-y-auto rounded-t-xl border bg-raised p-5 sm:inset-x-auto sm:top-[12vh] sm:bottom-auto sm:left-1/2 sm:max-h-[80vh] sm:w-full sm:-translate-x-1/2 sm:rounded-lg",
            wide ? "sm:max-w-2xl" : "sm:max-w-md",
          )}
        >
          <div className="mb-4 flex items-start gap-3">
            <div className="min-w-0 flex-1">
              <Radix.Title className="text-[15px] font-semibold">{title}</Radix.Title>
              {description && <Radix.Description className="mt-1 text-ink-2">{description}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <Button look="quiet" size="icon" aria-label="Close" className="-mt-1 -mr-2">
                <X />
              </Button>
            </Radix.Close>
          </div>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** A change of the API's, as its hook has it. */
interface Change {
  error: ApiError | null;
  isPending: boolean;
}

interface FormProps {
  /** What it may do: why that was refused stands above the button, which waits while it is under way. */
  changes: Change[];
  action: string;
  disabled?: boolean;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** What a dialog asks for. */
export function DialogForm({ changes, action, disabled, onSubmit, onClose, children }: FormProps) {
  const refused = changes.find((one) => one.error !== null)?.error;
  return (
    <form onSubmit={submitting(onSubmit)} className="space-y-4">
      {children}
      {refused && <Failure error={refused} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" busy={changes.some((one) => one.isPending)} disabled={disabled}>
          {action}
        </Button>
      </div>
    </form>
  );
}

interface ConfirmProps {
  open: boolean;
  onClose: () => void;
  title: string;
  /** What follows from it, in numbers where there are any. */
  children: ReactNode;
  action: string;
  /** To be typed, for what cannot be undone. */
  typed?: string;
  change: Change;
  onConfirm: () => void;
}

export function Confirm({ open, onClose, title, children, action, typed, change, onConfirm }: ConfirmProps) {
  return (
    <Dialog open={open} onClose={onClose} title={title}>
      {open && <ConfirmBody {...{ onClose, children, action, typed, change, onConfirm }} />}
    </Dialog>
  );
}

function ConfirmBody({ onClose, children, action, typed, change, onConfirm }: Omit<ConfirmProps, "open" | "title">) {
  const [text, setText] = useState("");
  return (
    <form onSubmit={submitting(onConfirm)}>
      <div className="space-y-3 text-ink-2">{children}</div>
      {typed && (
        <Field label={`Type “${typed}” to confirm`} className="mt-4">
          <Input value={text} onChange={(event) => setText(event.target.value)} autoComplete="off" />
        </Field>
      )}
      {change.error && <Failure error={change.error} className="mt-4" />}
      <div className="mt-5 flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="danger" busy={change.isPending} disabled={typed !== undefined && text !== typed}>
          {action}
        </Button>
      </div>
    </form>
  );
}

function submitting(act: () => void): (event: FormEvent) => void {
  return (event) => {
    event.preventDefault();
    act();
  };
}
