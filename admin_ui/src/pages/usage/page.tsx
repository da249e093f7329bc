/** Usage and cost: the explorer, and the exports that bills are made from. */
import { useSearch } from "@tanstack/react-router";
import { may } from "@/api/session";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { Exports } from "./exports";
import { Explorer } from "./explorer";

const TABS = [
  ["explore", "Explore"],
  ["exports", "Exports"],
] as const;

export function Usage() {
  const { tab = "explore" } = useSearch({ from: "/usage" });
  return (
    <Page title="Usage & cost" lead="To the token and the nano-dollar, as the ledger has it.">
      <Tabs label="Usage and cost" tabs={TABS.filter(([id]) => id !== "exports" || may("GET /v1/organization/exports"))} current={tab} />
      {tab === "exports" ? <Exports /> : <ExplorerPage />}
    </Page>
  );
}

function ExplorerPage() {
  const search = useSearch({ from: "/usage" });
  return <Explorer search={search} />;
}
