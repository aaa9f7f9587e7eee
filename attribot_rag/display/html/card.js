const FULL = 20; // nats: the length of a whole bar
const signed = (score) => score.toFixed(1).replace("-", "−");
const nats = (score, exact = true) => `${signed(score)} nats${exact ? "" : " (approximate)"}`;
const times = (score) => (score < 14 ? `about ${Number(Math.exp(score).toPrecision(2)).toLocaleString("en")} times less likely` : "more than a million times less likely");

// What made the model write a sentence, or some words of it.
class Card extends Part {
  of(sentence) {
    const { receipts } = this;
    const [meaning, [missing, beside], earlier] = [receipts.meaning(sentence), receipts.missing(sentence), receipts.earlier(sentence)];
    const cited = receipts.cited(receipts.ranked(sentence));
    return [
      this.controls(sentence), h("h2", {}, receipts.verdict(sentence)),
      this.answer.hasAttribute("no-answer") && h("p", { class: "said", dir: "auto" }, brief(sentence.shown, 300)),
      receipts.miscited(sentence) && h("p", { class: "missing" }, receipts.miscited(sentence)),
      receipts.absence(sentence) && h("p", { class: "missing", dir: "auto" }, receipts.absence(sentence)),
      missing && h("p", { class: "missing" }, "Not in the marked text: ", h("span", { dir: "auto" }, visible(missing))),
      beside && h("p", { class: "missing" }, "Not in the marked text, but beside it: ", h("span", { dir: "auto" }, visible(beside))),
      sentence.state === "check" && sentence.checks.map((check) => h("p", { class: "alert" }, receipts.comparison(check))),
      (cited.length > 0 || earlier) && this.compared(),
      earlier && [h("h3", {}, `Sentence ${earlier.number}`), h("blockquote", { class: "text", dir: "auto" }, h("mark", {}, this.answer.documents.shared(earlier.words, sentence))),
        h("div", { class: "actions" }, this.to(earlier, null, "Go to "))],
      cited.length ? cited.map(([index, places]) => this.block(sentence, index, places)) : sentence.documents.map((index) => this.block(sentence, index, [])),
      ["document", "check"].includes(sentence.state) && this.strength(sentence), meaning && h("p", {}, meaning), this.experts(sentence, sentence.evidence)];
  }

  // What the marks do not say.
  compared() {
    return h("p", { class: "compared" }, h("b", {}, "Compare it with the text yourself:"), ` ${COMPARED}`);
  }

  // Of words that were selected in a sentence, or in several; `evidence` is above the noise, most effect first.
  ofWords(words, sentence, evidence) {
    const chosen = { ...sentence, sources: evidence.map((row) => row.source), documents: [], effect: null, kept: null, reliance: null };
    return [
      h("div", { class: "controls" }, this.closer()),
      h("h2", {}, evidence.length ? `Behind “${words}”` : `No document has a measurable influence on “${words}” alone.`),
      this.receipts.cited(chosen.sources).map(([index, places]) => this.block(chosen, index, places)),
      evidence.length > 0 && this.strength({ effect: evidence[0].score, sources: [evidence[0].source] }), this.experts(chosen, evidence)];
  }

  // The small card beside a sentence: what it cites, most effect first.
  glance(sentence) {
    const { receipts } = this;
    const number = (index) => sentence.documents.length > 1 && receipts.documents.get(index)?.number;
    const quoted = (text, index) => h("blockquote", { class: "text", dir: "auto" }, number(index) && [pill(number(index)), " "], h("mark", {}, this.answer.documents.shared(brief(text, 200), sentence)));
    const earlier = receipts.earlier(sentence);
    const places = receipts.ranked(sentence).flatMap((id) => receipts.places(id).slice(0, 1)).slice(0, 3);
    return [
      h("p", { class: sentence.state === "check" ? "alert" : "" }, receipts.told(sentence)), earlier && quoted(earlier.words), places.map((place) => quoted(receipts.text(place), place.document)),
      sentence.documents.slice(0, 3).map((index) => h("span", { class: "name" }, receipts.documents.get(index)?.number && pill(receipts.documents.get(index).number), " ", receipts.name(index)))];
  }

  controls(sentence) {
    const count = this.receipts.judged.length;
    const to = (label, sign, by, end) => button({ "aria-label": label, "aria-disabled": sentence.number === end && "true", click: () => this.answer.step(by, label) }, sign);
    return h("div", { class: "controls" }, to("Previous sentence", "‹", -1, 1), h("span", {}, `Sentence ${sentence.number} of ${count}`), to("Next sentence", "›", 1, count), this.closer());
  }

  to(sentence, name, words = "") {
    return button({ class: name, click: () => this.answer.pin(sentence, { focus: true }) }, `${words}sentence ${sentence.number}`);
  }

  strength(sentence) {
    const { name, said } = LEVELS[this.receipts.level(sentence)] || {};
    const it = sentence.relation === "either" ? "any of it" : sentence.sources.length > 1 ? "them" : "it";
    return name && h("p", { class: "level" }, "Influence on the model: ", h("b", {}, name), ` (without ${it}, ${said}; what it said may still be wrong)`);
  }

