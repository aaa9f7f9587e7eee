// <attribot-answer>: an answer with what made the model say each of its sentences.
//
// `data`, a property or an attribute with JSON, is a summary (docs/schemas/summary.json), or an object
// with `summary` and, optionally, `question`, `answer` (its whole text), `documents` (texts by index),
// `quotes` (by a source's id its places [document, start, end]), and `evidence` (for each sentence the
// sources above the noise, with a score for each of its `tokens`). Positions count code points.
// Attributes: `theme` (light or dark; else that of the page around it), `no-answer` (evidence only),
// `stopped` (the last sentence may be unfinished), `open-at` (an address with {sentence}, {number} or
// {index}, that shows a document where it is cited), `answers-without` (the page listens to
// `attribot-without` and calls `event.detail.respond` with the other answer, or a promise of it).
// Colours: --attribot-paper, -panel, -ink, -accent, -warn. Texts become text nodes, never HTML.

const filled = (element, children) => {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return element;
};

const h = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  return filled(element, children);
};

const HOVER = 250; // milliseconds until a card springs up under the pointer
const GLUE = "\u00a0"; // keeps numbers and chips on the line of the last word
const pill = (number) => h("span", { class: `pill c${(number - 1) % COLOURS}`, role: "img", "aria-label": `source ${number}`, "data-number": number }, String(number));

// The words of both, marked as taken away or added.
const difference = (before, after) => {
  const [a, b] = [before, after].map((text) => text.split(/(?<=\s)/).slice(0, 600));
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  const same = (i, j) => a[i].trim() === b[j].trim();
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i][j] = same(i, j) ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const parts = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && same(i, j)) parts.push([null, (j++, a[i++])]);
    else if (j >= b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) parts.push(["del", a[i++]]);
    else parts.push(["ins", b[j++]]);
  }
  return parts.map(([tag, word]) => (tag ? h(tag, {}, visible(word)) : visible(word)));
};

const style = () => {
  style.sheet ??= new CSSStyleSheet();
  if (!style.sheet.cssRules.length) style.sheet.replaceSync(STYLE);
  return style.sheet;
};

