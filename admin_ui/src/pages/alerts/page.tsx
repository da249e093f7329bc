/** What is promised, what went wrong, and who is told. */
import { useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { may } from "@/api/session";
import { Page, Section } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { Board } from "../slo/board";
import { Latency } from "../slo/latency";
import { Objectives } from "../slo/objectives";
import { Episodes } from "./episodes";
import { Webhooks } from "./webhooks";

const TABS = [
  ["board", "Board", "GET /v1/organization/slo/board"],
  ["alerts", "Alerts", "GET /v1/organization/alert_episodes"],
  ["objectives", "Objectives", "GET /v1/organization/objectives"],
  ["webhooks", "Webhooks", "GET /v1/organization/webhook_endpoints"],
] as const;

const VIEWS: Record<string, ComponentType> = { board: BoardTab, alerts: Episodes, objectives: Objectives, webhooks: Webhooks };

export function Alerts() {
  const { tab = "board" } = useSearch({ from: "/alerts" });
  const View = VIEWS[tab] ?? BoardTab;
  return (
    <Page title="Objectives & alerts" lead="What is promised, how it is kept, and what went wrong.">
      <Tabs label="Objectives and alerts" tabs={TABS.filter(([, , needs]) => may(needs))} current={tab} />
      <View />
    </Page>
  );
}

function BoardTab() {
  return (
    <>
      <Section title="Promises, worst first" lead="Over the last 30 days; a burn of 1 uses the budget up exactly at the window’s end.">
        <Board />
      </Section>
      <Latency />
    </>
  );
}
