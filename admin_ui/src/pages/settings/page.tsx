/** Who may operate this installation: users, invites and admin keys. */
import { useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { may } from "@/api/session";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { AdminKeys } from "./admin-keys";
import { SingleSignOn } from "./sso";
import { Users } from "./users";
import { You } from "./you";

const TABS = [
  ["users", "Users", "GET /v1/organization/users"],
  ["keys", "Admin keys", "GET /v1/organization/admin_api_keys"],
  ["sso", "Single sign-on", "GET /v1/organization/identity_provider"],
  ["you", "Your account", "GET /v1/organization/me"],
] as const;

const VIEWS: Record<string, ComponentType> = { users: Users, keys: AdminKeys, sso: SingleSignOn, you: You };

export function Settings() {
  const search = useSearch({ from: "/settings" });
  const tabs = TABS.filter(([, , needs]) => may(needs));
  const tab = search["tab"] ?? tabs[0]?.[0] ?? "you";
  const View = VIEWS[tab] ?? You;
  return (
    <Page title="Settings">
      <Tabs label="Settings" tabs={tabs} current={tab} />
      <View />
    </Page>
  );
}
