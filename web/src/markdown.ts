/**
 * Markdown as elements. No HTML text is ever made: the answer is parsed to a tree, the tree is sanitised, and its nodes
 * become elements. So nothing that somebody wrote can become markup; Trusted Types hold the page to that.
 */

import type { Element, ElementContent, Root } from "hast";
import { defaultSchema, sanitize } from "hast-util-sanitize";
import type { Schema } from "hast-util-sanitize";
import { toJsxRuntime } from "hast-util-to-jsx-runtime";
import { common, createLowlight } from "lowlight";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { toHast } from "mdast-util-to-hast";
import { gfm } from "micromark-extension-gfm";
import type { VNode } from "preact";
import { Fragment, jsx, jsxs } from "preact/jsx-runtime";
import { visible } from "./text";

const lowlight = createLowlight(common);
const HIGHLIGHTED_MAX = 20_000;

/** GitHub's rules, without pictures (which would be loaded from elsewhere) and without ids. */
const SCHEMA: Schema = {
  ...defaultSchema,
  tagNames: (defaultSchema.tagNames ?? []).filter((name) => !["img", "picture", "source", "input"].includes(name)),
  protocols: { href: ["http", "https", "mailto"] },
  attributes: { ...defaultSchema.attributes, a: ["href"], "*": ["align", "start"], code: [["className", /^language-./]] },
};

function* elements(node: Root | Element): Generator<Element> {
  for (const child of node.children) {
    if (child.type === "element") {
      yield child;
      yield* elements(child);
    }
  }
}

const textOf = (node: ElementContent): string => {
  if (node.type === "text") return node.value;
  return node.type === "element" ? node.children.map(textOf).join("") : "";
};

/** Colour a block of code, and let wide tables and blocks be scrolled with the keyboard. */
function finish(tree: Root): void {
  for (const element of [...elements(tree)]) {
    if (element.tagName === "a") element.properties = { ...element.properties, target: "_blank", rel: ["noopener", "noreferrer"] };
    if (element.tagName === "pre") finishCode(element);
    const heading = /^h([1-6])$/.exec(element.tagName);
    if (heading) element.tagName = `h${Math.min(6, Number(heading[1]) + 2)}`; // below the page's own headings
  }
}

function finishCode(block: Element): void {
  const code = block.children[0];
  const text = textOf(block);
  const language = code?.type === "element" ? String(code.properties.className ?? "").replace("language-", "") : "";
  block.properties = { tabIndex: 0, dataLanguage: language || null, dir: "ltr" };
  if (code?.type === "element" && language && text.length < HIGHLIGHTED_MAX && lowlight.registered(language)) {
    code.children = lowlight.highlight(language, text).children as ElementContent[];
  }
}

/** Pictures become links to them, for nothing is loaded from elsewhere; boxes to tick become signs. */
function simplify(tree: Root): void {
  for (const element of [...elements(tree)]) {
    if (element.tagName === "input") {
      element.tagName = "span";
      element.children = [{ type: "text", value: element.properties.checked ? "\u2611" : "\u2610" }];
      element.properties = {};
    }
    if (element.tagName !== "img") continue;
    const { src, alt } = element.properties;
    element.tagName = "a";
    element.properties = { href: src };
    element.children = [{ type: "text", value: `\u{1f5bc} ${String(alt || src || "picture")}` }];
  }
}

/** A text as elements; null where it can't be read as Markdown, for no answer may be lost to a parser's mistake. */
export function markdown(text: string): VNode | null {
  try {
    return rendered(text);
  } catch (error) {
    console.warn("This text is shown as it is:", error);
    return null;
  }
}

function rendered(text: string): VNode {
  const tree = fromMarkdown(visible(text), { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  const html = toHast(tree, { handlers: { html: (_state, node: { value: string }) => ({ type: "text", value: node.value }) } });
  const root: Root = html.type === "root" ? html : { type: "root", children: [html as ElementContent] };
  simplify(root);
  const clean = sanitize(root, SCHEMA) as Root;
  finish(clean);
  return toJsxRuntime(clean, { Fragment, jsx, jsxs, elementAttributeNameCase: "html" } as never) as VNode;
}