class AttribotAnswer extends HTMLElement {
  static observedAttributes = ["data", "stopped", "no-answer", "open-at", "answers-without"];
  static shown = new Set();

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [style()];
    this.told = h("p", { class: "hidden", role: "status" }); // stays, so that what changes is told once
    this.shadowRoot.append(this.told);
    this.sizes = new ResizeObserver(() => this.place());
    this.selecting = () => this.narrow();
    this.escaping = (event) => event.key === "Escape" && this.narrowed && !event.composedPath().includes(this) && this.close();
  }

  get data() {
    return this.content;
  }

  set data(data) {
    this.content = data;
    if (this.isConnected) this.render();
  }

  connectedCallback() {
    for (const other of AttribotAnswer.shown) other.close(); // what was opened belongs to the last question
    AttribotAnswer.shown.add(this);
    this.sizes.observe(this);
    document.addEventListener("selectionchange", this.selecting);
    document.addEventListener("keydown", this.escaping);
    this.render();
  }

  disconnectedCallback() {
    AttribotAnswer.shown.delete(this);
    this.sizes.disconnect();
    document.removeEventListener("selectionchange", this.selecting);
    document.removeEventListener("keydown", this.escaping);
  }

  attributeChangedCallback(name, before, after) {
    if (name === "data" && after) this.content = JSON.parse(after);
    if (this.isConnected && before !== after) this.render();
  }

  render() {
    if (!this.content) return;
    this.unglance();
    const receipts = (this.receipts = new Receipts(this.content, this.hasAttribute("stopped")));
    this.pinned = this.anchor = this.start = this.back = null;
    this.open = this.narrowed = false;
    this.spans = [];
    this.panel = h("aside", { class: "panel", "aria-label": "Where this comes from", touchstart: (event) => this.touched(event), touchend: (event) => this.swiped(event) });
    this.peek = h("div", { class: "peek", popover: "manual", "aria-hidden": "true" });
    const noAnswer = this.hasAttribute("no-answer");
    this.main = h("div", { class: "main" },
      receipts.question && h("h2", { class: "question", dir: "auto" }, visible(receipts.question)),
      this.header(),
      h("div", { class: "answer", dir: "auto", hidden: noAnswer }, this.prose()),
      receipts.summary.calls?.length && !receipts.sentences.length && receipts.summary.calls.map((call) => h("attribot-answer", { data: JSON.stringify(call) })),
      receipts.judged.length > 0 && this.legend());
    for (const old of [...this.shadowRoot.children]) if (old !== this.told) old.remove();
    this.frame = h("div", { class: "frame", keydown: (event) => this.pressed(event) }, this.main);
    this.shadowRoot.prepend(this.frame, this.peek);
    this.tell(this.main.querySelector(".counts")?.innerText ?? "");
    if (receipts.judged.length) this.overview();
    this.place();
  }

  tell(text) {
    const line = text.replace(/\s+/g, " ").trim();
    if (this.told.textContent !== line) this.told.textContent = line;
  }

  // The counts, each of which leads through its sentences.
  header() {
    const { judged, summary } = this.receipts;
    if (summary.status === "pending") return h("p", { class: "counts waiting" }, "Checking sources…");
    if (summary.error) return h("p", { class: "counts" }, `The sources could not be checked: ${visible(summary.error.message)}`);
    if (!judged.length) return null;
    const of = (state) => judged.filter((sentence) => sentence.state === state);
    const counts = Object.keys(STATES).filter((state) => of(state).length || state === "document").map((state) => {
      const sentences = of(state);
      const words = state === "document" ? `${sentences.length} of ${plural(judged.length, "sentence")}` : `${sentences.length}`;
      const text = `${words} ${STATES[state].counted}`;
      return sentences.length ? h("button", { type: "button", class: `count ${state}`, click: () => this.walk(sentences) }, text) : h("span", {}, text);
    });
    return h("div", { class: "counts" }, h("span", { class: "strip", "aria-hidden": "true" }, judged.map((sentence) =>
      h("i", { class: sentence.state, title: `Sentence ${sentence.number}: ${this.receipts.chip(sentence) || STATES[sentence.state].counted}`, click: () => this.pin(sentence, { focus: true }) }))), counts,
      summary.status === "partial" && h("span", {}, "Not everything could be checked."));
  }

  prose() {
    const { sentences, points, answer } = this.receipts;
    const parts = [];
    let end = 0;
    for (const sentence of sentences) {
      if (sentence.placed && sentence.start > end) parts.push(visible(points.slice(end, sentence.start).join("")));
      end = Math.max(end, sentence.end);
      parts.push(this.span(sentence), visible(sentence.space || (sentence.placed ? "" : " ")));
    }
    if (answer !== null && (!sentences.length || sentences.at(-1).placed)) parts.push(visible(points.slice(end).join("")));
    return parts;
  }

  span(sentence) {
    if (sentence.state === "plain" || !sentence.words) return visible(sentence.words);
    const joint = { either: " or ", together: " + " }[sentence.relation] || " ";
    const pills = sentence.numbers.flatMap((number, index) => [
      index ? h("span", { class: joint === " + " ? "joint" : "hidden" }, joint) : null, index && joint !== " + " ? GLUE : null, pill(number)]);
    const chip = this.receipts.chip(sentence);
    const long = chip?.length > 20;
    const span = h("span", {
      class: `sentence ${sentence.state}`, role: "button", tabindex: "0", "aria-expanded": "false",
      // What a press focuses takes no selection that begins at its first letter.
      pointerdown: () => (this.unglance(), span.removeAttribute("tabindex"), setTimeout(() => span.setAttribute("tabindex", "0"))),
      click: (event) => !this.selection() && (span.classList.add("pressed"), this.pin(sentence, { number: event.target.closest(".pill")?.dataset.number, focus: true })),
      pointerenter: (event) => event.pointerType === "mouse" && (this.soon = setTimeout(() => this.glance(sentence), HOVER)),
      pointerleave: () => this.unglance(), focus: () => !this.quiet && span.matches(":focus-visible") && this.glance(sentence), blur: () => (this.unglance(), span.classList.remove("pressed")),
    }, h("span", { class: "words" }, this.words(sentence)), pills.length > 0 && [GLUE, pills], chip && [long ? " " : GLUE, h("span", { class: `chip ${sentence.state}${long ? " long" : ""}` }, chip)]);
    this.spans[sentence.index] = span;
    return span;
  }

  // A sentence's text with the values to check underlined.
  words(sentence) {
    const points = Array.from(sentence.words);
    const parts = [];
    let end = 0;
    for (const check of [...sentence.checks].sort((a, b) => a.start - b.start)) {
      const [from, to] = [check.start - sentence.start, check.end - sentence.start].map((place) => Math.max(end, Math.min(place, points.length)));
      parts.push(visible(points.slice(end, from).join("")), to > from && h("span", { class: "value" }, visible(points.slice(from, to).join(""))));
      end = to;
    }
    return [...parts, visible(points.slice(end).join(""))];
  }

  legend() {
    const { summary, judged } = this.receipts;
    const states = Object.keys(STATES).filter((state) => judged.some((sentence) => sentence.state === state));
    const about = [summary.method && `Method: ${visible(summary.method).replaceAll("_", "-")}.`, summary.model && `Model: ${visible(summary.model)}.`,
      summary.seconds != null && `${summary.seconds.toFixed(1)} s.`, summary.retokenized && "Made from text, so the tokens need not be the model’s own.",
      summary.agreement != null && `Approximate and exact scores agree to ${summary.agreement.toFixed(2)}.`].filter(Boolean).join(" ");
    return [
      h("details", { class: "legend" }, h("summary", {}, "How to read this"),
        h("p", {}, "Each sentence shows what made the model write it. For every kind of sentence: that is no proof that it is right."),
        h("p", {}, "Choose a sentence to see its cause, or select some of its words. Arrow keys go to the next sentence, Escape closes."),
        h("dl", {}, states.map((state) => [h("dt", {}, STATES[state].counted), h("dd", {}, STATES[state].means)]))),
      h("details", { class: "legend about" }, h("summary", {}, "For experts"),
        (summary.notes || []).length > 0 && h("ul", {}, summary.notes.map((note) => h("li", {}, visible(note)))), h("p", {}, about))];
  }

  // Nothing is chosen: what to look at, and the documents.
  overview() {
    const { judged, documents } = this.receipts;
    const rank = (sentence) => Object.keys(STATES).indexOf(sentence.state);
    const attention = judged.filter((sentence) => STATES[sentence.state].mind).sort((a, b) => rank(a) - rank(b));
    filled(this.panel, (this.start ??= [ // kept, so that what was opened in it stays open
      attention.length > 0 && h("h2", {}, "Look at these"),
      h("ul", { class: "worklist" }, attention.map((sentence) => h("li", {}, h("button", { type: "button", class: sentence.state, click: () => this.pin(sentence, { focus: true }) },
        h("span", { dir: "auto" }, brief(sentence.words)), h("span", { class: `chip ${sentence.state}` }, this.receipts.chip(sentence)), h("small", {}, sentence.state === "check" ? this.receipts.compared(sentence) : this.receipts.verdict(sentence)))))),
      h("p", {}, h("b", {}, "Choose a sentence"), " to see what made the model write it."),
      h("details", { open: this.clientWidth >= COLUMN }, h("summary", { class: "heading" }, plural(documents.size, "document")),
        [...documents.values()].map((listed) => this.entry(listed)),
        this.receipts.summary.omitted?.documents > 0 && h("p", {}, `${plural(this.receipts.summary.omitted.documents, "more document")}.`))]));
    this.back = null;
  }

  // A document in the list, which opens where its text is known.
  entry(listed) {
    const cited = this.receipts.sentences.filter((sentence) => sentence.documents.includes(listed.index));
    const checked = cited.filter(({ state }) => state === "check").length;
    const told = listed.located === false ? "not found in what the model read" : cited.length ? `behind ${plural(cited.length, "sentence")}${checked ? `, ${checked} to check` : ""}` : "not used";
    const title = [listed.number && pill(listed.number), " ", h("span", { dir: "auto" }, this.receipts.name(listed.index)), " ", h("small", {}, told)];
    if (this.receipts.texts[listed.index] == null) return h("p", { class: "entry" }, title);
    const places = this.receipts.cited([...new Set(cited.flatMap(({ sources }) => sources))]).find(([index]) => index === listed.index)?.[1] || [];
    return h("button", { type: "button", class: "entry", click: (event) => this.show(listed.index, places, event.currentTarget) }, title);
  }

  // A whole document in place of the panel's contents, which come back to `opener`; a sentence's from its first place.
  show(index, places, opener, sentence) {
    const { number, metadata } = this.receipts.documents.get(index) || {};
    const [name, before, top] = [this.receipts.name(index), [...this.panel.childNodes], this.panel.scrollTop];
    const known = Object.entries(metadata || {}).map(([key, value]) => [key, brief(String(value), 200)]).filter(([, value]) => value !== name);
    const bar = h("div", { class: "controls" }, h("button", { type: "button", click: () => this.back() }, `← Back to the ${sentence ? "passages" : "documents"}`), sentence && this.closer());
    const text = h("div", { class: `whole text c${((number || 1) - 1) % COLOURS}`, dir: "auto", tabindex: "0", role: "region", "aria-label": name }, this.marked(index, places, 0, Infinity, sentence));
    filled(this.panel, [bar, h("h2", {}, number && pill(number), " ", h("span", { dir: "auto" }, name)),
      known.length > 0 && h("p", { class: "metadata" }, known.map(([key, value]) => `${brief(key)}: ${value}`).join(" · ")), text]);
    this.back = () => {
      this.back = null;
      this.panel.replaceChildren(...before);
      this.panel.scrollTop = top;
      opener.focus();
    };
    text.focus({ preventScroll: true });
    this.panel.scrollTop = 0;
    const first = (sentence && text.querySelector("mark")) || bar;
    if (first !== bar) this.panel.scrollTop = first.getBoundingClientRect().top - bar.getBoundingClientRect().bottom;
    first.scrollIntoView({ block: "nearest" });
  }

  // The selected range of the answer, null without one.
  selection() {
    const selection = document.getSelection();
    const [chosen] = selection.getComposedRanges?.({ shadowRoots: [this.shadowRoot] }) ?? [];
    this.caret = chosen?.startContainer;
    if (!chosen || chosen.collapsed || !this.main.contains(chosen.startContainer)) return null;
    const range = document.createRange();
    range.setStart(chosen.startContainer, chosen.startOffset);
    range.setEnd(chosen.endContainer, chosen.endOffset);
    return range;
  }

  // Shows a sentence's card where it stays, whatever the pointer does then.
  pin(sentence, { number, focus } = {}) {
    this.unglance();
    this.mark(sentence.index);
    this.pinned = sentence;
    this.narrowed = false;
    this.anchor = this.spans[sentence.index];
    this.fill([this.controls(sentence), h("h2", {}, this.heading(sentence)), this.hasAttribute("no-answer") && h("p", { class: "said", dir: "auto" }, brief(sentence.words, 300)), this.card(sentence)]);
    this.tell(`Sentence ${sentence.number}. ${this.receipts.told(sentence)}`);
    const span = this.spans[sentence.index];
    if (focus) this.focusOn(span);
    span.scrollIntoView({ block: this.mode === "sheet" ? "start" : "nearest" });
    const block = number && this.panel.querySelector(`.document[data-number="${number}"]`);
    if (block) block.classList.add("chosen");
    const marks = [...(block || this.panel).querySelectorAll("mark")];
    const [best] = this.receipts.ranked(sentence).flatMap((id) => marks.filter((mark) => mark.dataset.source === String(id)));
    const lit = best || marks[0];
    (lit || this.panel.querySelector("h2")).scrollIntoView({ block: "nearest" });
  }

  fill(contents) {
    filled(this.panel, contents);
    this.panel.scrollTop = 0;
    this.open = true;
    this.back = null;
    this.place();
  }

  mark(index) {
    this.spans.forEach((span, each) => span?.setAttribute("aria-expanded", String(each === index)));
  }

  close() {
    if (!this.open) return;
    const span = this.shadowRoot.activeElement && this.anchor;
    if (this.narrowed) document.getSelection().removeAllRanges();
    this.pinned = null;
    this.open = this.narrowed = false;
    this.mark(-1);
    this.overview();
    this.place();
    if (span) this.focusOn(span);
  }

  // Without a glance at what is shown, or was closed.
  focusOn(span) {
    this.quiet = true;
    span.setAttribute("tabindex", "0");
    span.focus({ preventScroll: true });
    this.quiet = false;
    this.unglance();
  }

  walk(sentences) {
    const at = sentences.findIndex((sentence) => sentence.index > (this.pinned?.index ?? -1));
    this.pin(sentences[Math.max(at, 0)], { focus: true });
  }

  // To the next sentence; the focus stays on the button that was used, if one was.
  step(by, button) {
    const { judged } = this.receipts;
    const next = judged[judged.indexOf(this.pinned) + by];
    if (!next) return;
    this.pin(next, { focus: !button });
    if (button) this.panel.querySelector(`[aria-label="${button}"]`).focus({ preventScroll: true });
  }

  closer() {
    return h("button", { type: "button", class: "closer", "aria-label": "Close", click: () => this.close() }, "✕");
  }

  controls(sentence) {
    const count = this.receipts.judged.length;
    const to = (label, sign, by, end) => h("button", { type: "button", "aria-label": label, "aria-disabled": sentence.number === end && "true", click: () => this.step(by, label) }, sign);
    return h("div", { class: "controls" }, to("Previous sentence", "‹", -1, 1), h("span", {}, `Sentence ${sentence.number} of ${count}`), to("Next sentence", "›", 1, count), this.closer());
  }

  // The verdict, in which an earlier sentence is a button.
  heading(sentence) {
    const [verdict, earlier] = [this.receipts.verdict(sentence), this.receipts.earlier(sentence)];
    return earlier ? verdict.split(/(sentence \d+)/).map((part, index) => (index === 1 ? this.to(earlier, "to") : part)) : verdict;
  }

  to(sentence, name, words = "") {
    return h("button", { type: "button", class: name, click: () => this.pin(sentence, { focus: true }) }, `${words}sentence ${sentence.number}`);
  }

  card(sentence) {
    const [meaning, missing, earlier] = [this.receipts.meaning(sentence), this.receipts.missing(sentence), this.receipts.earlier(sentence)];
    return [
      missing && h("p", { class: "missing" }, "Not in the marked text: ", h("span", { dir: "auto" }, visible(missing))),
      sentence.state === "check" && sentence.checks.map((check) => h("p", { class: "alert" }, this.receipts.comparison(check))),
      earlier && [h("h3", {}, `Sentence ${earlier.number}`), h("blockquote", { class: "text", dir: "auto" }, h("mark", {}, this.shared(earlier.words, sentence))),
        h("div", { class: "actions" }, this.to(earlier, null, "Go to "))],
      this.receipts.cited(sentence.sources).map(([index, places]) => this.block(sentence, index, places)),
      sentence.documents.length > 0 && !sentence.sources.some((id) => this.receipts.places(id).length) && sentence.documents.map((index) => this.block(sentence, index, [])),
      ["document", "check"].includes(sentence.state) && this.strength(sentence, "this sentence"), meaning && h("p", {}, meaning), this.experts(sentence)];
  }

  strength(sentence, on) {
    const { name, said } = LEVELS[this.receipts.level(sentence)] || {};
    const it = sentence.relation === "either" ? "any of it" : sentence.sources.length > 1 ? "them" : "it";
    return name && h("p", { class: "level" }, `Influence on ${on}: `, h("b", {}, name), ` (without ${it}, ${said})`);
  }

  // A document of a card: its name, what is cited with its neighbours, and what can be done.
  block(sentence, index, places) {
    const { receipts } = this;
    const listed = receipts.documents.get(index) || {};
    const where = this.where(index, places);
    const others = receipts.judged.filter((other) => other !== sentence && other.state !== "cut" && places.some(({ id }) => other.sources.includes(id)));
    const href = this.address(sentence, listed, index);
    const quotes = h("div", { class: "quotes" }, this.quoted(places, index, sentence));
    const outline = (on) => () => this.spans.forEach((span, each) => span?.classList.toggle("caused", on && places.some(({ id }) => receipts.sentences[each].sources.includes(id))));
    quotes.addEventListener("pointerenter", outline(true));
    quotes.addEventListener("pointerleave", outline(false));
    return h("section", { class: `document c${((listed.number || 1) - 1) % COLOURS}`, "data-number": listed.number ?? "" },
      h("h3", {}, listed.number && pill(listed.number), " ", h("span", { dir: "auto" }, receipts.name(index)), where && [" ", h("small", { dir: "auto" }, where)]),
      quotes,
      others.length > 0 && h("p", { class: "also" }, "Also behind ", others.slice(0, 8).map((other) => this.to(other, "to"))),
      h("div", { class: "actions" },
        href && h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, this.hasAttribute("open-at") ? "Open at this place" : "Open the document"),
        !this.hasAttribute("open-at") && receipts.texts[index] != null && places.length > 0 && h("button", { type: "button", click: (event) => this.show(index, places, event.currentTarget, sentence) }, "Open at this place"),
        this.hasAttribute("answers-without") && h("button", { type: "button", click: (event) => this.leaveOut(event.currentTarget, listed, index) }, `Answer without ${receipts.name(index)}`)));
  }

  // The page, or the heading before the first quote.
  where(index, places) {
    const { page_label: page, section } = this.receipts.documents.get(index)?.metadata || {};
    if (page != null) return `page ${brief(String(page))}`;
    if (section) return brief(String(section));
    const first = Math.min(...places.map((place) => place.start ?? 0));
    const headings = Array.from(this.receipts.texts[index] || "").slice(0, first + 1).join("").match(/^#{1,6} .+$/gm);
    return headings ? brief(headings.at(-1).replace(/^#+ /, "")) : "";
  }

  address(sentence, { number, url: elsewhere }, index) {
    const values = { sentence: sentence.index, number, index };
    const url = this.getAttribute("open-at")?.replace(/\{(sentence|number|index)\}/g, (_, name) => values[name]) || elsewhere || "";
    return /^(https?:\/\/|\/(?!\/)|#)/.test(url) ? url : "";
  }

  // Quotes with their neighbours, `around` characters on each side; near ones are joined.
  quoted(places, index, sentence, around = AROUND) {
    const located = places.filter((place) => place.text == null).sort((a, b) => a.start - b.start);
    const groups = [];
    for (const place of located) {
      const last = groups.at(-1);
      if (last && place.start - last.at(-1).end < AROUND) last.push(place);
      else groups.push([place]);
    }
    const quote = (...parts) => h("blockquote", { class: "text", dir: "auto" }, parts);
    return [
      ...groups.map((group) => quote(this.marked(index, group, group[0].start - around, group.at(-1).end + around, sentence))),
      ...places.filter((place) => place.text != null).map((place) => quote(h("mark", {}, this.shared(place.text, sentence))))];
  }

  // Characters of a document with what is cited marked; cut between words, and at empty lines.
  marked(index, places, from, to, sentence) {
    const points = Array.from(this.receipts.texts[index] || "");
    const between = (start, end) => points.slice(Math.max(0, start), end).join("");
    const parts = [];
    let end = Math.max(0, from);
    for (const place of [...places].sort((a, b) => a.start - b.start)) {
      if (place.end <= end) continue;
      const quote = (to !== Infinity && place.start >= end && place.plain) || between(Math.max(end, place.start), place.end);
      parts.push(between(end, place.start), h("mark", { "data-source": place.id }, this.headed(quote, index, sentence)));
      end = place.end;
    }
    parts.push(between(end, to));
    const shown = () => parts.map((part) => (typeof part === "string" ? this.headed(part, index) : part));
    if (to === Infinity) return shown();
    const before = parts[0].split(/\n\s*\n/).at(-1);
    const after = parts.at(-1).split(/\n\s*\n/)[0];
    parts[0] = before === parts[0] && from > 0 ? `… ${before.replace(/^\S*\s+/, "")}` : before.trimStart();
    parts[parts.length - 1] = after === parts.at(-1) && to < points.length ? `${after.replace(/\s+\S*$/, "")} …` : after.trimEnd();
    return shown();
  }

  // A quote in which the headings of a Markdown file are headings.
  headed(text, index, sentence) {
    const parts = this.receipts.isMarkdown(index) ? text.split(HEADING) : [text];
    return parts.map((part, at) => (at % 2 ? h("b", {}, visible(part)) : this.shared(part, sentence)));
  }

  // A quote in which words of the sentence are bold.
  shared(text, sentence) {
    if (!sentence) return visible(text);
    const content = new Set(contentOf(sentence.words).map(({ key }) => key));
    const bold = (part) => {
      const kept = wordsOf(part).filter(({ key }) => content.has(key));
      return [...kept.flatMap(({ start, end, text: word }, at) => [visible(part.slice(kept[at - 1]?.end ?? 0, start)), h("b", {}, visible(word))]), visible(part.slice(kept.at(-1)?.end ?? 0))];
    };
    const differing = sentence.checks.map((check) => check.source_value).find((value) => value && text.includes(value));
    if (!differing) return bold(text);
    const at = text.indexOf(differing);
    return [bold(text.slice(0, at)), h("span", { class: "value" }, visible(differing)), bold(text.slice(at + differing.length))];
  }

  experts(sentence, evidence = sentence.evidence) {
    const { receipts } = this;
    const unit = receipts.inNats ? "nats" : visible(receipts.summary.unit || "");
    const text = ({ source }) => receipts.places(source).slice(0, 1).map((place) => receipts.text(place)).join("");
    const above = evidence.filter((row) => !receipts.inNats || row.score >= NOISE || (row.score <= -NOISE && !/^#{1,6} .*$/.test(text(row))));
    const exact = above.filter((row) => sentence.sources?.includes(row.source)).every((row) => row.exact);
    const best = evidence.length ? Math.max(...evidence.map((row) => row.score)) : null;
    const lines = [
      sentence.effect != null && receipts.inNats && `Cited sources: ${nats(sentence.effect, exact)}${above.length && exact ? ", exact" : ""}. Without them the sentence is ${times(sentence.effect)}.`,
      sentence.kept != null && `With only the cited text, ${Math.round(100 * sentence.kept)} % of the effect of all documents remains.`,
      sentence.reliance != null && receipts.inNats && `All documents: ${nats(sentence.reliance)}.`,
      best != null && !above.length && `Strongest source: ${nats(best)}, within the noise (below ${NOISE}).`,
      evidence.length === 0 && receipts.evidence.length > 0 && `No source is above the noise (${NOISE} nat).`];
    return h("details", { class: "experts" }, h("summary", {}, "For experts"), lines.filter(Boolean).map((line) => h("p", {}, line)),
      above.length > 0 && h("table", {}, h("caption", {}, receipts.inNats ? `Scores in nats; a whole bar is ${FULL}` : `Scores in ${unit}`), above.map((row) => this.bar(row, text(row)))));
  }

  bar({ score, exact }, text) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const rect = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
    Object.entries({ viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }).forEach(([name, value]) => svg.setAttribute(name, value));
    rect.setAttribute("width", Math.min(100, (100 * Math.abs(score)) / FULL).toFixed(1));
    rect.setAttribute("height", "8");
    return h("tr", { class: score < 0 ? "negative" : "" }, h("td", {}, signed(score), !exact && h("small", {}, " (estimated)")), h("td", {}, this.receipts.inNats && svg), h("td", { dir: "auto" }, brief(text, 120)));
  }

  // The other answer, which the page gives, beside this one.
  async leaveOut(button, { number }, index) {
    const name = this.receipts.name(index);
    const result = h("div", { class: "without" }, `Answering without ${name}…`);
    button.disabled = true;
    this.panel.querySelector(".without")?.remove();
    button.closest(".actions").after(result);
    const other = new Promise((resolve) => this.dispatchEvent(new CustomEvent("attribot-without", {
      bubbles: true, composed: true, detail: { document: index, number, name, respond: resolve } })));
    try {
      const text = String(await other);
      result.replaceChildren(h("h3", {}, `Without ${name}`), h("p", { class: "text", dir: "auto" },
        text.trim() === (this.receipts.answer ?? "").trim() ? "The model gives the same answer." : difference(this.receipts.answer ?? this.receipts.sentences.map((sentence) => sentence.text).join(" "), text)));
    } catch (error) {
      result.replaceChildren(`There is no other answer: ${visible(error.message)}`);
    }
    button.disabled = false;
    result.scrollIntoView({ block: "nearest" });
  }

  // A small card beside a sentence that is pointed at or focused: what it cites, most effect first.
  glance(sentence) {
    if (this.mode === "sheet" || this.pinned === sentence || this.narrowed || !this.isConnected) return;
    const { receipts } = this;
    const several = sentence.documents.length > 1;
    const number = (index) => receipts.documents.get(index)?.number;
    const quoted = (text, index) => h("blockquote", { class: "text", dir: "auto" }, several && number(index) && [pill(number(index)), " "], h("mark", {}, this.shared(brief(text, 200), sentence)));
    const earlier = receipts.earlier(sentence);
    const places = receipts.ranked(sentence).flatMap((id) => receipts.places(id).slice(0, 1)).slice(0, 3);
    const rect = this.spans[sentence.index].getBoundingClientRect();
    filled(this.peek, [
      h("p", { class: sentence.state === "check" ? "alert" : "" }, this.receipts.told(sentence)), earlier && quoted(earlier.words), places.map((place) => quoted(receipts.text(place), place.document)),
      sentence.documents.slice(0, 3).map((index) => h("span", { class: "name" }, number(index) && pill(number(index)), " ", receipts.name(index)))]);
    this.peek.showPopover?.();
    const { width, height } = this.peek.getBoundingClientRect();
    const below = rect.bottom + 6 + height < innerHeight;
    const right = this.mode === "column" ? this.main.getBoundingClientRect().right : innerWidth - 8; // not over the panel
    this.peek.style.setProperty("left", `${Math.max(8, Math.min(rect.left, right - width))}px`);
    this.peek.style.setProperty("top", `${below ? rect.bottom + 6 : Math.max(8, rect.top - height - 6)}px`);
  }

  unglance() {
    clearTimeout(this.soon);
    if (this.peek?.matches(":popover-open")) this.peek.hidePopover();
  }

  // The card shows what caused the selected words of the answer.
  narrow() {
    if (!this.receipts?.evidence.length || !this.receipts.inNats) return;
    const range = this.selection();
    const found = range ? this.receipts.judged.map((sentence) => ({ sentence, ...this.selected(sentence, range) })) : [];
    const chosen = found.some(({ words }) => contentOf(words, true).length) ? found.filter(({ tokens }) => tokens.length) : [];
    if (!chosen.length) {
      if (!this.narrowed || this.panel.contains(this.caret)) return; // a press in the card
      this.narrowed = this.anchor = null; // the selection and the focus stay where they went
      return void this.close();
    }
    const sums = new Map();
    for (const { sentence, tokens } of chosen)
      for (const row of sentence.evidence) {
        const total = sums.get(row.source) || { ...row, score: 0 };
        sums.set(row.source, { ...total, score: total.score + tokens.reduce((sum, token) => sum + row.tokens[token], 0) });
      }
    const evidence = [...sums.values()].filter((row) => row.score >= NOISE).sort((a, b) => b.score - a.score);
    const words = brief(chosen.map((one) => one.words).join(" "), 60);
    const narrowed = { ...chosen[0].sentence, sources: evidence.map((row) => row.source), documents: [], effect: null, kept: null, reliance: null };
    this.pinned = null;
    this.anchor = this.spans[chosen.at(-1).sentence.index];
    this.narrowed = true;
    this.mark(-1);
    this.fill([
      h("div", { class: "controls" }, this.closer()), h("h2", {}, evidence.length ? `Behind “${words}”` : `No document has a measurable influence on “${words}” alone.`),
      this.receipts.cited(narrowed.sources).map(([index, places]) => this.block(narrowed, index, places)),
      evidence.length > 0 && this.strength({ effect: evidence[0].score, sources: [evidence[0].source] }, "these words"), this.experts(narrowed, evidence)]);
  }

  // The whole words of a sentence that a range touches, and their tokens.
  selected(sentence, range) {
    const shown = this.spans[sentence.index]?.querySelector(".words");
    if (!shown || !range.intersectsNode(shown)) return { words: "", tokens: [] };
    const offset = (container, place, otherwise) => {
      if (!shown.contains(container)) return otherwise;
      const before = document.createRange();
      before.setStart(shown, 0);
      before.setEnd(container, place);
      return before.toString().length;
    };
    const text = shown.textContent;
    const [from, to] = [offset(range.startContainer, range.startOffset, 0), offset(range.endContainer, range.endOffset, text.length)];
    const touched = wordsOf(text).filter(({ start, end }) => start < to && end > from);
    if (!touched.length) return { words: "", tokens: [] };
    const [first, last] = [Math.min(from, touched[0].start), Math.max(to, touched.at(-1).end)];
    const points = (place) => Array.from(text.slice(0, place)).length;
    return { words: text.slice(first, last).trim(), tokens: this.receipts.tokensIn(sentence, points(first), points(last)) };
  }

  // A column beside the answer; on a phone a sheet over the page; else it follows the sentence.
  place() {
    if (!this.panel?.hasChildNodes()) return;
    const phone = matchMedia(`(max-width: ${PHONE}px)`).matches;
    this.mode = phone ? "sheet" : this.clientWidth >= COLUMN ? "column" : "below";
    this.frame.className = `frame ${this.mode}${this.open ? " open" : ""}`;
    const before = this.mode === "below" && this.open && this.anchor;
    if (before ? before.nextSibling !== this.panel : this.panel.parentNode !== this.frame)
      before ? before.after(this.panel) : this.frame.append(this.panel);
    if (!phone || !this.open) {
      if (this.panel.matches(":popover-open")) this.panel.hidePopover();
      this.panel.removeAttribute("popover");
      this.main.style.removeProperty("padding-bottom");
      return;
    }
    this.panel.setAttribute("popover", "manual");
    if (!this.panel.matches(":popover-open")) this.panel.showPopover?.();
    this.main.style.setProperty("padding-bottom", "60vh"); // room to scroll the last sentence above it
  }

  pressed(event) {
    const index = this.spans.indexOf(event.target.closest?.(".sentence"));
    if (event.key === "Escape") return void (this.unglance(), this.back ? this.back() : this.close());
    if (index < 0) return;
    const sentence = this.receipts.sentences[index];
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.pinned === sentence ? this.close() : this.pin(sentence);
    else if (by && this.pinned) this.step(by);
    else if (by) this.spans[this.receipts.judged[this.receipts.judged.indexOf(sentence) + by]?.index]?.focus();
    else return;
    event.preventDefault();
  }

  touched({ touches: [touch] }) {
    this.from = [touch.clientX, touch.clientY];
  }

  swiped({ changedTouches: [touch] }) {
    const [x, y] = [touch.clientX - this.from[0], touch.clientY - this.from[1]];
    if (this.pinned && !this.back && Math.abs(x) > 60 && Math.abs(x) > 2 * Math.abs(y)) this.step(x < 0 ? 1 : -1);
  }
}


if (!customElements.get("attribot-answer")) customElements.define("attribot-answer", AttribotAnswer);
