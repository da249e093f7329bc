/** Light or dark, as chosen here or else as the system has it; public/theme.js sets it before the first paint. */
import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";
const KEY = "tollway.theme";
const watchers = new Set<() => void>();

export const currentTheme = (): Theme => (document.documentElement.dataset["theme"] === "dark" ? "dark" : "light");

export function setTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A browser that keeps nothing still has the theme until the page is left.
  }
  for (const tell of watchers) tell();
}

export function useTheme(): Theme {
  return useSyncExternalStore((tell) => {
    watchers.add(tell);
    return () => watchers.delete(tell);
  }, currentTheme);
}
