// What is in the panel: a sentence's card, a file, the passages, or how to read all this.
const ADDRESS = /^(https?:\/\/|\/(?!\/)|#)/; // of a file: elsewhere, or in the page
class Card {
  constructor(answer) {
    const { receipts } = answer;
    Object.assign(this, { answer, receipts, say: receipts.say, number: (value, digits = 1) => value.toLocaleString(receipts.language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−") });
  }

  // The bar over what is in the panel.
  controls(...children) {
    return h("div", { class: "controls" }, children, button({ class: "closer", "aria-label": this.say("close"), click: () => this.answer.close() }, "✕"));
  }

  // A passage's number, as it is in the answer.
  badge(index, look = "") {
    const { number } = this.receipts.passage(index);
    return number != null && h("span", { class: `chip ${look}` }, number);
  }

  of(sentence, chosen) {
    const { receipts, say } = this;
    const { documents, also, rivals, standing } = sentence;
    const to = (label, sign, next) => button({ "aria-label": say(label), "aria-disabled": !next && "true", click: () => {
      if (next) this.answer.choose(next);
      this.answer.panel.querySelector(`[aria-label="${say(label)}"]`).focus({ preventScroll: true });
    } }, sign);
    const named = [...new Set([...documents, ...also, ...rivals.map(({ document }) => document)])].sort((a, b) => (b === chosen) - (a === chosen));
    const [meaning, earlier, shared] = [receipts.meaning(sentence), receipts.earlier(sentence), receipts.shared(sentence)];
    const quoted = receipts.quoted(sentence, named).sort((a, b) => (b.document === chosen) - (a.document === chosen));
    const groups = sentence.state === "own" ? [] : [["same", "either"].includes(shared) ? documents : null, ...(shared === "same" || shared === "either" ? [] : documents.map((index) => [index]))].filter((group, at, all) => group?.length && all.findIndex((other) => `${receipts.whole(other ?? [])}` === `${receipts.whole(group)}`) === at);
    return [
      this.controls(h("h2", { dir: "auto" }, named.length === 1 ? [this.badge(named[0], sentence.chips.find(({ document }) => document === named[0])?.look), " ", receipts.passage(named[0]).name, " ", h("small", {}, receipts.passage(named[0]).page)] : h("span", { class: "dim place" }, sentence.place)),
        receipts.judged.length > 1 && [named.length === 1 && h("span", { class: "hidden place" }, sentence.place), to("previous", "‹", receipts.judged[sentence.number - 2]), to("next", "›", receipts.judged[sentence.number])]),
      h("p", { class: `verdict ${AMBER.includes(standing) || (standing == null && sentence.remarks.length) || sentence.chips.some(({ look }) => look === "warn") ? "warn" : ""}`, dir: "auto" }, receipts.told(sentence)),
      sentence.rest.map((line) => h("p", { dir: "auto" }, `${line.replace(/[.]$/, "")}.`)),
      meaning && h("p", { class: "dim" }, meaning),
      h("dl", { class: "pair" }, h("dt", {}, say("answerLine")), h("dd", { dir: "auto" }, this.claim(sentence)),
        quoted.map((place, at) => [h("dt", {}, (named.length > 1 && this.badge(place.document, sentence.compared.sources[place.id]?.differs.length ? "warn" : "")) || say(sentence.state === "own" ? "nearLine" : "sourceLine")), h("dd", { dir: "auto", part: "quote" }, named.length > 1 && place.document !== quoted[at - 1]?.document && this.opener(place.document, sentence, true), this.quote(place, sentence))])),
      earlier && h("div", { class: "actions" }, button({ click: () => this.answer.choose(earlier) }, say("goto"))),
      groups.map((group) => this.counterfactual(group)),
      AMBER.includes(standing) && this.answer.hasAttribute("searches") && this.search(sentence),
      named.length === 1 && h("div", { class: "actions" }, this.opener(named[0], sentence)),
      this.figures(sentence)];
  }

  // The sentence as it is in the answer, with what the source lacks and what it shares.
  claim(sentence) {
    const { receipts } = this;
    const shared = sentence.compared.same.map(([from, to]) => ({ from, to, class: "same" }));
    const painter = new Painter(receipts.points, { within: [sentence.start, sentence.end], ranges: [...sentence.values.map((range) => ({ ...range, class: "gap" })), ...shared] });
    return receipts.blocks ? painter.of(receipts.blocks) : visible(sentence.words);
  }

  // A source's text, with its other values marked, and what it shares with the sentence.
  quote({ id, document, start, end, plain, text }, sentence) {
    const { receipts } = this;
    const { same = [], differs = [] } = sentence.compared.sources[id] ?? {};
    const at = text == null && plain == null ? start : 0;
    const ranges = [...differs.map(([from, to]) => ({ from: at + from, to: at + to, class: "gap" })), ...same.map(([from, to]) => ({ from: at + from, to: at + to, class: "same" }))];
    if (text != null || plain != null) return new Painter(Array.from(plain ?? text), { ranges }).marked(0, Infinity);
    return new Painter(Array.from(receipts.texts[document] ?? ""), { ranges, within: [start, end] }).of(receipts.rendered[document] ?? [["plain", [start, end, -1]]]);
  }

  // Opens a passage's file where it is cited: at the page's address, at its own, or in the panel. Above a quote, `isName`, it is the file's name.
  opener(index, sentence, isName) {
    const { answer, receipts, say } = this;
    const { number, url, name, page } = receipts.passage(index);
    const values = { sentence: sentence?.index, number, index };
    const address = answer.getAttribute("open-at")?.replace(/\{(sentence|number|index)\}/g, (_, key) => values[key] ?? "") || url || "";
    const href = ADDRESS.test(address) && address;
    const open = (event) => answer.tells("attribot-open", { ...values, document: index, name, href }) || event.preventDefault();
    const label = isName ? [name, page].filter(Boolean).join(", ") : say("view");
    const look = isName && "name";
    if (href) return h("a", { href, class: look, ...ELSEWHERE, click: open }, label);
    if (receipts.texts[index] == null) return isName && h("small", { class: look }, label);
    return button({ class: isName && "name link", click: (event) => (open(event), event.defaultPrevented || answer.fill({ file: index, sentence })) }, label);
  }

  // What the model answers without some files, as it was told or as the page tells it when asked.
  counterfactual(documents) {
    const { answer, receipts, say } = this;
    const indices = receipts.whole(documents);
    const names = receipts.names(documents);
    const box = h("div", { class: "counterfactual", part: "counterfactual", hidden: true });
    const show = (...children) => (filled(box, children), asker && asker.remove(), (box.hidden = false));
    const ask = async () => {
      show(h("small", {}, say("leaving", { names })));
      try {
        show(this.other(await answer.without(indices), names));
      } catch (error) {
        show(say("nothing", { why: visible(error.message) }));
      }
      box.scrollIntoView({ block: "nearest" });
    };
    const known = answer.others.get(`${indices}`);
    const asker = known == null && answer.hasAttribute("answers-without") && button({ class: "link", click: ask }, say("leave", { names }));
    if (known != null && !known.then) show(this.other(known, names));
    else if (known != null) ask();
    return [box, asker];
  }

  // Another answer, with what the other passages say of each of its sentences.
  other(told, names) {
    const { receipts, say } = this;
    const { answer: text, blocks, short, said = [], is_same: isSame } = typeof told === "string" ? { answer: told } : told;
    const box = h("div", { class: "text", dir: "auto", tabindex: "-1" });
    const paint = (some) => filled(box, new Painter(Array.from(text), { cite: (sentence) => said[sentence] && this.saying(said[sentence]) }).of(some));
    const whole = !isSame && short && button({ class: "link", click: () => (paint(blocks), whole.remove(), box.focus()) }, say("whole"));
    if (blocks && !isSame) paint(short ?? blocks);
    else filled(box, isSame ? say("equal") : visible(text));
    return [h("small", {}, say("without", { names })), box, whole];
  }

  // What the other passages say of a sentence of another answer, as chips in the three looks.
  saying({ key, values, documents }) {
    const { receipts } = this;
    const [remark, named] = [{ key, values, documents }, receipts.names(documents)];
    const look = key.startsWith("say") ? "" : DASHED.test(key) ? "part" : "warn";
    // No cause was measured: these are only the closest.
    const label = look === "part" ? receipts.line(remark, sayer(receipts.language, true)) : !look && (key === "says" ? receipts.say(key, { names: named, n: receipts.count(documents) }) : receipts.line(remark));
    const texts = look === "warn" ? [receipts.remark(remark)] : documents.map((index) => `${receipts.passage(index).number ?? receipts.passage(index).name}`);
    return texts.map((text) => h("span", {}, "\u00a0", h("span", { class: `chip ${look}` }, brief(text, 40), { part: " ?", "": " ✓" }[look], label && h("span", { class: "hidden" }, ` ${label}`))));
  }

  // What all files have of a sentence's words, as the page finds it: also those of which no passage was read.
  search(sentence) {
    const { answer, receipts, say } = this;
    const box = h("div", { class: "found", role: "status" });
    const hit = ({ name, text, href, all, same = [] }) => h("li", { dir: "auto" }, ADDRESS.test(href ?? "") ? h("a", { href, ...ELSEWHERE }, brief(name)) : h("b", {}, brief(name)), all && h("small", {}, ` ${say("allWords")}`), ": ", new Painter(Array.from(text), { ranges: same.map(([from, to]) => ({ from, to })) }).marked(0, Infinity));
    const find = async ({ target }) => {
      target.disabled = true;
      const found = await new Promise((respond) => answer.tells("attribot-search", { sentence: sentence.index, text: receipts.plain(sentence), respond })).catch(() => []);
      filled(box, h("h3", {}, say("found")), found.length ? h("ul", {}, found.map(hit)) : say("nowhere", { text: brief(receipts.plain(sentence)) }));
      target.remove();
    };
    return [button({ class: "link", click: find }, say("search")), box];
  }

  // The figures, folded.
  figures(sentence) {
    const { receipts, say, number } = this;
    const { effect, reliance, evidence: rows, state, influence } = sentence;
    const score = (rows.every((row) => row.exact) ? "" : `${say("rough")} `) + number(effect ?? 0);
    const times = influence.times != null ? say("times", { n: influence.times.toLocaleString(receipts.language) }) : say("million");
    const level = LEVELS.indexOf(influence.level);
    const lines = [
      !receipts.reads && state === "document" && level >= 0 && `${say("levels", { at: level })} ${say("truth")}`,
      sentence.wrong.length > 0 && say("wrong", { n: sentence.wrong.length, labels: sentence.wrong.join(", ") }),
      receipts.inNats && influence.of_all !== undefined && (effect != null ? say("effect", { score, times }) : !receipts.reads && reliance != null && say("all", { much: say("much", { at: influence.of_all }), score: number(reliance) }))].filter(Boolean);
    const scored = ({ source, score: value }) => {
      const [{ document, start, end, plain, text } = {}] = receipts.places(source);
      const shown = plain ?? text ?? Array.from(receipts.texts[document] || "").slice(start, end).join("");
      return h("tr", {}, h("td", {}, number(value)), h("td", { dir: "auto" }, h("b", {}, receipts.names([...new Set(receipts.places(source).map((place) => place.document))])), " ", brief(shown.replace(/\s*\|\s*/g, " "), 120)));
    };
    if (!lines.length && !rows.length) return null;
    return h("details", { toggle: ({ target }) => target.open && target.scrollIntoView({ block: "nearest" }) }, h("summary", {}, say("figures")),
      lines.map((line) => h("p", { dir: "auto" }, visible(line))), rows.length > 1 && h("table", {}, rows.map(scored)));
  }

  // A whole passage as far as the model read it, with all that is cited marked, or what a sentence cites.
  file(index, sentence) {
    const { receipts, say } = this;
    const places = (sentence ? [sentence] : receipts.judged).flatMap((one) => receipts.quoted(one, [index])).filter(({ start }) => start != null);
    const painter = new Painter(Array.from(receipts.texts[index] ?? ""), { ranges: places.map(({ start, end }) => ({ from: start, to: end })) });
    return [
      this.controls(sentence && button({ "aria-label": say("back"), click: () => this.answer.choose(sentence, { file: index, focus: true }) }, "←"), h("h2", { dir: "auto" }, this.badge(index), " ", receipts.passage(index).name, " ", h("small", {}, receipts.passage(index).page))),
      h("div", { class: "whole", dir: "auto" }, painter.of(receipts.rendered[index] ?? [["plain", [0, painter.points.length, -1]]])),
      (this.answer.hasAttribute("open-at") || receipts.passage(index).url) && h("div", { class: "actions" }, this.opener(index, sentence))];
  }

  // The passages that the model was given: which were used, and which say otherwise. Below a card they are folded.
  list(isFolded) {
    const { receipts, say, answer } = this;
    const { searched, passages, reads, summary, disputing, used } = receipts;
    if (!passages.size) return [];
    const entry = ({ index, name, page, isLost }) => {
      const [isUsed, differs] = [used.has(index), disputing.has(index)];
      const looks = receipts.judged.flatMap(({ chips }) => chips.filter(({ document }) => document === index).map(({ look }) => look));
      const under = page || brief(receipts.headings[index] ?? "");
      const title = [name, under && h("small", {}, ` ${under}`)];
      const state = isLost ? say("lost") : isUsed || differs ? "" : say("unused");
      return h("li", { class: isUsed || differs ? "" : "off" }, this.badge(index, looks.includes("") ? "" : looks[0] ?? (differs ? "warn" : "")) || h("span", { class: "dim" }, "–"),
        h("div", {}, receipts.texts[index] != null ? button({ class: "title", "data-at": `passage ${index}`, dir: "auto", click: () => answer.fill({ file: index }) }, title) : h("span", { class: "title", dir: "auto" }, title),
          h("small", { class: "line", dir: "auto" }, !state && receipts.cited[index] ? h("mark", {}, visible(receipts.cited[index])) : [state, visible(receipts.lines[index] ?? "")].filter(Boolean).join(" · "))));
    };
    const rows = h("ol", {}, [...passages.values()].sort((a, b) => (a.number ?? Infinity) - (b.number ?? Infinity) || 0).map(entry));
    const toggle = ({ target }) => target.open && answer.panel.scrollIntoView({ block: "nearest" });
    return [
      isFolded ? h("details", { toggle }, h("summary", {}, answer.summary()), rows) : [h("h2", {}, say("where")), rows],
      h("p", { class: "about" }, searched && h("span", {}, say("searched", { files: searched.files, n: passages.size })),
        reads && h("span", { class: "reader" }, say("whoRead", { reader: visible(summary.model ?? ""), model: visible(summary.answered_by ?? say("another")) })),
        receipts.judged.length > 0 && button({ class: "link help", "data-at": "help", click: () => answer.fill({ help: true }) }, say("help")))];
  }

  // How to read this, and what is left to say of the answer.
  help() {
    const { receipts, say } = this;
    const { summary } = receipts;
    const notes = [["incomplete", "composite"].includes(summary.status) && say(summary.status), ...(summary.notes || []).map(visible)].filter(Boolean);
    return [
      this.controls(h("h2", {}, say("help"))), ["read1", "read2", "read3", "read4", "read5"].map((key) => h("p", {}, say(key))),
      notes.length > 0 && [h("h3", {}, say("notes")), h("ul", {}, notes.map((note) => h("li", {}, note)))]];
  }
}
