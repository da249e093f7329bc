/** Short news of what was done, in a corner. They take no focus: only an undo in one can be reached by Tab. */
import { CheckCircle2, CircleAlert, X } from "lucide-react";
import { useSyncExternalStore } from "react";
import { Button } from "./button";

interface Action {
  label: string;
  onClick: () => void;
}

interface News {
  id: number;
  kind: "success" | "error";
  text: string;
  action?: Action | undefined;
}

const SHOWN_MS = 5_000;
const WITH_ACTION_MS = 10_000;
let news: News[] = [];
let count = 0;
const watchers = new Set<() => void>();

function put(next: News[]): void {
  news = next;
  for (const tell of watchers) tell();
}

function add(kind: News["kind"], text: string, options?: { action?: Action }): void {
  const id = (count += 1);
  put([...news.slice(-2), { id, kind, text, action: options?.action }]);
  setTimeout(() => dismiss(id), options?.action ? WITH_ACTION_MS : SHOWN_MS);
}

const dismiss = (id: number): void => put(news.filter((one) => one.id !== id));

export const toast = {
  success: (text: string, options?: { action?: Action }) => add("success", text, options),
  error: (text: string) => add("error", text),
};

/** What follows a change that a dialog made: it says so and is gone. */
export function closing(onClose: () => void, text: string): { onSuccess: () => void } {
  return {
    onSuccess: () => {
      toast.success(text);
      onClose();
    },
  };
}

function watch(tell: () => void): () => void {
  watchers.add(tell);
  return () => watchers.delete(tell);
}

export function Toasts() {
  const shown = useSyncExternalStore(watch, () => news);
  return (
    <div role="status" aria-live="polite" className="pointer-events-none fixed inset-x-4 bottom-4 z-50 flex flex-col items-end gap-2">
      {shown.map(({ id, kind, text, action }) => (
        <div key={id} className="floating rise pointer-events-auto flex max-w-sm items-center gap-2.5 rounded-lg border bg-raised px-3.5 py-2.5">
          {kind === "success" ? <CheckCircle2 className="size-4 shrink-0 text-good" aria-hidden /> : <CircleAlert className="size-4 shrink-0 text-bad" aria-hidden />}
          <span className="min-w-0 break-words">{text}</span>
          {action && (
            <Button
              size="small"
              onClick={() => {
                action.onClick();
                dismiss(id);
              }}
            >
              {action.label}
            </Button>
          )}
          <Button look="quiet" size="icon" tabIndex={-1} aria-label="Dismiss" className="-my-1 -mr-1.5 size-7" onClick={() => dismiss(id)}>
            <X />
          </Button>
        </div>
      ))}
    </div>
  );
}
