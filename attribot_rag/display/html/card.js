const signed = (score) => score.toFixed(1).replace("-", "−");
// What comes into sight when it is unfolded.
const folded = (title, ...children) => h("details", { toggle: ({ target }) => target.open && target.scrollIntoView({ block: "nearest" }) }, h("summary", {}, title), children);

// What stands in the panel: a sentence's card, a document, or how to read all this.
class Card {
  constructor(answer) {
    const { receipts } = answer;
    Object.assign(this, { answer, receipts, say: receipts.say, quotes: new Quotes(receipts) });
  }

  // The bar over what stands in the panel.
  controls(...children) {
    return h("div", { class: "controls" }, children, button({ class: "closer", "aria-label": this.say("close"), click: () => this.answer.close() }, "✕"));
  }

  of(sentence, chosen) {
    const { receipts, say } = this;
    const [meaning, earlier, shared, { also }] = [receipts.meaning(sentence), receipts.earlier(sentence), receipts.shared(sentence), sentence];
    const files = [...sentence.files].sort((a, b) => (b === chosen) - (a === chosen));
    const joint = shared === "same" || shared === "either"; // without one of them alone the answer stays
    const to = (label, sign, next) => button({ "aria-label": say(label), "aria-disabled": !next && "true", click: () => {
      if (next) this.answer.choose(next);
      this.answer.panel.querySelector(`[aria-label="${say(label)}"]`).focus({ preventScroll: true });
    } }, sign);
    const places = (file) => receipts.cited(file, [sentence]);
    return [
      this.controls(h("h2", { dir: "auto" }, receipts.told(sentence), files.length === 1 && [" ", h("small", { dir: "auto" }, receipts.where(places(files[0])))]),
        receipts.judged.length > 1 && [to("previous", "‹", receipts.judged[sentence.number - 2]), h("span", { class: "place dim" }, sentence.place), to("next", "›", receipts.judged[sentence.number])]),
      this.answer.hasAttribute("no-answer") && h("p", { class: "dim", dir: "auto" }, brief(sentence.shown, 300)),
      sentence.notes.filter(({ kind }) => kind === "remarks").map(({ file, text }) => h("p", { class: "alert" }, file ? this.reference(file, sentence, text) : text)),
      meaning && h("p", {}, meaning), joint && this.counterfactual(files, sentence),
      earlier && [h("blockquote", { part: "quote", dir: "auto" }, h("mark", {}, this.quotes.bold(earlier.words, sentence))), h("div", { class: "actions" }, button({ click: () => this.answer.choose(earlier) }, say("goto", { n: earlier.number })))],
      also.length > 0 && h("section", { class: "document" }, this.quotes.of(also, sentence), h("div", { class: "actions" }, this.opener(receipts.file(also[0].document), also, sentence))),
      files.map((file) => h("section", { class: `document ${file.colour}`, "data-name": file.name },
        files.length > 1 && h("h3", { dir: "auto" }, file.name, " ", h("small", {}, receipts.where(places(file)))),
        this.quotes.of(places(file), sentence), files.length === 1 && this.why(sentence),
        joint ? h("div", { class: "actions" }, this.opener(file, places(file), sentence)) : this.counterfactual([file], sentence, this.opener(file, places(file), sentence)))),
      files.length !== 1 && this.why(sentence)];
  }

  // What is behind selected words of a sentence alone: `rows` are the sources above the noise.
  ofWords({ sentence, words, rows }) {
    const places = rows.flatMap(({ source }) => this.receipts.places(source));
    const files = this.receipts.filesOf(places);
    return [
      this.controls(h("h2", { dir: "auto" }, this.say(rows.length ? "behind" : "alone", { words: brief(words, 60) }))),
      files.map((file) => h("section", { class: `document ${file.colour}` }, h("h3", { dir: "auto" }, file.name), this.quotes.of(places.filter(({ document }) => file.indices.includes(document)), sentence)))];
  }

  // What a file says, which opens it there.
  reference(file, sentence, text) {
    return button({ class: "entry", click: () => this.answer.fill({ file, sentence }) }, text);
  }

