// What the element says, by language. `{name}` is replaced; of two texts, the first is for one (`n`), the second for several.
const STRINGS = {
  en: {
    where: "Passages", and: "and", or: "or", sourceOf: "Source of this sentence: {name}", answerLine: "Answer", sourceLine: "Source", nearLine: "Closest",
    lacks: "does not mention {value}", unjudged: "not from {texts}", cut: "answer cut off (length limit)", stopped: "stopped", open: "source unclear",
    follows: "follows from “{value}”", itself: "from the answer itself", conversation: "from the conversation", instructions: "from the instructions", asked: "from the question",
    reading: ["Reading {n} passage…", "Reading {n} passages…"], read: "Reading…", writing: "Writing…", checking: "Checking sentence {n} of {all}…", check: "Checking sources…",
    failed: "The sources could not be checked: {why}", whoRead: "Read by {reader}, answered by {model}", another: "another model",
    again: "the same", close: "Close", back: "Back", previous: "Previous sentence", next: "Next sentence", place: "Sentence {n} of {all}", help: "How to read this",
    from: "From {names}", says: ["{names} says this", "{names} say this"], instead: ["{told}; {name} says {values}", "{told}; {name} say {values}"], only: ["{name} says {values} instead", "{name} say {values} instead"], page: "page {page}", document: "Passage {n}",
    same: ["Both contain the same sentence; either is enough.", "All of them contain the same sentence; any is enough."], either: ["Either is enough.", "Any of these is enough."], together: ["It takes both, not one alone.", "It takes all of them together, not one alone."], rests: "It rests on an earlier sentence of the answer, not on a file.",
    took: "The model took this from {mark}", near: "The closest text is in {mark}", misses: [", which does not mention {value}", ", which do not mention {value}"], doubts: ", which may not say it",
    leave: "What does the model answer without {names}?", leaving: "Answering without {names}…", without: "Without {names} the model answers", equal: "The same answer.", whole: "Show the whole answer", nothing: "There is no other answer: {why}",
    view: "Open file", goto: "Go to that sentence", figures: "Figures", passages: ["{n} passage", "{n} passages"], used: "{n} used", unused: "not used", lost: "the model did not receive this",
    searched: "Searched {files} files, read {n} passages", search: "Search all files for this", found: "In all files", nowhere: "No file has most words of “{text}”. Only the same words are found, not another language.", allWords: "has all words",
    own: ["The model would have written this without your files. It may still be true.", "Your files had little to do with this.", "Your files matter here, but part of it, such as a number, is the model’s own.", "The model would have written it without them."],
    scattered: "Your files matter here, but no part of them stands out.", not_located: "The model did not receive all of these files, so this is undecided.",
    budget: "There was not enough time to decide this.", ended: "The answer ends here, so this was not checked.", waiting: "This is still being checked.",
    levels: ["Very strong influence: without this the model would almost certainly not have written it.", "Strong influence: without this the model would probably not have written it.", "Weak influence: the model might have written it all the same."],
    truth: "Influence is not truth: the source may be wrong, or misread.", origin: "This had at least as much influence as all your files together.",
    wrong: ["The model itself cites {labels}, which has no effect on this, or is missing.", "The model itself cites {labels}, which have no effect on this, or are missing."],
    effect: "Without this: {times} ({score} nats, the logarithm of that).", times: "{n} times less likely", million: "more than a million times less likely", all: "All your files together: {much} influence ({score} nats).", much: ["hardly any", "weak", "strong"], rough: "about",
    read1: "A number with a tick is the passage that made the model write the sentence, and that says it. Choose it to see both side by side; yellow words are in both.", read2: "A dashed number with a question mark: that passage made the model write it, but does not say it. The dotted words are missing there.",
    read3: "Amber words: another value stands there, or no passage says it. “Your files” are the passages that the model got for this question.", read4: "Texts are compared word by word. That can be wrong: read the passage.",
    read5: "“Follows from”: it rests on an earlier sentence of the answer, not on a file. “The same”: as after the sentence before. “And” between numbers: it takes both passages; “or”: either is enough.",
    incomplete: "Not everything could be checked.", composite: "Made from earlier answers, each followed to its files.", notes: "Notes",
    // What differs where another model read the answer.
    reader: {
      from: "Supported by {names}", conversation: "supported by the conversation", instructions: "supported by the instructions", asked: "supported by the question", unjudged: "no support in {texts}", took: "The closest text is in {mark}",
      own: "The reader finds no support for this in your files. It may still be true.", leave: "Ask the model again without {names} (one call)", wrong: "Cited without support, or missing: {labels}.",
      read1: "A number with a tick is a passage that says the sentence. Choose it to see both side by side; yellow words are in both.", read2: "A dashed number with a question mark: the closest passage, which does not say it. The dotted words are missing there.",
    },
  },
  de: {
    where: "Passagen", and: "und", or: "oder", sourceOf: "Quelle dieses Satzes: {name}", answerLine: "Antwort", sourceLine: "Quelle", nearLine: "Am nächsten",
    lacks: "dort fehlt: {value}", unjudged: "nicht aus Ihren Dateien", cut: "Antwort abgeschnitten (zu lang)", stopped: "angehalten", open: "Quelle unklar",
    follows: "folgt aus „{value}“", itself: "aus der Antwort selbst", conversation: "aus dem Gespräch", instructions: "aus den Anweisungen", asked: "aus der Frage",
    reading: ["Liest {n} Passage…", "Liest {n} Passagen…"], read: "Liest…", writing: "Schreibt…", checking: "Prüft Satz {n} von {all}…", check: "Prüft die Quellen…",
    failed: "Die Quellen ließen sich nicht prüfen: {why}", whoRead: "Gelesen von {reader}, Antwort von {model}", another: "einem anderen",
    again: "ebenso", close: "Schließen", back: "Zurück", previous: "Voriger Satz", next: "Nächster Satz", place: "Satz {n} von {all}", help: "So liest man das",
    from: "Aus {names}", says: ["{names} sagt das", "{names} sagen das"], instead: ["{told}; {name} sagt {values}", "{told}; {name} sagen {values}"], only: ["{name} sagt stattdessen {values}", "{name} sagen stattdessen {values}"], page: "Seite {page}", document: "Passage {n}",
    same: ["Derselbe Satz steht in beiden; eine genügt.", "Derselbe Satz steht in allen; eine genügt."], either: ["Eine davon genügt.", "Jede davon genügt."], together: ["Es braucht beide, nicht nur eine.", "Es braucht sie alle zusammen, nicht nur eine."], rests: "Das stützt sich auf einen früheren Satz der Antwort, nicht auf eine Datei.",
    took: "Das Modell hat das aus {mark}", near: "Am ehesten steht es in {mark}", misses: "; dort fehlt: {value}", doubts: "; dort steht es vielleicht nicht",
    leave: "Was antwortet das Modell ohne {names}?", leaving: "Antwortet ohne {names}…", without: "Ohne {names} antwortet das Modell", equal: "Dieselbe Antwort.", whole: "Alles zeigen", nothing: "Es gibt keine andere Antwort: {why}",
    view: "Datei öffnen", goto: "Zu diesem Satz", figures: "Zahlen", passages: ["{n} Passage", "{n} Passagen"], used: "{n} benutzt", unused: "nicht benutzt", lost: "das Modell hat sie nicht bekommen",
    searched: "{files} Dateien durchsucht, {n} Passagen gelesen", search: "In allen Dateien danach suchen", found: "In allen Dateien", nowhere: "Keine Datei hat die meisten Wörter von „{text}“. Gefunden werden nur gleiche Wörter, keine andere Sprache.", allWords: "hat alle Wörter",
    own: ["Das hätte das Modell auch ohne Ihre Dateien geschrieben. Es kann trotzdem stimmen.", "Ihre Dateien haben damit wenig zu tun.", "Ihre Dateien tragen dazu bei, aber ein Teil, etwa eine Zahl, kommt vom Modell selbst.", "Das Modell hätte es auch ohne sie geschrieben."],
    scattered: "Ihre Dateien tragen dazu bei, aber keine Stelle sticht heraus.", not_located: "Das Modell hat nicht alle diese Dateien bekommen; so war das nicht zu entscheiden.",
    budget: "Die Zeit reichte nicht, um das zu entscheiden.", ended: "Hier endet die Antwort; das wurde nicht geprüft.", waiting: "Das wird noch geprüft.",
    levels: ["Sehr starker Einfluss: Ohne dies hätte das Modell es fast sicher nicht geschrieben.", "Starker Einfluss: Ohne dies hätte das Modell es wohl nicht geschrieben.", "Schwacher Einfluss: Das Modell hätte es vielleicht trotzdem geschrieben."],
    truth: "Einfluss heißt nicht Wahrheit: Die Quelle kann falsch oder falsch gelesen sein.", origin: "Das hatte mindestens so viel Einfluss wie alle Ihre Dateien zusammen.",
    wrong: ["Das Modell selbst zitiert {labels}; das wirkt hier nicht oder fehlt.", "Das Modell selbst zitiert {labels}; diese wirken hier nicht oder fehlen."],
    effect: "Ohne dies: {times} ({score} Nats, der Logarithmus davon).", times: "{n}-mal unwahrscheinlicher", million: "mehr als eine Million Mal unwahrscheinlicher", all: "Alle Ihre Dateien zusammen: {much} Einfluss ({score} Nats).", much: ["kaum", "schwacher", "starker"], rough: "etwa",
    read1: "Eine Zahl mit Haken ist die Passage, derentwegen das Modell den Satz schrieb und die ihn auch sagt. Ein Klick zeigt beide nebeneinander; gelbe Wörter stehen in beiden.", read2: "Gestrichelt, mit Fragezeichen: Die Passage hat den Satz ausgelöst, sagt ihn aber nicht. Die gepunkteten Wörter fehlen dort.",
    read3: "Orange Wörter: Dort steht ein anderer Wert, oder keine Passage sagt es. „Ihre Dateien“ sind die Passagen, die das Modell zu dieser Frage bekam.", read4: "Die Texte werden Wort für Wort verglichen. Das kann falsch sein: Lesen Sie die Passage.",
    read5: "„Folgt aus“: Das stützt sich auf einen früheren Satz der Antwort, nicht auf eine Datei. „Ebenso“: wie nach dem Satz davor. „Und“ zwischen Zahlen: Es braucht beide Passagen; „oder“: Eine davon genügt.",
    incomplete: "Nicht alles ließ sich prüfen.", composite: "Aus früheren Antworten gemacht, jede bis zu ihren Dateien verfolgt.", notes: "Hinweise",
    reader: {
      from: "Gestützt von {names}", conversation: "gestützt vom Gespräch", instructions: "gestützt von den Anweisungen", asked: "gestützt von der Frage", unjudged: "ohne Beleg in Ihren Dateien", took: "Am ehesten steht es in {mark}",
      own: "Der Leser findet in Ihren Dateien keinen Beleg. Es kann trotzdem stimmen.", leave: "Das Modell noch einmal ohne {names} fragen (ein Aufruf)", wrong: "Ohne Beleg zitiert, oder nicht da: {labels}.",
      read1: "Eine Zahl mit Haken ist eine Passage, die den Satz sagt. Ein Klick zeigt beide nebeneinander; gelbe Wörter stehen in beiden.", read2: "Gestrichelt, mit Fragezeichen: die nächste Passage, die den Satz aber nicht sagt. Die gepunkteten Wörter fehlen dort.",
    },
  },
};
for (const language in STRINGS) {
  const { reader, ...words } = REMARKS[language];
  STRINGS[language] = { ...STRINGS[language], ...words, reader: { ...STRINGS[language].reader, ...reader } };
}
const replaced = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
// A function that says these strings, or a reader's if one `reads`; a list is chosen from by `n`, or by `at`.
const sayer = (language, reads) => (key, values = {}) => {
  const words = STRINGS[language];
  const entry = (reads && words.reader[key]) || words[key];
  return replaced(Array.isArray(entry) ? entry[values.at ?? Number(values.n > (values.most ?? 1))] : entry, { texts: words.texts, ...values });
};
