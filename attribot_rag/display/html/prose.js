const GLUE = "\u00a0"; // keeps numbers and chips on the line of the last word
const HOVER = 250; // milliseconds until a card springs up under the pointer

// Beside the panel: the counts, the answer, and how to read it. `spans` are the sentences' nodes.
class Prose extends Part {
  spans = [];

  // The counts, each of which leads through its sentences.
  header() {
    const { judged, summary } = this.receipts;
    const waiting = summary.status === "pending" && "Checking sources…";
    if (waiting && !judged.length) return h("p", { class: "counts waiting" }, waiting);
    if (summary.error) return h("p", { class: "counts" }, `The sources could not be checked: ${visible(summary.error.message)}`);
    if (!judged.length) return null;
    const counts = Object.keys(STATES).map((state) => {
      const sentences = judged.filter((sentence) => sentence.state === state);
      const text = `${sentences.length}${state === "document" ? ` of ${plural(judged.length, "sentence")}` : ""} ${STATES[state].counted}`;
      if (sentences.length) return button({ class: `count ${state}`, click: () => this.answer.walk(sentences) }, text);
      return state === "document" && h("span", {}, text);
    });
    const strange = judged.filter(({ state, absent }) => state !== "check" && absent.length);
    if (strange.length) counts.push(button({ class: "count", click: () => this.answer.walk(strange) }, `${strange.length} with words that no document has`));
    return h("div", { class: "counts" }, h("span", { class: "strip", "aria-hidden": "true", title: "Each bar is a sentence" }, judged.map((sentence) =>
      h("i", { class: `${sentence.state}${sentence.absent.length ? " absent" : ""}`, title: `Sentence ${sentence.number}: ${this.receipts.chip(sentence) || STATES[sentence.state].counted}`, click: () => this.answer.pin(sentence, { focus: true }) }))), counts,
      waiting && h("span", {}, waiting),
      summary.status === "partial" && h("span", {}, "Not everything could be checked."),
      summary.status === "composite" && h("span", {}, "Made from earlier answers, each of which is followed to its documents."));
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
    for (const [index, call] of (sentences.length ? [] : this.numbered(summary.calls || [])).entries()) {
      const [start, last] = summary.places?.[index] || [points.length, points.length];
      upTo(start);
      end = last;
      parts.push(h("attribot-answer", { data: JSON.stringify(call), "no-question": true }));
    }
    if (answer !== null && (!sentences.length || sentences.at(-1).placed)) upTo(points.length);
    return parts;
  }

  // Summaries of earlier answers whose documents have the same number in all of them, as in its text.
  numbered(calls) {
    const numbers = new Map();
    const key = ({ id, index }, call) => id ?? `${call} ${index}`;
    return calls.map((call, at) => {
      const cited = (call.documents || []).filter(({ number }) => number).sort((a, b) => a.number - b.number);
      for (const document of cited)
        if (!numbers.has(key(document, at))) numbers.set(key(document, at), at ? Math.max(0, ...numbers.values()) + 1 : document.number);
      const documents = (call.documents || []).map((document) => ({ ...document, number: document.number && numbers.get(key(document, at)) }));
      return { ...call, documents: documents.sort((a, b) => (a.number || Infinity) - (b.number || Infinity)) };
    });
  }

