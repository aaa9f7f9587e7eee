// <attribot-answer>: an answer with what made the model say each of its sentences. Its data, attributes, events and
// colours stand in docs/answers.md. Positions in the data count code points.
const SIDE = 960; // pixels of the element from which on its panel stands beside the answer
const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);

class AttribotAnswer extends HTMLElement {
  static observedAttributes = ["data", "stopped", "no-question", "no-answer", "open-at", "answers-without", "cards", "lang"];
  static shown = new Set();

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
    this.told = h("p", { class: "hidden", role: "status" }); // stays, so that what changes is told once
    this.shadowRoot.append(this.told);
    this.sizes = new ResizeObserver(() => this.place());
    this.others = new Map(); // what the model answers without some documents
    this.spans = []; // the sentences, none while there is no answer
    this.view = null; // what the panel shows: a sentence, a file, or the help
  }

  get data() { return this.content; }

  set data(data) {
    this.content = data;
    if (this.isConnected) this.render();
  }

  connectedCallback() {
    for (const other of AttribotAnswer.shown) other.close(); // what was opened belongs to the last question
    const { removed } = AttribotAnswer; // by a page that makes the element anew with each verdict
    if (removed?.content?.answer && removed.content.answer === this.content?.answer) [this.view, this.others] = [removed.view, removed.others];
    AttribotAnswer.shown.add(this);
    this.sizes.observe(this);
    this.connected = new AbortController();
    document.addEventListener("selectionchange", () => this.narrow(), { signal: this.connected.signal });
    this.render();
  }

  disconnectedCallback() {
    AttribotAnswer.shown.delete(this);
    AttribotAnswer.removed = this;
    this.sizes.disconnect();
    this.connected.abort();
  }

  attributeChangedCallback(name, before, after) {
    if (name === "data" && after) this.content = JSON.parse(after);
    if (this.isConnected && before !== after) this.render();
  }

  tells(name, detail) {
    return this.dispatchEvent(new CustomEvent(name, { bubbles: true, composed: true, cancelable: true, detail }));
  }

  render() {
    if (!this.content) return;
    const [before, top, active] = [this.view, this.panel?.scrollTop ?? 0, this.shadowRoot.activeElement];
    const focused = active?.dataset.at;
    const receipts = (this.receipts = new Receipts(this.content, { stopped: this.hasAttribute("stopped"), language: this.getAttribute("lang") }));
    for (const [documents, text] of Object.entries(receipts.others)) this.others.set(documents, text);
    this.card = new Card(this);
    this.spans = [];
    this.panel = h("aside", { class: "panel", part: "panel", tabindex: "-1", "aria-label": receipts.say("where"), hidden: true });
    this.foot = h("div", { class: "foot", part: "footer" }, this.footer());
    this.main = h("div", { class: "main" },
      receipts.question && !this.hasAttribute("no-question") && h("h2", { class: "question", dir: "auto" }, visible(receipts.question)),
      h("div", { class: "answer", part: "answer", dir: "auto", lang: receipts.spoken, hidden: this.hasAttribute("no-answer"), click: ({ target }) => document.getSelection().isCollapsed && this.toggle(this.receipts.sentences[this.spans.indexOf(target.closest(".sentence"))]) }, this.text()), this.foot);
    this.frame?.remove();
    this.frame = h("div", { class: "frame", lang: receipts.language, keydown: ({ key }) => key === "Escape" && this.close() }, this.main, this.panel);
    this.shadowRoot.prepend(this.frame);
    this.tell(this.foot.innerText);
    this.view = null;
    this.place();
    // What was open stays open when more verdicts come.
    const same = (old) => old && receipts.judged.find(({ index, words }) => index === old.index && words === old.words);
    const file = before?.file && receipts.files.find(({ key }) => key === before.file.key);
    if (before && !before.words && (before.help || file || same(before.sentence)) && (!before.sentence || same(before.sentence))) {
      this.fill({ ...before, file, sentence: same(before.sentence) }, true);
      this.panel.scrollTop = top;
    } else if (this.hasAttribute("no-answer") && receipts.judged.length) this.fill({ card: true, sentence: receipts.judged[0] }, true);
    this.shadowRoot.querySelector(focused && `[data-at="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  tell(text) {
    const line = text.replace(/\s+/g, " ").trim();
    if (this.told.textContent !== line) this.told.textContent = line;
  }

  text() {
    const { sentences, points, answer, summary } = this.receipts;
    const parts = [];
    let end = 0;
    const upTo = (place) => place > end && parts.push(visible(points.slice(end, place).join("")));
    for (const sentence of sentences) {
      if (sentence.placed) upTo(sentence.start);
      end = Math.max(end, sentence.end);
      parts.push(this.span(sentence), visible(sentence.space || (sentence.placed ? "" : " ")));
    }
    // Where it was put together from earlier answers, each of these has sources of its own.
    for (const [index, call] of (sentences.length ? [] : summary.calls || []).entries()) {
      const [start, last] = summary.places?.[index] || [points.length, points.length];
      upTo(start);
      end = last;
      parts.push(h("attribot-answer", { data: JSON.stringify(call), "no-question": true }));
    }
    if (answer !== null && (!sentences.length || sentences.at(-1).placed)) upTo(points.length);
    return parts;
  }

  span(sentence) {
    if (sentence.state === "plain" || !sentence.words) return visible(sentence.words);
    const shared = this.receipts.shared(sentence);
    const joint = shared && this.receipts.say(shared === "together" ? "and" : "or");
    const pill = (file, text, type, at) => button({ class: `pill ${type}`, part: `pill${type === "warn" ? " warn" : ""}`, "data-at": `${sentence.index} ${at}`, "aria-expanded": "false", title: text,
      click: (event) => (event.stopPropagation(), this.toggle(sentence, file, event.detail === 0)) }, text);
    const said = (file) => sentence.notes.find((note) => note.file === file);
    const named = sentence.prompted && !sentence.files.some(said) ? [] : sentence.files; // unless a note names them all
    const pills = sentence.state === "checking"
      ? [h("span", { class: "pill reserved", "aria-hidden": "true" }, this.receipts.files[0]?.name ?? "")] // so that the text does not jump
      : [...named.flatMap((file, at) => [at > 0 && joint && h("span", { class: "dim" }, joint), pill(file, said(file)?.text ?? file.name, said(file) ? "warn" : file.colour, file.key)].filter(Boolean)),
        ...sentence.notes.flatMap(({ file, text, warn }, at) => (sentence.files.includes(file) ? [] : [pill(file, brief(text, 90), warn ? "warn" : "note", file?.key ?? at)]))];
    const span = h("span", { class: `sentence ${sentence.state}`, part: "sentence" }, h("span", { class: "words" }, this.words(sentence)), h("span", { class: "hold" }, "\u00a0", pills[0]), pills.slice(1).flatMap((part) => [" ", part]));
    this.spans[sentence.index] = span;
    return span;
  }

  // A sentence's text with the values to look at underlined. Hidden markers stay in it: positions count them.
  words(sentence) {
    const points = Array.from(sentence.words);
    const parts = [];
    let end = 0;
    const ranges = [...sentence.values, ...sentence.markers.filter((marker) => marker.hidden)];
    for (const { hidden, ...range } of ranges.sort((a, b) => a.from - b.from)) {
      const [from, to] = [range.from, range.to].map((place) => Math.max(end, Math.min(place, points.length)));
      parts.push(visible(points.slice(end, from).join("")), to > from && h("span", { class: !hidden && "value", hidden }, visible(points.slice(from, to).join(""))));
      end = to;
    }
    return [...parts, visible(points.slice(end).join(""))];
  }

  // One line: what goes on, the files behind the answer, and how much wants attention.
  footer() {
    const { say, judged, summary, stage, answer, documents, named } = this.receipts;
    if (summary.error) return [say("failed", { why: visible(summary.error.message) })];
    const checked = judged.filter(({ state }) => state !== "checking").length;
    const reading = documents.size ? say("reading", { n: documents.size }) : say("read");
    const pending = summary.status === "pending" && (stage === "writing" ? say("writing") : !answer ? reading : judged.length ? say("checking", { n: Math.min(checked + 1, judged.length), all: judged.length }) : say("check"));
    const counts = ["owns", "remarks", "opens"].flatMap((kind) => {
      const those = judged.filter(({ notes }) => notes.some((note) => note.kind === kind));
      const n = kind === "remarks" ? those.flatMap(({ values }) => values).length : those.length;
      return those.length ? [button({ class: `entry ${kind === "opens" ? "" : "warn"}`, click: () => this.choose(those.find(({ index }) => index > (this.view?.sentence?.index ?? -1)) ?? those[0]) }, say(kind, { n }))] : [];
    });
    return [
      pending && h("span", { class: "progress" }, pending), named.length > 0 && h("span", {}, say("sources")),
      named.map((file) => button({ class: "source", part: "source", "data-at": `source ${file.key}`, click: () => this.fill({ file }) }, file.name)),
      counts,
      this.receipts.reads && h("span", { class: "reader" }, say("whoRead", { reader: visible(summary.model), model: visible(summary.answered_by ?? say("another")) })),
      judged.length > 0 && button({ class: "help", "data-at": "help", "aria-label": say("help"), click: () => this.fill({ help: true }) }, "?")];
  }

  toggle(sentence, file = null, focus = false) {
    const { view } = this;
    const open = view?.sentence === sentence && !view.words && (!file || view.file === file);
    if (sentence && open) this.close();
    else if (sentence) this.choose(sentence, { file, focus });
  }

  // Shows a sentence's card, what it has of `file` first, or a file that it does not cite.
  choose(sentence, { file = null, focus } = {}) {
    const { index, shown: text, documents } = sentence;
    if (!this.tells("attribot-choose", { sentence: index, text, documents, name: file?.name ?? null }) || this.mode === "none") return;
    this.fill({ card: !file || sentence.files.includes(file), sentence, file });
    this.tell([sentence.place, this.receipts.told(sentence), ...sentence.notes.slice(sentence.files.length ? 0 : 1).map((note) => note.text)].join(", "));
    if (focus) this.panel.focus({ preventScroll: true });
  }

  // Shows this in the panel, and scrolls to it unless it came by itself (`still`).
  fill(view, still) {
    const { sentence, file, help, card, words } = view;
    this.opener = this.view ? this.opener : this.shadowRoot.activeElement?.dataset.at;
    this.view = view;
    this.panel.hidden = false;
    filled(this.panel, help ? this.card.help() : words ? this.card.ofWords(view) : card ? this.card.of(sentence, file) : this.card.file(file, sentence));
    this.panel.scrollTop = 0;
    this.mark();
    this.room();
    if (still) return;
    if (!card && !words) this.panel.focus({ preventScroll: true });
    if (this.mode === "side") this.panel.scrollIntoView({ block: "nearest" });
    (card || sentence ? this.spans[sentence.index] : this.foot).scrollIntoView({ block: "nearest" });
    const [bottom, first] = [this.panel.getBoundingClientRect().bottom, this.panel.querySelector("mark")?.getBoundingClientRect()];
    if (first) this.panel.scrollTop += Math.max(0, card ? first.bottom + 12 - bottom : first.top - this.panel.getBoundingClientRect().top - 90);
  }

  // The card of what is behind selected words of a sentence alone.
  narrow() {
    const [range] = document.getSelection().getComposedRanges?.({ shadowRoots: [this.shadowRoot] }) ?? [];
    const index = range && !range.collapsed && this.mode !== "none" ? this.spans.findIndex((span) => span?.contains(range.startContainer)) : -1;
    const tokens = this.receipts?.tokens[index];
    if (!tokens) return void (this.view?.words && !this.panel.contains(range?.startContainer) && this.close());
    const [shown, sentence] = [this.spans[index].querySelector(".words"), this.receipts.sentences[index]];
    const offset = (container, place, otherwise) => {
      if (!shown.contains(container)) return otherwise;
      const before = document.createRange();
      before.setStart(shown, 0);
      before.setEnd(container, place);
      return before.toString().length;
    };
    const text = shown.textContent;
    const [from, to] = [offset(range.startContainer, range.startOffset, text.length), offset(range.endContainer, range.endOffset, text.length)];
    const touched = wordsOf(text).filter(({ start, end }) => start < to && end > from);
    if (!contentOf(touched.map(({ text: word }) => word).join(" ")).length) return;
    const [begin, stop] = [touched[0].start, touched.at(-1).end].map((place) => codePoints(text.slice(0, place)));
    const within = tokens.flatMap(([start, end], token) => (start < stop && end > begin ? [token] : []));
    const rows = sentence.evidence.map((row) => ({ ...row, score: within.reduce((sum, token) => sum + row.tokens[token], 0) }));
    this.fill({ sentence, words: text.slice(touched[0].start, touched.at(-1).end), rows: rows.filter(({ score }) => score >= NOISE).sort((a, b) => b.score - a.score) });
  }

  // Which sentence and pill the panel is about.
  mark() {
    const { sentence, file } = this.view ?? {};
    this.spans.forEach((span, index) => {
      span.classList.toggle("on", index === sentence?.index);
      const pills = [...span.querySelectorAll("button")];
      const chosen = index === sentence?.index && (pills.find((one) => file && one.dataset.at === `${index} ${file.key}`) ?? pills[0]);
      for (const one of pills) one.setAttribute("aria-expanded", String(one === chosen));
    });
  }

  close() {
    if (!this.view) return;
    const inside = this.panel.contains(this.shadowRoot.activeElement);
    const back = this.shadowRoot.querySelector('.sentence [aria-expanded="true"]') ?? (this.opener && this.shadowRoot.querySelector(`[data-at="${CSS.escape(this.opener)}"]`));
    this.view = this.opener = null;
    this.panel.hidden = true;
    this.mark();
    if (inside) back?.focus({ preventScroll: true });
  }

  // The panel stands beside the answer where there is room, else below it. (A container query fails where the element fits its contents.)
  place() {
    if (!this.frame) return;
    const cards = this.getAttribute("cards");
    this.mode = ["side", "below", "none"].includes(cards) ? cards : this.clientWidth >= SIDE ? "side" : "below";
    this.frame.className = `frame ${this.mode}`;
    this.room();
  }

  // The height of what scrolls the element, into which the panel fits.
  room() {
    let node = this;
    let height = innerHeight;
    this.frame.style.setProperty("--room", `${height}px`); // so that what scrolls shows itself
    while ((node = node.assignedSlot || node.parentNode || node.host))
      if (node instanceof Element && node !== document.scrollingElement && node.scrollHeight > node.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(node).overflowY)) height = Math.min(height, node.clientHeight);
    this.frame.style.setProperty("--room", `${height}px`);
    this.frame.style.setProperty("--panel", `${this.mode === "below" && this.view ? this.panel.offsetHeight : 0}px`);
  }
}

if (!customElements.get("attribot-answer")) customElements.define("attribot-answer", AttribotAnswer);