  // Opens a file where it is cited: at the page's address, at its own, or in the panel.
  opener(file, places, sentence) {
    const { answer, receipts } = this;
    const index = places[0]?.document ?? file.indices[0];
    const { number, url } = receipts.documents.get(index) || {};
    const values = { sentence: sentence?.index, number, index };
    const address = answer.getAttribute("open-at")?.replace(/\{(sentence|number|index)\}/g, (_, name) => values[name] ?? "") || url || "";
    const open = (event) => answer.tells("attribot-open", { ...values, document: index, name: file.name, href }) || event.preventDefault();
    const href = /^(https?:\/\/|\/(?!\/)|#)/.test(address) && address;
    if (href) return h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow", click: open }, this.say("view"));
    return receipts.texts[index] != null && button({ click: (event) => (open(event), event.defaultPrevented || answer.fill({ file, sentence })) }, this.say("view"));
  }

  // What the model answers without some files, as it was told or as the page tells it when asked, over other actions.
  counterfactual(files, sentence, ...actions) {
    const { answer, say } = this;
    const documents = files.flatMap(({ indices }) => indices).sort((a, b) => a - b);
    const box = h("div", { class: "counterfactual", part: "counterfactual", hidden: true });
    const told = (...children) => {
      filled(box, children);
      if (asker) asker.remove();
      box.hidden = false;
      answer.room();
    };
    const ask = async () => {
      told(say("leaving", { names: this.receipts.names(files) }));
      try {
        const asked = new Promise((respond) => answer.tells("attribot-without", { documents, names: files.map(({ name }) => name), respond }));
        answer.others.set(`${documents}`, String(await asked));
        told(this.compared(files, sentence, answer.others.get(`${documents}`)));
      } catch (error) {
        told(say("nothing", { why: visible(error.message) }));
      }
      box.scrollIntoView({ block: "nearest" });
    };
    const known = answer.others.get(`${documents}`);
    const asker = known == null && answer.hasAttribute("answers-without") && button({ click: ask }, say("leave", { names: this.receipts.names(files) }));
    if (known != null) told(this.compared(files, sentence, known));
    return [box, h("div", { class: "actions" }, asker, actions)];
  }

  // Another answer, its new facts marked.
  compared(files, sentence, text) {
    const { receipts, say } = this;
    const before = receipts.answer ?? receipts.sentences.map((sentence) => sentence.text).join(" ");
    const title = h("p", { class: "dim title" }, say("without", { names: receipts.names(files) }));
    if (text.split(/\s+/).join(" ").trim() === before.split(/\s+/).join(" ").trim()) return [title, say("equal")];
    const [old, content, words] = [keysOf([before]), contentOf(text), wordsOf(text)];
    const few = 2 * words.filter(({ key }) => !old.has(key)).length <= words.length;
    const facts = content.filter((word) => (few || word.isNumber || word.isName) && !old.has(word.key)).slice(0, few ? 99 : 12);
    const home = receipts.files.filter((file) => !files.includes(file) && file.indices.some((index) => receipts.texts[index] != null && !lacking(keysOf([receipts.texts[index]]), facts).length));
    return [
      title, h("p", { class: "text", dir: "auto" }, marked(text, new Set(facts.map(({ key }) => key)), "ins")),
      home.length === 1 && facts.length > 0 && facts.length < 4 && !sentence.rivals.some(({ file }) => file === home[0]) && this.reference(home[0], sentence, say("says", { values: some(facts), name: home[0].name }))];
  }

  // The figures, folded.
  why(sentence) {
    const { receipts, say } = this;
    const [level, { evidence, effect, reliance, state }] = [receipts.level(sentence), sentence];
    const rows = evidence.filter((row) => !receipts.inNats || Math.abs(row.score) >= NOISE);
    const score = (value) => `${rows.every((row) => row.exact) ? "" : `${say("rough")} `}${signed(value)}`;
    const times = effect < 14 ? say("times", { n: Number(Math.exp(effect).toPrecision(2)).toLocaleString(receipts.language) }) : say("million");
    const lines = [
      !receipts.reads && state === "document" && level >= 0 && `${say("levels", { at: level })} ${say("truth")}`,
      sentence.wrong.length > 0 && say("wrong", { n: sentence.wrong.length, labels: sentence.wrong.join(", ") }),
      receipts.inNats && (effect != null ? say("effect", { score: score(effect), times }) : !receipts.reads && reliance != null && say("all", { much: say("much", { at: much(reliance) }), score: signed(reliance) }))].filter(Boolean);
    const scored = ({ source, score: value }) => {
      const places = receipts.places(source);
      const text = brief(cellsOf(receipts.text(places[0] ?? {})).join(" · "), 120);
      return h("tr", {}, h("td", {}, signed(value)), h("td", { dir: "auto" }, h("b", {}, receipts.names(receipts.filesOf(places))), " ", text));
    };
    return (lines.length > 0 || rows.length > 0) && folded(say("why"), lines.map((line) => h("p", { dir: "auto" }, visible(line))),
      rows.length > 1 && h("table", {}, rows.map(scored)));
  }

  // A whole file as far as the model read it, with all that is cited marked, or what a sentence cites.
  file(file, sentence) {
    const { receipts, say } = this;
    const places = receipts.cited(file, sentence ? [sentence] : receipts.judged);
    return [
      this.controls(sentence && button({ "aria-label": say("back"), click: () => this.answer.choose(sentence, { file: sentence.files.find((one) => one === file), focus: true }) }, "←"), h("h2", { dir: "auto" }, file.name)),
      file.indices.filter((index) => receipts.texts[index] != null).map((index) => h("div", { class: "whole", dir: "auto" }, this.quotes.marked(index, places.filter((place) => place.document === index && place.text == null), sentence))),
      h("div", { class: "actions" }, (this.answer.hasAttribute("open-at") || receipts.documents.get(file.indices[0])?.url) && this.opener(file, places, sentence ?? receipts.judged.find(({ files }) => files.includes(file))))];
  }

  // How to read this, and what is left to say of the answer.
  help() {
    const { receipts, say } = this;
    const { summary, files } = receipts;
    const unused = files.filter((file) => !receipts.named.includes(file));
    const lost = (file) => file.indices.every((index) => receipts.documents.get(index)?.located === false) && ` (${say("lost")})`;
    const entry = (file) => (file.indices.some((index) => receipts.texts[index] != null) ? this.reference(file, null, file.name) : file.name);
    const notes = [["partial", "composite"].includes(summary.status) && say(summary.status), ...(summary.notes || []).map(visible)].filter(Boolean);
    return [
      this.controls(h("h2", {}, say("help"))), ["read1", "read2", "colours", "read3"].map((key) => h("p", {}, say(key))),
      unused.length > 0 && folded(say("unused", { n: unused.length }), h("ul", {}, unused.map((file) => h("li", { dir: "auto" }, entry(file), lost(file))))),
      notes.length > 0 && folded(say("notes"), h("ul", {}, notes.map((note) => h("li", {}, note))))];
  }
}
