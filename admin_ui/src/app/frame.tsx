/** What stands around every page: the rail, the top bar, and the search that ⌘K opens. */
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { ChevronsUpDown, LogOut, Menu, Moon, Search, Sun, UserRound } from "lucide-react";
import { Dialog, DropdownMenu } from "radix-ui";
import { lazy, Suspense, useEffect, useState } from "react";
import { useLive } from "@/api/live";
import { useActiveProjects } from "@/api/names";
import { useApi } from "@/api/queries";
import { ownProjects, restoreSession, signOut, useSession } from "@/api/session";
import { cn } from "@/lib/cn";
import { Button } from "@/ui/button";
import { Toasts } from "@/ui/toast";
import { SignIn } from "./login";
import { Logo } from "./logo";
import { navigation } from "./nav";
import { setTheme, useTheme } from "./theme";
import { TimeRange } from "./time-range";

const Command = lazy(() => import("./command"));
/** For who is not signed in: a link has brought them. */
const OPEN = new Set(["/accept-invite", "/new-password"]);

export function Frame() {
  const session = useSession();
  const isOpen = useRouterState({ select: (state) => OPEN.has(state.location.pathname) });
  useEffect(() => {
    if (session === undefined) void restoreSession();
  }, [session]);
  return (
    <>
      {isOpen ? <Outlet /> : session === undefined ? null : session === null ? <SignIn /> : <Signed key={session.name} />}
      <Toasts />
    </>
  );
}

function Signed() {
  useLive();
  const [searching, setSearching] = useState(false);
  const [menu, setMenu] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setSearching(true);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <div className="flex min-h-dvh">
      <a href="#main" className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2">
        Skip to content
      </a>
      <aside className="sticky top-0 hidden h-dvh w-[208px] shrink-0 flex-col border-r bg-panel lg:flex">
        <Brand />
        <Rail />
      </aside>
      <Sheet open={menu} onClose={() => setMenu(false)} />
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="sticky top-0 z-30 flex h-12 items-center gap-2 border-b bg-panel px-3 sm:px-4">
          <Button look="quiet" size="icon" aria-label="Open the menu" className="lg:hidden" onClick={() => setMenu(true)}>
            <Menu />
          </Button>
          <TenantSwitcher />
          <span className="hidden rounded border px-1.5 text-[12px] leading-5 text-ink-3 md:inline" title="The installation that this console belongs to">
            {location.host}
          </span>
          <span className="ml-auto" />
          <TimeRange />
          <button
            type="button"
            onClick={() => setSearching(true)}
            className="flex h-8 items-center gap-2 rounded-md border bg-sunken px-2.5 text-[13px] text-ink-3 hover:border-line-strong xl:w-64"
          >
            <Search className="size-4" aria-hidden />
            <span className="hidden sm:inline">Jump to…</span>
            <span className="sr-only sm:hidden">Jump to</span>
            <kbd className="ml-auto hidden font-sans text-[11.5px] sm:inline">{isMac() ? "⌘K" : "Ctrl K"}</kbd>
          </button>
          <UserMenu />
        </header>
        <main id="main" tabIndex={-1} className="min-w-0 flex-1 outline-none">
          <Outlet />
        </main>
      </div>
      {searching && (
        <Suspense fallback={null}>
          <Command onClose={() => setSearching(false)} />
        </Suspense>
      )}
    </div>
  );
}

function Brand() {
  return (
    <Link to="/" className="flex h-12 items-center gap-2 px-4 text-[15px] font-semibold tracking-tight">
      <Logo className="size-5" />
      Tollway
    </Link>
  );
}

function Rail({ onGo }: { onGo?: () => void }) {
  return (
    <nav aria-label="Main" className="flex-1 space-y-0.5 overflow-y-auto p-2">
      {navigation().map(({ to, label, icon: Icon }) => (
        <Link
          key={to}
          to={to}
          onClick={onGo}
          activeOptions={{ exact: to === "/" }}
          className="flex h-8 items-center gap-2.5 rounded-md px-2.5 font-medium text-ink-2 hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent-ink"
          activeProps={{ "aria-current": "page" }}
        >
          <Icon className="size-4 shrink-0" aria-hidden />
          {label}
        </Link>
      ))}
    </nav>
  );
}

function Sheet({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/40 lg:hidden" />
        <Dialog.Content aria-describedby={undefined} className="floating rise fixed inset-y-0 left-0 z-50 flex w-64 flex-col bg-panel lg:hidden">
          <Dialog.Title className="sr-only">Menu</Dialog.Title>
          <Brand />
          <Rail onGo={onClose} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

const MENU = "floating rise z-50 max-h-[70vh] min-w-52 overflow-y-auto rounded-lg border bg-raised p-1";
const MENU_ITEM = "flex h-8 items-center gap-2 rounded-md px-2 outline-none data-highlighted:bg-sunken [&_svg]:size-4 [&_svg]:text-ink-3 select-none";

function TenantSwitcher() {
  const [opened, setOpened] = useState(false);
  const projects = useActiveProjects(opened);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const all = ownProjects() === null ? "All tenants" : "Your tenants";
  const id = /^\/tenants\/([^/]+)/.exec(path)?.[1];
  const here = useApi("GET /v1/organization/projects/{project_id}", { path: { project_id: id ?? "" } }, { enabled: id !== undefined }).data;
  return (
    <DropdownMenu.Root onOpenChange={setOpened}>
      <DropdownMenu.Trigger asChild>
        <Button look="quiet" className="max-w-[180px] min-w-0 px-2">
          <span className="truncate">{id !== undefined && here?.id === id ? here.name : all}</span>
          <ChevronsUpDown className="shrink-0 text-ink-3" aria-hidden />
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align="start" sideOffset={4} className={MENU}>
          <DropdownMenu.Item asChild>
            <Link to="/tenants" className={MENU_ITEM}>
              {all}
            </Link>
          </DropdownMenu.Item>
          <DropdownMenu.Separator className="my-1 h-px bg-line" />
          {projects.map((one) => (
            <DropdownMenu.Item key={one.id} asChild>
              <Link to="/tenants/$tenantId" params={{ tenantId: one.id }} className={cn(MENU_ITEM, one.id === id && "font-semibold")}>
                {one.name}
              </Link>
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function UserMenu() {
  const theme = useTheme();
  const name = useSession()?.name ?? "";
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>
        <button type="button" className="grid size-8 shrink-0 place-items-center rounded-full bg-accent-soft text-[12px] font-semibold text-accent-ink uppercase">
          <span aria-hidden>{name.replace(/^tw-/, "").slice(0, 2)}</span>
          <span className="sr-only">You and this console</span>
        </button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align="end" sideOffset={4} className={MENU}>
          <DropdownMenu.Label className="truncate px-2 py-1.5 text-[12.5px] text-ink-2">{name}</DropdownMenu.Label>
          <DropdownMenu.Item asChild>
            <Link to="/settings" search={{ tab: "you" }} className={MENU_ITEM}>
              <UserRound />
              Your account
            </Link>
          </DropdownMenu.Item>
          <DropdownMenu.Item className={MENU_ITEM} onSelect={() => setTheme(theme === "dark" ? "light" : "dark")}>
            {theme === "dark" ? <Sun /> : <Moon />}
            {theme === "dark" ? "Light theme" : "Dark theme"}
          </DropdownMenu.Item>
          <DropdownMenu.Item className={MENU_ITEM} onSelect={() => void signOut()}>
            <LogOut />
            Sign out
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

const isMac = (): boolean => navigator.userAgent.includes("Mac");