  // A document of a card: its name, what is cited with its neighbours, and what can be done.
  block(sentence, index, places) {
    const { answer, receipts } = this;
    const { number, url } = receipts.documents.get(index) || {};
    const where = receipts.where(index, places);
    const cites = (other) => places.some(({ id }) => other.sources.includes(id));
    const others = receipts.judged.filter((other) => other !== sentence && other.state !== "cut" && cites(other));
    const outline = (on) => () => answer.prose.spans.forEach((span, each) => span.classList.toggle("caused", on && cites(receipts.sentences[each])));
    const values = { sentence: sentence.index, number, index };
    const address = answer.getAttribute("open-at")?.replace(/\{(sentence|number|index)\}/g, (_, name) => values[name]) || url || "";
    const href = /^(https?:\/\/|\/(?!\/)|#)/.test(address) && address;
    return h("section", { class: `document ${colour(number)}`, "data-number": number ?? "" },
      h("h3", {}, number && pill(number), " ", h("span", { dir: "auto" }, receipts.name(index)), where && [" ", h("small", { dir: "auto" }, where)]),
      h("div", { class: "quotes", pointerenter: outline(true), pointerleave: outline(false) }, answer.documents.quoted(index, places, sentence)),
      others.length > 0 && h("p", { class: "also" }, "Also behind ", others.slice(0, 8).map((other) => this.to(other, "to"))),
      h("div", { class: "actions" },
        href && h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, answer.hasAttribute("open-at") ? "Open at this place" : "Open the document"),
        !answer.hasAttribute("open-at") && receipts.texts[index] != null && places.length > 0 &&
          button({ click: (event) => answer.show(answer.documents.whole(index, places, sentence), event.currentTarget) }, "Open at this place"),
        answer.hasAttribute("answers-without") && button({ click: (event) => this.leaveOut(event.currentTarget, number, index) }, `Answer without ${receipts.name(index)}`)));
  }

  // The other answer, which the page gives, beside this one.
  async leaveOut(pressed, number, index) {
    const [name, { answer, sentences }] = [this.receipts.name(index), this.receipts];
    const before = answer ?? sentences.map((sentence) => sentence.text).join(" ");
    const result = h("div", { class: "without" }, `Answering without ${name}…`);
    pressed.disabled = true;
    this.answer.panel.querySelector(".without")?.remove();
    pressed.closest(".actions").after(result);
    const other = new Promise((resolve) => this.answer.dispatchEvent(new CustomEvent("attribot-without", {
      bubbles: true, composed: true, detail: { document: index, number, name, respond: resolve } })));
    try {
      const text = String(await other);
      filled(result, [h("h3", {}, `Without ${name}`), h("p", { class: "text", dir: "auto" },
        text.trim() === before.trim() ? "The model gives the same answer." : difference(before, text))]);
    } catch (error) {
      filled(result, [`There is no other answer: ${visible(error.message)}`]);
    }
    pressed.disabled = false;
    result.scrollIntoView({ block: "nearest" });
  }

  experts(sentence, evidence) {
    const { receipts } = this;
    const text = ({ source }) => receipts.places(source).slice(0, 1).map((place) => receipts.text(place)).join("");
    const above = evidence.filter((row) => !receipts.inNats || row.score >= NOISE || (row.score <= -NOISE && !/^#{1,6} .*$/.test(text(row))));
    const exact = above.filter((row) => sentence.sources?.includes(row.source)).every((row) => row.exact);
    const best = evidence.length ? Math.max(...evidence.map((row) => row.score)) : null;
    const lines = [
      sentence.effect != null && receipts.inNats && (sentence.state in ORIGINS
        ? `Without ${ORIGINS[sentence.state]}, the sentence is ${times(sentence.effect)}: ${nats(sentence.effect)}.`
        : sentence.follows == null
        ? `Cited sources: ${nats(sentence.effect, exact)}${above.length && exact ? ", exact" : ""}. Without them the sentence is ${times(sentence.effect)}.`
        : `Earlier sentences: ${nats(sentence.effect)}. Without them the sentence is ${times(sentence.effect)}.`),
      sentence.kept != null && `With only the cited text, ${Math.round(100 * sentence.kept)} % of the effect of all documents remains.`,
      sentence.reliance != null && receipts.inNats && `All documents: ${nats(sentence.reliance)}.`,
      best != null && !above.length && !sentence.sources?.length && `Strongest source: ${nats(best)}, within the noise (below ${NOISE}).`,
      evidence.length === 0 && receipts.evidence.length > 0 && "No source was scored."];
    return h("details", { class: "experts" }, h("summary", {}, "For experts"), lines.filter(Boolean).map((line) => h("p", {}, line)),
      above.length > 0 && h("table", {}, h("caption", {}, receipts.inNats ? `Scores in nats; a whole bar is ${FULL}` : `Scores in ${visible(receipts.summary.unit || "")}`), above.map((row) => this.bar(row, text(row)))));
  }

  bar({ score, exact }, text) {
    const meter = this.receipts.inNats && h("meter", { max: FULL, value: Math.abs(score), "aria-hidden": "true" });
    return h("tr", { class: score < 0 ? "negative" : "" }, h("td", {}, signed(score), !exact && h("small", {}, " (approximate)")), h("td", {}, meter), h("td", { dir: "auto" }, brief(text, 120)));
  }
}
