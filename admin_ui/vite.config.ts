/** Builds the console into the gateway's package, with a digest of what it was built from. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const ROOT = import.meta.dirname;
const OUT = join(ROOT, "../gateway/http/console/dist");
/** What decides the build. tests/console/test_dist.py reads the same list and makes the same digest. */
const SOURCES = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];

/** Types leave nothing in the build, and change with the API. */
const TYPES = join(ROOT, "src/api/schema.ts");

function filesUnder(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? filesUnder(join(path, entry.name)) : [join(path, entry.name)],
    );
  } catch {
    return [path];
  }
}

function sourceDigest(): string {
  const files = SOURCES.flatMap((name) => filesUnder(join(ROOT, name))).filter((file) => file !== TYPES);
  const lines = files
    .map((file) => `${createHash("sha256").update(readFileSync(file)).digest("hex")}  ${relative(ROOT, file).split(sep).join("/")}\n`)
    .toSorted((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1));
  return createHash("sha256").update(lines.join("")).digest("hex");
}

function stamp(): Plugin {
  return {
    name: "source-digest",
    closeBundle() {
      writeFileSync(join(OUT, "sources.sha256"), `${sourceDigest()}\n`);
    },
  };
}

export default defineConfig({
  base: "/console/",
  plugins: [react(), tailwind(), stamp()],
  resolve: { alias: { "@": join(ROOT, "src") } },
  build: { outDir: OUT, emptyOutDir: true, sourcemap: false, target: "es2022", modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
  server: { proxy: { "/v1": process.env["TOLLWAY_URL"] ?? "http://127.0.0.1:8080" } },
  test: { environment: "happy-dom", include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
});
