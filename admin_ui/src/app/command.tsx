/** ⌘K: jump to a page, a tenant, a model, a pool or a request. */
import { useNavigate } from "@tanstack/react-router";
import { Dialog } from "radix-ui";
import type { KeyboardEvent } from "react";
import { useEffect, useId, useMemo, useState } from "react";
import { usePools, useProjects, useServedNames } from "@/api/names";
import { useApi } from "@/api/queries";
import type { Hit } from "@/api/schema";
import { may } from "@/api/session";
import { cn } from "@/lib/cn";
import { useGiveBack } from "@/ui/dialog";
import { navigation } from "./nav";

interface Target {
  kind: string;
  label: string;
  go: () => void;
}

const SHOWN = 12;

export default function Command({ onClose }: { onClose: () => void }) {
  const giveBack = useGiveBack(true);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useId();
  const found = useFound(text.trim());

  function onKey(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      setChosen((chosen + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(found[chosen]);
    }
  }

  function open(target: Target | undefined) {
    if (target === undefined) return;
    onClose();
    target.go();
  }

  return (
    <Dialog.Root open onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/40" />
        <Dialog.Content onCloseAutoFocus={giveBack} aria-describedby={undefined} className="floating rise fixed top-[10vh] left-1/2 z-50 w-[min(560px,calc(100vw-2rem))] -translate-x-1/2 overflow-hidden rounded-lg border bg-raised">
          <Dialog.Title className="sr-only">Jump to</Dialog.Title>
          <input
            role="combobox"
            aria-expanded
            aria-controls={list}
            aria-activedescendant={found.length > 0 ? `${list}-${chosen}` : undefined}
            aria-label="Tenant, model, pool, page or request id"
            placeholder="Tenant, model, pool, page or request id"
            className="h-12 w-full border-b bg-transparent px-4 text-[15px] outline-none placeholder:text-ink-3"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setChosen(0);
            }}
            onKeyDown={onKey}
          />
          <div id={list} role="listbox" aria-label="Found" className="max-h-[50vh] overflow-y-auto p-1">
            {found.map((target, index) => (
              <div
                key={`${target.kind}:${target.label}`}
                id={`${list}-${index}`}
                role="option"
                tabIndex={-1}
                aria-selected={index === chosen}
                onMouseMove={() => setChosen(index)}
                onClick={() => open(target)}
                onKeyDown={onKey}
                className={cn("flex h-9 cursor-pointer items-center justify-between gap-4 rounded-md px-3", index === chosen && "bg-accent-soft")}
              >
                <span className="truncate">{target.label}</span>
                <span className="text-[12.5px] text-ink-3">{target.kind}</span>
              </div>
            ))}
            {found.length === 0 && <p className="px-3 py-6 text-center text-ink-3">Nothing of that name.</p>}
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

const GOES: Record<Hit["kind"], string> = { project: "Tenant", api_key: "Key", model: "Model", request: "Request" };

/** What the gateway finds, a moment after the last letter. */
function useHits(text: string): Hit[] {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const query = useApi("GET /v1/organization/search", { query: { q: settled } }, { enabled: settled.length >= 2 && may("GET /v1/organization/search") });
  return settled === text && settled.length >= 2 ? (query.data?.data ?? []) : [];
}

function useFound(text: string): Target[] {
  const navigate = useNavigate();
  const hits = useHits(text);
  const projects = useProjects();
  const pools = usePools();
  const models = useServedNames();
  return useMemo(() => {
    if (/^req_\w+$/.test(text)) {
      return [{ kind: "Request", label: text, go: () => void navigate({ to: "/requests/$requestId", params: { requestId: text } }) }];
    }
    const all: Target[] = [
      ...navigation().map(({ to, label }) => ({ kind: "Page", label, go: () => void navigate({ to }) })),
      ...projects.map(({ id, name }) => ({ kind: "Tenant", label: name, go: () => void navigate({ to: "/tenants/$tenantId", params: { tenantId: id } }) })),
      ...models.map((model) => ({ kind: "Model", label: model, go: () => void navigate({ to: "/requests", search: { model } }) })),
      ...pools.map(({ id, name }) => ({ kind: "Pool", label: name, go: () => void navigate({ to: "/pools/$poolId", params: { poolId: id } }) })),
    ];
    const wanted = text.toLowerCase();
    const known = all.filter((target) => target.label.toLowerCase().includes(wanted));
    const further = hits.map((hit): Target => ({ kind: GOES[hit.kind], label: hit.name, go: () => void openHit(hit, navigate) }));
    return [...known, ...further.filter((target) => !known.some((one) => one.kind === target.kind && one.label === target.label))].slice(0, SHOWN);
  }, [text, projects, pools, models, hits, navigate]);
}

function openHit(hit: Hit, navigate: ReturnType<typeof useNavigate>): Promise<void> {
  if (hit.kind === "request") return navigate({ to: "/requests/$requestId", params: { requestId: hit.id } });
  if (hit.kind === "model") return navigate({ to: "/requests", search: { model: hit.name } });
  const tab = hit.kind === "api_key" ? "keys" : undefined;
  return navigate({ to: "/tenants/$tenantId", params: { tenantId: hit.project_id ?? hit.id }, search: { tab } });
}
