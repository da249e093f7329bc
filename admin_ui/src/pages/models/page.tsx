/** Models as tenants see them: the names, where they lead, what a token costs. */
import { useSearch } from "@tanstack/react-router";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { Prices } from "./prices";
import { Routes } from "./routes";

const TABS = [
  ["routes", "Routes"],
  ["prices", "Prices"],
] as const;

export function Models() {
  const { tab = "routes" } = useSearch({ from: "/models" });
  return (
    <Page title="Models & prices" lead="A route leads a served name to a pool; its SKU says what a token costs.">
      <Tabs label="Models and prices" tabs={TABS} current={tab} />
      {tab === "prices" ? <Prices /> : <Routes />}
    </Page>
  );
}
