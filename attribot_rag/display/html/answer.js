// <attribot-answer>: an answer with what made the model say each of its sentences, and whether that says it. Its data,
// attributes, events and colours are in docs/answers.md. Positions in the data count code points.
const SIDE = 960; // pixels of the element from which on the passages stand beside the answer
const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);

class AttribotAnswer extends HTMLElement {
  static observedAttributes = ["data", "stopped", "no-question", "no-answer", "open-at", "answers-without", "cards", "lang", "open"];
  static shown = new Set();

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
    this.told = h("p", { class: "hidden", role: "status" }); // stays, so that what changes is told once
    this.main = h("div", { class: "main" });
    this.panel = h("aside", { class: "panel", part: "panel", tabindex: "-1", scroll: () => this.fade() });
    this.tip = h("div", { class: "tip", popover: "manual", "aria-hidden": "true" }); // its words are the chip's label, too
    this.frame = h("div", { class: "frame", keydown: (event) => this.pressed(event) }, this.main, this.panel, this.tip);
    this.shadowRoot.append(this.told, this.frame);
    this.sizes = new ResizeObserver(() => this.place());
    this.themes = new MutationObserver(() => this.place()); // a page that changes its scheme
    this.others = new Map(); // what the model answers without some documents, or a promise of it
    this.view = null; // what the panel shows: a sentence, a file, the passages, or the help
  }

  get data() { return this.content; }

  get inFlow() { return this.hasAttribute("no-answer") || this.getAttribute("cards") === "flow"; } // a card is in the page

  set data(data) {
    this.content = data;
    if (this.isConnected) this.render();
  }

  connectedCallback() {
    const { removed } = AttribotAnswer; // by a page that makes the element anew with each verdict
    const isSame = removed?.content?.answer && removed.content.answer === this.content?.answer;
    if (isSame) [this.view, this.others] = [removed.view, removed.others];
    this.alone(); // what was opened belongs to the last question
    AttribotAnswer.shown.add(this);
    this.sizes.observe(this);
    for (const one of [document.documentElement, document.body]) this.themes.observe(one, { attributes: true });
    this.render();
  }

  disconnectedCallback() {
    AttribotAnswer.shown.delete(this);
    AttribotAnswer.removed = this;
    this.sizes.disconnect();
    this.themes.disconnect();
  }

  attributeChangedCallback(name, before, after) {
    if (name === "data" && after) this.content = JSON.parse(after);
    if (this.isConnected && before !== after) this.render();
  }

  // One card at a time on the whole page.
  alone() {
    for (const other of AttribotAnswer.shown) if (other !== this) other.close();
  }

  tells(name, detail) {
    return this.dispatchEvent(new CustomEvent(name, { bubbles: true, composed: true, cancelable: true, detail }));
  }

  render() {
    if (!this.content) return;
    const [before, top, focused] = [this.view, this.panel.scrollTop, this.shadowRoot.activeElement?.dataset.at];
    const receipts = (this.receipts = new Receipts(this.content, { stopped: this.hasAttribute("stopped"), language: this.getAttribute("lang") }));
    for (const [documents, told] of Object.entries(receipts.others)) this.others.set(documents, told);
    this.card = new Card(this);
    this.hint(null);
    this.frame.lang = receipts.language;
    this.panel.setAttribute("aria-label", receipts.say("where"));
    const isHidden = this.hasAttribute("no-answer");
    filled(this.main,
      receipts.question && !this.hasAttribute("no-question") && h("h2", { class: "question", dir: "auto" }, visible(receipts.question)),
      h("div", { class: "trust", part: "trust" }, this.trust()),
      h("div", { class: "answer", part: "answer", dir: "auto", lang: receipts.spoken, hidden: isHidden, click: ({ target }) => document.getSelection().isCollapsed && !target.closest("a, button") && this.toggle(receipts.sentences[target.closest(".sentence")?.dataset.sentence]) }, this.text()),
      receipts.passages.size > 0 && button({ class: "opens", "data-at": "passages", click: () => this.fill({ list: true }) }, this.summary()));
    this.tell(this.main.querySelector(".trust").textContent);
    // What was open stays open when more verdicts come.
    const same = (old) => receipts.judged.find(({ index, words }) => index === old.index && words === old.words);
    const sentence = before?.sentence && same(before.sentence);
    this.view = before && (sentence || !before.sentence) && (before.help || before.list || sentence || receipts.texts[before.file] != null) ? { ...before, sentence } : (isHidden || (this.hasAttribute("open") && !this.mode)) && receipts.judged.length ? { sentence: receipts.judged[0], chip: receipts.judged[0].chips[0]?.key } : null;
    this.place();
    this.panel.scrollTop = top;
    this.shadowRoot.querySelector(focused && `[data-at="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    if (this.getAttribute("answers-without") === "ahead" && receipts.summary.status === "complete") this.askAhead();
  }

  tell(text) {
    const line = text.replace(/\s+/g, " ").trim();
    if (this.told.textContent !== line) this.told.textContent = line;
  }

  // The answer as it is read, each sentence with its chips; without its blocks, as it was written.
  text() {
    const { sentences, answer, blocks, summary, points } = this.receipts;
    const isWriting = summary.status === "pending";
    const cite = (index) => (sentences[index] ? this.chips(sentences[index]) : isWriting && !sentences.length && this.waiting());
    if (blocks) {
      const ranges = sentences.flatMap(({ values = [] }) => values.map((range) => ({ ...range, class: "value" })));
      const words = (index, nodes) => (sentences[index] && sentences[index].state !== "plain" ? h("span", { class: `sentence ${sentences[index].state}`, part: "sentence", "data-sentence": index }, nodes) : nodes);
      return new Painter(points, { ranges, cite, words }).of(blocks);
    }
    if (sentences.length) return sentences.map((sentence) => [h("span", { class: `sentence ${sentence.state}`, part: "sentence", "data-sentence": sentence.index }, visible(sentence.words)), this.chips(sentence), visible(sentence.text.slice(sentence.words.length) || " ")]);
    // Where it was put together from earlier answers, each of these has sources of its own.
    return (summary.calls || []).length ? summary.calls.map((call) => h("attribot-answer", { data: JSON.stringify(call), "no-question": true })) : h("div", { class: "plain" }, visible(answer ?? ""));
  }

  waiting() {
    return h("span", { class: "hold" }, "\u00a0", h("span", { class: "chip wait", "aria-hidden": "true" }, "·")); // as wide as a number with its sign, so that the text does not jump
  }

  chips(sentence) {
    if (sentence.state === "plain") return null;
    if (sentence.state === "checking") return this.waiting();
    const chip = ({ key, text, look, label, document }) => button({ class: `chip ${look}`, part: `chip${look === "warn" ? " warn" : ""}`, "data-at": `${sentence.index} ${key}`, "aria-expanded": "false", "aria-label": label,
      click: (event) => (event.stopPropagation(), this.toggle(sentence, document, key, event.detail === 0)), pointerenter: ({ target, pointerType }) => pointerType === "mouse" && this.hint(target, sentence, document, label), pointerleave: () => this.hint(null),
      focus: ({ target }) => target.matches(":focus-visible") && this.hint(target, sentence, document, label), blur: () => this.hint(null) }, text);
    return sentence.chips.map((one, at) => h("span", { class: at || one.key === "note" ? "" : "hold" }, "\u00a0", one.joint && h("span", { class: "dim" }, one.joint, "\u00a0"), chip(one)));
  }

  // A passage's name and what is cited of it, beside its chip.
  hint(chip, sentence, document, label) {
    if (!chip || chip.getAttribute("aria-expanded") === "true") return void (this.tip.matches(":popover-open") && this.tip.hidePopover());
    const [place] = document == null ? [] : this.receipts.quoted(sentence, [document]);
    filled(this.tip, h("b", { dir: "auto" }, label), place && h("div", { dir: "auto" }, this.card.quote(place, sentence)));
    this.tip.showPopover();
    const [{ left, top, bottom }, { width, height }] = [chip.getBoundingClientRect(), this.tip.getBoundingClientRect()];
    this.tip.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    this.tip.style.top = `${bottom + height + 14 < innerHeight ? bottom + 8 : Math.max(8, top - height - 8)}px`;
  }

  // One line above the answer: what goes on, or how far it can be trusted.
  trust() {
    const { say, judged, summary, stage, answer, passages } = this.receipts;
    if (summary.error) return [say("failed", { why: visible(summary.error.message) })];
    const checked = judged.filter(({ state }) => state !== "checking").length;
    const reading = passages.size ? say("reading", { n: passages.size }) : say("read");
    if (summary.status === "pending") return [h("span", { class: "progress" }, stage === "writing" ? say("writing") : !answer ? reading : judged.length ? say("checking", { n: Math.min(checked + 1, judged.length), all: judged.length }) : say("check"))];
    const first = (name) => judged.filter(({ standing }) => standing === name).find(({ index }, _, those) => index > (this.view?.sentence?.index ?? -1) || those.at(-1).index <= (this.view?.sentence?.index ?? -1));
    return this.receipts.trust().flatMap(({ text, name, warn, stands }, at) => [at > 0 && h("span", { class: "dot" }, " · "), name ? button({ class: `entry ${warn ? "warn" : ""}`, click: () => this.choose(first(name)) }, text) : h("span", { class: stands && "stands" }, text)]);
  }

  // The line that opens the passages where they do not stand beside the answer.
  summary() {
    const { say, passages, used } = this.receipts;
    return [say("passages", { n: passages.size }), used.size > 0 && ` · ${say("used", { n: used.size })}`];
  }

  pressed(event) {
    const at = this.shadowRoot.activeElement;
    if (event.key === "Escape") this.close();
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!step || !at?.matches(".answer .chip")) return;
    event.preventDefault();
    const firsts = this.receipts.judged.map(({ index }) => this.shadowRoot.querySelector(`.answer [data-at^="${index} "]`)).filter(Boolean);
    const next = firsts[firsts.findIndex((one) => one.dataset.at.split(" ")[0] === at.dataset.at.split(" ")[0]) + step];
    next?.focus();
    if (next && this.view?.sentence) this.choose(this.receipts.sentences[next.dataset.at.split(" ")[0]]);
  }

  toggle(sentence, file = null, chip = null, focus = false) {
    const { view } = this;
    if (!sentence || sentence.state === "plain" || sentence.state === "checking") return;
    if (view?.sentence === sentence && view.file === undefined && (chip == null || view.chip === chip)) this.close();
    else this.choose(sentence, { file, chip, focus });
  }

  // Shows a sentence's card, with what it has of the passage `file` first.
  choose(sentence, { file = null, chip = null, focus } = {}) {
    if (!sentence) return;
    const { index, text, documents } = sentence;
    const name = file == null ? null : this.receipts.passage(file).name;
    if (!this.tells("attribot-choose", { sentence: index, text, documents, name }) || this.mode === "none") return;
    this.fill({ sentence, chosen: file, chip: chip ?? sentence.chips[0]?.key });
    this.tell([sentence.place, this.receipts.told(sentence)].join(", "));
    if (focus) this.panel.focus({ preventScroll: true });
  }

  // Shows this in the panel, beside its own answer, and keeps the sentence in sight.
  fill(view) {
    const [scrolled, { top: before }] = [this.room()[2], this.getBoundingClientRect()];
    this.alone();
    this.opener = this.view ? this.opener : this.shadowRoot.activeElement?.dataset.at;
    this.view = view;
    this.draw();
    this.panel.scrollTop = 0;
    scrolled.scrollBy({ top: this.getBoundingClientRect().top - before, behavior: "instant" }); // a card that closed above it
    if (this.mode === "side") this.panel.scrollIntoView({ block: "nearest" });
    const words = view.sentence && this.shadowRoot.querySelector(`.answer [data-sentence="${view.sentence.index}"]`);
    if (view.file != null || view.help || view.list) this.panel.focus({ preventScroll: true });
    this.hint(null);
    const [[top, bottom], at] = [this.room(), words?.getBoundingClientRect()];
    if (this.mode !== "side" || at?.top < top || at?.bottom > bottom) words?.scrollIntoView({ block: "nearest" });
    if (view.file != null) this.panel.querySelector(".whole mark")?.scrollIntoView({ block: "nearest" });
  }

  // Where there is more to scroll to, the panel fades out.
  fade() {
    const { scrollHeight, scrollTop, clientHeight } = this.panel;
    this.panel.classList.toggle("more", scrollHeight - scrollTop - clientHeight > 4);
  }

  draw() {
    const { view, card, mode, panel } = this;
    const isFlow = this.inFlow;
    const shown = !view ? [] : view.help ? card.help() : view.list ? [card.controls(h("h2", {}, this.receipts.say("where")))] : view.file != null ? card.file(view.file, view.sentence) : card.of(view.sentence, view.chosen);
    const list = mode === "side" || view?.list ? card.list(view && !view.list) : [];
    filled(panel, shown.length > 0 && h("section", { class: "card" }, shown), list.length > 0 && h("section", { class: "list" }, list));
    for (const part of panel.children) this.sizes.observe(part);
    const isSheet = mode === "below" && !isFlow;
    panel.toggleAttribute("popover", false);
    panel.hidden = mode === "none" || (mode === "side" || isFlow ? !panel.children.length : !view);
    if (isSheet && view) {
      panel.popover = "manual";
      panel.showPopover();
    }
    this.frame.style.setProperty("--sheet", `${isSheet && view ? panel.offsetHeight : 0}px`);
    for (const one of this.main.querySelectorAll("[data-sentence]")) one.classList.toggle("on", Number(one.dataset.sentence) === view?.sentence?.index);
    for (const one of this.main.querySelectorAll(".chip[aria-expanded]")) one.setAttribute("aria-expanded", String(one.dataset.at === `${view?.sentence?.index} ${view?.chip}`));
  }

  close() {
    if (!this.view) return;
    const inside = this.panel.contains(this.shadowRoot.activeElement);
    const back = this.shadowRoot.querySelector('.answer [aria-expanded="true"]') ?? (this.opener && this.shadowRoot.querySelector(`[data-at="${CSS.escape(this.opener)}"]`));
    this.view = this.opener = null;
    this.draw();
    if (inside) back?.focus({ preventScroll: true });
  }

  // The passages stand beside the answer where there is room; else a card is a sheet from below. (A container query fails where the element fits its contents.)
  place() {
    if (!this.receipts) return;
    const cards = this.getAttribute("cards");
    const mode = ["side", "below", "none"].includes(cards) ? cards : this.clientWidth >= SIDE ? "side" : "below";
    const [top, bottom] = this.room();
    this.frame.style.setProperty("--room", `${bottom - top}px`);
    // A page that is dark without saying so by `color-scheme` has light text.
    const [red, green, blue] = getComputedStyle(this.parentElement ?? this).color.match(/[\d.]+/g);
    this.frame.style.colorScheme = getComputedStyle(this).colorScheme !== "normal" ? "" : red * 0.3 + green * 0.59 + blue * 0.11 > 140 ? "dark" : "light";
    this.fade();
    if (mode === this.mode && this.drawn === this.receipts) return;
    [this.mode, this.drawn] = [mode, this.receipts];
    this.frame.className = `frame ${mode} ${this.inFlow ? "flow" : ""}`;
    this.draw();
  }

  // From where to where the element is in sight, in what scrolls it: there the panel fits in. And what scrolls it.
  room() {
    let [node, top, bottom, scrolled] = [this, 0, innerHeight];
    while ((node = node.assignedSlot || node.parentNode || node.host))
      if (node instanceof Element && node !== document.scrollingElement && /auto|scroll/.test(getComputedStyle(node).overflowY) && node.clientHeight > 0) {
        const { top: from } = node.getBoundingClientRect();
        [top, bottom, scrolled] = [Math.max(top, from), Math.min(bottom, from + node.clientHeight), scrolled ?? node];
      }
    return [top, bottom, scrolled ?? document.scrollingElement];
  }

  // What the model answers without some documents: as it was told, or as the page tells it.
  without(indices, ahead = false) {
    const key = `${indices}`;
    if (this.others.get(key) == null) {
      const names = [...new Set(indices.map((index) => this.receipts.passage(index).name))];
      const asked = new Promise((respond) => this.tells("attribot-without", { documents: indices, names, ahead, respond }));
      this.others.set(key, asked.then((told) => (this.others.set(key, told), told), (error) => { this.others.delete(key); throw error; }));
    }
    return Promise.resolve(this.others.get(key));
  }

  // The other answers that a reader will ask for: where the support is in doubt.
  askAhead() {
    const doubted = this.receipts.judged.filter(({ standing, documents }) => ["partial", "contradicted"].includes(standing) && documents.length).slice(0, 2);
    for (const { documents } of doubted) this.without(this.receipts.whole(documents), true).then(() => this.view?.sentence && this.draw(), () => {});
  }
}

if (!customElements.get("attribot-answer")) customElements.define("attribot-answer", AttribotAnswer);