  span(sentence) {
    if (sentence.state === "plain" || !sentence.words) return visible(sentence.words);
    const { answer } = this;
    const joint = { either: " or ", together: " + " }[sentence.relation] || " ";
    const pills = sentence.numbers.flatMap((number, index) => [
      index ? h("span", { class: joint === " + " ? "joint" : "hidden" }, joint) : null, index && joint !== " + " ? GLUE : null, pill(number)]);
    const chip = this.receipts.chip(sentence);
    const long = chip?.length > 20;
    const span = h("span", {
      class: `sentence ${sentence.state}`, role: "button", tabindex: "0", "aria-expanded": "false",
      // What a press focuses takes no selection that begins at its first letter.
      pointerdown: () => (answer.unglance(), span.removeAttribute("tabindex"), setTimeout(() => span.setAttribute("tabindex", "0"))),
      click: (event) => !answer.selection() && (span.classList.add("pressed"), answer.pin(sentence, { number: event.target.closest(".pill")?.dataset.number, focus: true })),
      pointerenter: (event) => event.pointerType === "mouse" && (answer.soon = setTimeout(() => answer.glance(sentence), HOVER)),
      pointerleave: () => answer.unglance(), focus: () => !answer.quiet && span.matches(":focus-visible") && answer.glance(sentence), blur: () => (answer.unglance(), span.classList.remove("pressed")),
    }, h("span", { class: "words" }, this.words(sentence)), pills.length > 0 && [GLUE, pills], chip && [long ? " " : GLUE, h("span", { class: `chip ${sentence.absent.length ? "absent " : ""}${sentence.state}${long ? " long" : ""}` }, chip)]);
    this.spans[sentence.index] = span;
    return span;
  }

  // A sentence's text with the values to check underlined. Hidden markers stay in it: positions count them.
  words(sentence) {
    const points = Array.from(sentence.words);
    const parts = [];
    let end = 0;
    const ranges = [
      ...sentence.checks.map((check) => ({ from: check.start - sentence.start, to: check.end - sentence.start, attributes: { class: "value" } })),
      ...sentence.markers.filter(({ hidden }) => hidden).map((marker) => ({ ...marker, attributes: { class: "marker", hidden: true } }))];
    for (const { attributes, ...range } of ranges.sort((a, b) => a.from - b.from)) {
      const [from, to] = [range.from, range.to].map((place) => Math.max(end, Math.min(place, points.length)));
      parts.push(visible(points.slice(end, from).join("")), to > from && h("span", attributes, visible(points.slice(from, to).join(""))));
      end = to;
    }
    return [...parts, visible(points.slice(end).join(""))];
  }

  legend() {
    const { summary, judged } = this.receipts;
    const states = Object.keys(STATES).filter((state) => judged.some((sentence) => sentence.state === state));
    const about = [summary.method && `Method: ${visible(summary.method).replaceAll("_", "-")}.`, summary.model && `Model: ${visible(summary.model)}.`,
      summary.seconds != null && `${summary.seconds.toFixed(1)} s.`, summary.retokenized && "Made from text, so the tokens need not be the model’s own."].filter(Boolean).join(" ");
    return [
      h("details", { class: "legend" }, h("summary", {}, "How to read this"),
        h("p", {}, "Each sentence shows what made the model write it. For every kind of sentence: that is no proof that it is right."),
        h("p", {}, "Choose a sentence to see its cause, or select some of its words. Arrow keys go to the next sentence, Escape closes."),
        h("p", {}, "Each bar above the answer is a sentence: filled if from the documents, striped if to check, thin if from what was said before, else framed."),
        h("dl", {}, states.map((state) => [h("dt", {}, STATES[state].counted), h("dd", {}, STATES[state].means)]),
          judged.some(({ absent }) => absent.length) && [h("dt", {}, "in no document"), h("dd", {}, "These words stand in no document. Others may mean the same there, or they are the model’s own.")])),
      h("details", { class: "legend about" }, h("summary", {}, "For experts"),
        (summary.notes || []).length > 0 && h("ul", {}, summary.notes.map((note) => h("li", {}, visible(note)))), h("p", {}, about))];
  }

  // The whole words of a sentence that a range touches, and their tokens.
  selected(sentence, range) {
    const shown = this.spans[sentence.index]?.querySelector(".words");
    const nothing = { sentence, words: "", tokens: [] };
    if (!shown || !range.intersectsNode(shown)) return nothing;
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
    if (!touched.length) return nothing;
    const [first, last] = [Math.min(from, touched[0].start), Math.max(to, touched.at(-1).end)];
    const [begin, stop] = [first, last].map((place) => Array.from(text.slice(0, place)).length);
    const tokens = (this.receipts.tokens[sentence.index] || []).flatMap(([start, end], token) => (start < stop && end > begin ? [token] : []));
    return { sentence, words: text.slice(first, last).trim(), tokens };
  }
}
