// Bundles the page into one script and one style, named after their content, and writes the HTML that loads them, and the
// licences of what went into it.
// Usage: node build.mjs DIRECTORY

import { build } from "esbuild";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

const out = process.argv[2];
if (!out) throw new Error("Say into which directory to build.");

await rm(out, { recursive: true, force: true });
await mkdir(join(out, "assets"), { recursive: true });

const { metafile } = await build({
  entryPoints: ["src/main.tsx", "src/styles/page.css"],
  outdir: join(out, "assets"),
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none", // they all stand in licenses.txt
  // For browsers this one decodes with innerHTML, which Trusted Types forbid here.
  alias: { "decode-named-character-reference": "./node_modules/decode-named-character-reference/index.js" },
  metafile: true,
  logLevel: "warning",
});

const built = Object.keys(metafile.outputs).map((file) => basename(file));
const script = built.find((name) => name.endsWith(".js"));
const style = built.find((name) => name.endsWith(".css"));
await cp("src/favicon.svg", join(out, "assets", "favicon.svg"));
const html = await readFile("src/index.html", "utf8");
await writeFile(join(out, "index.html"), html.replace("%SCRIPT%", script).replace("%STYLE%", style));

const folders = Object.keys(metafile.inputs).map((file) => /^node_modules\/(@[^/]+\/)?[^/]+/.exec(file)?.[0]);
const licences = [];
for (const folder of [...new Set(folders.filter(Boolean))].sort()) {
  const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? await readFile(join(folder, file), "utf8") : "";
  licences.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
}
await writeFile(join(out, "licenses.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
