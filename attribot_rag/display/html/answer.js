// <attribot-answer>: an answer with what made the model say each of its sentences. Its data, attributes, event and
// colours stand in docs/answers.md. Positions in the data count code points.
const [COLUMN, PHONE] = [720, 760]; // pixels: an element with a column, a window with a sheet
const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);

class AttribotAnswer extends HTMLElement {
  static observedAttributes = ["data", "stopped", "no-question", "no-answer", "open-at", "answers-without"];
  static shown = new Set();

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
    this.told = h("p", { class: "hidden", role: "status" }); // stays, so that what changes is told once
    this.shadowRoot.append(this.told);
    this.sizes = new ResizeObserver(() => this.place());
  }

  get data() { return this.content; }

  set data(data) {
    this.content = data;
    if (this.isConnected) this.render();
  }

  connectedCallback() {
    for (const other of AttribotAnswer.shown) other.close(); // what was opened belongs to the last question
    const { removed } = AttribotAnswer; // by a page that makes the element anew with each verdict
    if (removed?.content?.answer && removed.content.answer === this.content?.answer) this.pinned = removed.pinned;
    AttribotAnswer.shown.add(this);
    this.sizes.observe(this);
    this.connected = new AbortController();
    const on = (type, listener) => document.addEventListener(type, listener, { signal: this.connected.signal });
    on("selectionchange", () => this.narrow());
    on("keydown", (event) => event.key === "Escape" && this.narrowed && !event.composedPath().includes(this) && this.close());
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

  render() {
    if (!this.content) return;
    this.unglance();
    const [before, top, active] = [this.pinned, this.panel?.scrollTop ?? 0, this.shadowRoot.activeElement];
    const focused = active ? this.prose.spans.findIndex((span, index) => span === active || (index === before?.index && this.panel.contains(active))) : -1;
    const receipts = (this.receipts = new Receipts(this.content, this.hasAttribute("stopped")));
    [this.prose, this.documents, this.card] = [Prose, Documents, Card].map((part) => new part(this));
    this.pinned = this.anchor = this.start = this.back = this.open = this.narrowed = null;
    this.panel = h("aside", { class: "panel", "aria-label": "Where this comes from", touchstart: ({ touches }) => (this.from = touches[0]), touchend: (event) => this.swiped(event) });
    this.peek = h("div", { class: "peek", popover: "manual", "aria-hidden": "true" });
    this.main = h("div", { class: "main" },
      receipts.question && !this.hasAttribute("no-question") && h("h2", { class: "question", dir: "auto" }, visible(receipts.question)),
      this.prose.header(),
      h("div", { class: "answer", dir: "auto", hidden: this.hasAttribute("no-answer") }, this.prose.text()));
    for (const old of [...this.shadowRoot.children]) if (old !== this.told) old.remove();
    this.frame = h("div", { class: "frame", keydown: (event) => this.pressed(event) }, this.main,
      receipts.judged.length > 0 && h("div", { class: "reading" }, this.prose.legend()));
    this.shadowRoot.prepend(this.frame, this.peek);
    this.tell(this.main.querySelector(".counts")?.innerText ?? "");
    if (receipts.judged.length) this.overview();
    this.place();
    // What was open stays open when more verdicts come.
    const same = receipts.judged.find(({ index, words }) => index === before?.index && words === before.words);
    if (same) (this.fill(this.card.of(same), same), (this.panel.scrollTop = top));
    if (this.prose.spans[focused]) this.focusOn(this.prose.spans[focused]);
  }

  tell(text) {
    const line = text.replace(/\s+/g, " ").trim();
    if (this.told.textContent !== line) this.told.textContent = line;
  }

  overview() {
    filled(this.panel, (this.start ??= this.documents.overview())); // kept, so that what was opened in it stays open
    this.back = null;
  }

  // A whole document in place of the panel's contents, which come back to `opener`.
  show(contents, opener) {
    const [before, top] = [[...this.panel.childNodes], this.panel.scrollTop];
    filled(this.panel, contents);
    this.back = () => {
      this.back = null;
      this.panel.replaceChildren(...before);
      this.panel.scrollTop = top;
      opener.focus();
    };
    this.panel.querySelector(".whole").focus({ preventScroll: true });
    this.panel.scrollTop = 0;
    const [bar, first] = [".controls", ".cited mark"].map((name) => this.panel.querySelector(name));
    if (first) this.panel.scrollTop = first.getBoundingClientRect().top - bar.getBoundingClientRect().bottom;
    (first || bar).scrollIntoView({ block: "nearest" });
  }

  // Shows a sentence's card where it stays, whatever the pointer does then.
  pin(sentence, { number, focus } = {}) {
    const span = this.prose.spans[sentence.index];
    this.unglance();
    this.fill(this.card.of(sentence), sentence);
    this.tell(`Sentence ${sentence.number}. ${this.receipts.told(sentence)}`);
    if (focus) this.focusOn(span);
    span.scrollIntoView({ block: this.mode === "sheet" ? "start" : "nearest" });
    const block = number && this.panel.querySelector(`.document[data-number="${number}"]`);
    if (block) block.classList.add("chosen");
    const marks = [...(block || this.panel).querySelectorAll("mark")];
    const best = this.receipts.ranked(sentence).map((id) => marks.find((mark) => mark.dataset.source === String(id))).find(Boolean) || marks[0];
    // As many marks of its quote as there is room for, the best in any case; beside them the sentence, or above them what differs.
    const [title, quote] = [this.panel.querySelector("h2"), best?.closest("blockquote")];
    const last = this.mode === "sheet" ? sentence.state === "check" && title : span;
    for (const node of [...marks.filter((mark) => quote?.contains(mark)).reverse(), best || title, last || best || title]) node.scrollIntoView({ block: "nearest" });
  }

  // The panel with a card, of a sentence or of what is selected before `anchor`.
  fill(contents, sentence, anchor = this.prose.spans[sentence.index]) {
    filled(this.panel, contents);
    this.panel.scrollTop = 0;
    this.open = true;
    this.back = null;
    [this.pinned, this.narrowed, this.anchor] = [sentence, !sentence, anchor];
    this.place();
  }

  close() {
    if (!this.open) return;
    const span = this.shadowRoot.activeElement && this.anchor;
    if (this.narrowed) document.getSelection().removeAllRanges();
    this.pinned = this.open = this.narrowed = null;
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
    this.pin(sentences.find((sentence) => sentence.index > (this.pinned?.index ?? -1)) || sentences[0], { focus: true });
  }

  // To the next sentence; the focus stays on the button that was used, if one was.
  step(by, label) {
    const { judged } = this.receipts;
    const next = judged[judged.indexOf(this.pinned) + by];
    if (!next) return;
    this.pin(next, { focus: !label });
    if (label) this.panel.querySelector(`[aria-label="${label}"]`).focus({ preventScroll: true });
  }

  // A small card beside a sentence that is pointed at or focused.
  glance(sentence) {
    if (this.mode === "sheet" || this.pinned === sentence || this.narrowed || !this.isConnected) return;
    const rect = this.prose.spans[sentence.index].getBoundingClientRect();
    filled(this.peek, this.card.glance(sentence));
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

  // The selected range of the answer, null without one.
  selection() {
    const [chosen] = document.getSelection().getComposedRanges?.({ shadowRoots: [this.shadowRoot] }) ?? [];
    this.caret = chosen?.startContainer;
    if (!chosen || chosen.collapsed || !this.main.contains(chosen.startContainer)) return null;
    const range = document.createRange();
    range.setStart(chosen.startContainer, chosen.startOffset);
    range.setEnd(chosen.endContainer, chosen.endOffset);
    return range;
  }

  // The card shows what caused the selected words of the answer.
  narrow() {
    if (!this.receipts?.evidence.length || !this.receipts.inNats) return;
    const range = this.selection();
    const touched = range ? this.receipts.judged.map((sentence) => this.prose.selected(sentence, range)) : [];
    const chosen = touched.some(({ words }) => contentOf(words, true).length) ? touched.filter(({ tokens }) => tokens.length) : [];
    if (!chosen.length) {
      if (!this.narrowed || this.panel.contains(this.caret)) return; // a press in the card
      this.narrowed = this.anchor = null; // the selection and the focus stay where they went
      return void this.close();
    }
    const words = brief(chosen.map((part) => part.words).join(" "), 60);
    const contents = this.card.ofWords(words, chosen[0].sentence, this.receipts.behind(chosen));
    this.fill(contents, null, this.prose.spans[chosen.at(-1).sentence.index]);
  }

  // A column beside the answer; on a phone a sheet over the page; else it follows the sentence.
  place() {
    if (!this.panel?.hasChildNodes()) return;
    this.prose.spans.forEach((span, index) => span.setAttribute("aria-expanded", String(index === this.pinned?.index)));
    const phone = matchMedia(`(max-width: ${PHONE}px)`).matches;
    this.mode = phone ? "sheet" : this.clientWidth >= COLUMN ? "column" : "below";
    this.frame.className = `frame ${this.mode}${this.open ? " open" : ""}`;
    const before = this.mode === "below" && this.open && this.anchor;
    if (before ? before.nextSibling !== this.panel : this.panel.parentNode !== this.frame)
      (before || this.main).after(this.panel);
    if (!phone || !this.open) {
      if (this.panel.matches(":popover-open")) this.panel.hidePopover();
      this.panel.removeAttribute("popover");
      this.frame.style.removeProperty("padding-bottom");
      return;
    }
    this.panel.setAttribute("popover", "manual");
    if (!this.panel.matches(":popover-open")) this.panel.showPopover?.();
    this.frame.style.setProperty("padding-bottom", "60vh"); // room to scroll the last sentence above it
  }

  pressed(event) {
    const index = this.prose.spans.indexOf(event.target.closest?.(".sentence"));
    if (event.key === "Escape") return void (this.unglance(), this.back ? this.back() : this.close());
    if (index < 0) return;
    const { judged, sentences } = this.receipts;
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.pinned === sentences[index] ? this.close() : this.pin(sentences[index]);
    else if (by && this.pinned) this.step(by);
    else if (by) this.prose.spans[judged[judged.indexOf(sentences[index]) + by]?.index]?.focus();
    else return;
    event.preventDefault();
  }

  swiped({ changedTouches: [touch] }) {
    const [x, y] = [touch.clientX - this.from.clientX, touch.clientY - this.from.clientY];
    if (this.pinned && !this.back && Math.abs(x) > 60 && Math.abs(x) > 2 * Math.abs(y)) this.step(x < 0 ? 1 : -1);
  }
}

if (!customElements.get("attribot-answer")) customElements.define("attribot-answer", AttribotAnswer);
