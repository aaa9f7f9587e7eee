// Texts as they are shown, and the nodes that hold them. Nodes are made of text, never of HTML.

// Text from documents and answers with control characters shown, as in Python's `visible`.
const visible = (text) =>
  text
    .replace(/[\u00ad\u200b\u2060\ufeff]/g, "")
    .replace(/\r\n?|[\x0b\x0c\x85\u2028\u2029]/g, "\n")
    .replace(/[\x00-\x08\x0e-\x1f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu,
      (character) => `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
const brief = (text, length = 80) => {
  const line = visible(text).trim().replace(/\s+/g, " ");
  return line.length > length ? `${line.slice(0, length).replace(/(?<=\S)(\s+\S*|.)$/su, "")}…` : line; // between words
};
const capital = (text) => text.replace(/^./u, (first) => first.toUpperCase());

const filled = (element, ...children) => {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
};
const h = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  return filled(element, children);
};
const button = (attributes, ...children) => h("button", { type: "button", ...attributes }, ...children);

// The blocks of a text, as Python read them (display/rendered.py), as nodes. Leaves are places in its code `points`.
const TAGS = new Set("p ul ol li blockquote thead tbody tr th td strong em s code pre span hr".split(" "));
const SAFE = /^(https?:\/\/|mailto:)/i;
const ELSEWHERE = { target: "_blank", rel: "noopener noreferrer nofollow" };
class Painter {
  // `ranges` ({from, to, ...attributes of a mark}) are marked; with `within`, only what is in it is shown, and the head of its table.
  constructor(points, { ranges = [], within = [0, Infinity], cite = () => null, words = (_, nodes) => nodes } = {}) {
    const sorted = ranges.filter(({ from, to }) => from < to).sort((a, b) => a.from - b.from || b.to - a.to);
    Object.assign(this, { points, within, cite, words, ranges: sorted.filter(({ from }, at) => !sorted.slice(0, at).some(({ to }) => from < to)) });
  }

  of(blocks) {
    return blocks.map((block) => this.node(block)).filter(Boolean);
  }

  node(node) {
    const [tag, second] = node;
    if (typeof tag === "number") return this.leaf(node);
    if (tag === "cite") return this.cite(second);
    if (tag === "thead" && this.within[1] !== Infinity) return new Painter(this.points).node(node);
    const attributes = second && !Array.isArray(second) ? second : {};
    const children = node.slice(attributes === second ? 2 : 1).map((child) => this.node(child)).flat(Infinity).filter(Boolean);
    const isKept = children.length || tag === "hr" || (tag === "td" && this.within[1] === Infinity);
    if (!isKept || (tag === "table" && children.every(({ localName }) => localName === "thead"))) return null;
    if (tag === "a" && SAFE.test(attributes.href)) return h("a", { href: attributes.href, ...ELSEWHERE }, children);
    if (tag === "table") return h("div", { class: "scroll", tabindex: "0" }, h("table", {}, children));
    if (/^h[1-6]$/.test(tag)) return h("p", { class: "heading" }, children);
    if (tag === "ol") return h("ol", { start: Number.isInteger(attributes.start) && attributes.start }, children);
    return TAGS.has(tag) ? h(tag, {}, children) : h("div", { class: "plain" }, children);
  }

  leaf([start, end, sentence, shown]) {
    const [from, to] = [Math.max(start, this.within[0]), Math.min(end, this.within[1])];
    if (from >= to && start !== end) return null;
    return this.words(sentence, shown != null ? [visible(shown)] : this.marked(from, to));
  }

  // The characters of a place, those of ranges marked.
  marked(from, to) {
    const parts = [];
    const text = (start, end) => visible(this.points.slice(start, end).join(""));
    for (const { from: first, to: last, ...attributes } of this.ranges) {
      const [start, end] = [Math.max(from, first), Math.min(to, last)];
      if (start >= end) continue;
      if (start > from) parts.push(text(from, start));
      parts.push(h("mark", attributes, text(start, end)));
      from = end;
    }
    return [...parts, from < to && text(from, to)].filter(Boolean);
  }
}
