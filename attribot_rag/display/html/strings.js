// What the element says, by language. `{name}` is replaced; of two texts, the first is for one (`n`), the second for several.
const STRINGS = {
  en: {
    where: "Where this comes from", sources: "Sources", and: "and", or: "or",
    own: "not from your files", owns: ["{n} sentence not in the passages found", "{n} sentences not in the passages found"],
    says: "{name} says {values}", except: "{told}, except {values}",
    remarks: ["Check {n} detail", "Check {n} details"], open: "source unclear", opens: ["{n} source unclear", "{n} sources unclear"],
    cut: "answer cut off (length limit)", stopped: "stopped", follows: "from sentence {n}", answer: "from the answer itself",
    conversation: "from the conversation", instructions: "from the instructions", question: "from the question",
    reading: ["Reading {n} passage…", "Reading {n} passages…"], read: "Reading…", writing: "Writing…", checking: "Checking sentence {n} of {all}…", check: "Checking sources…",
    failed: "The sources could not be checked: {why}", whoRead: "Read by {reader}, answered by {model}", another: "another model",
    close: "Close", back: "Back", previous: "Previous sentence", next: "Next sentence", place: "Sentence {n} of {all}", help: "How to read this",
    from: "From {names}", mostly: "Mostly from {names}", page: "p. {page}", document: "file {n}",
    same: ["The same sentence stands in {names}; either is enough.", "The same sentence stands in {names}; any of these is enough."], either: ["Either is enough.", "Any of these is enough."], together: "They are enough only together.",
    leave: "Answer without {names}", leaving: "Answering without {names}…", without: "Without {names} the model answers", equal: "The same answer.", nothing: "There is no other answer: {why}",
    view: "Open file", why: "Why?", behind: "Behind “{words}”", alone: "No file has a measurable influence on “{words}” alone", goto: "Go to sentence {n}",
    owned: ["The model would have written this without your files. It may still be true.", "Your files had little to do with this.", "Your files matter here, but part of it, such as a number, is the model’s own.", "Your files say it too; the model would have written it without them."],
    scattered: "Your files matter here, but no part of them stands out.", not_located: "The model did not receive all of these files, so this is undecided.",
    budget: "There was not enough time to decide this.", ended: "The answer ends here, so this was not checked.", waiting: "This is still being checked.",
    levels: ["Very strong influence: without this the model would almost certainly not have written it.", "Strong influence: without this the model would probably not have written it.", "Weak influence: the model might have written it all the same."],
    truth: "Influence is not truth: the source may be wrong, or misread.", origin: "This had at least as much influence as all your files together.",
    wrong: ["The model itself cites {labels}, which has no effect on this, or is missing.", "The model itself cites {labels}, which have no effect on this, or are missing."],
    effect: "Without this: {times} ({score} nats).", times: "{n} times less likely", million: "more than a million times less likely", all: "All your files together: {much} influence ({score} nats).", much: ["hardly any", "weak", "strong"], rough: "about",
    read1: "A name after a sentence is the file that made the model write it. Choose it to see the text.", read2: "Amber means: check this. None of your files is behind it, or one of them says otherwise.",
    colours: "Yellow marks the cited text. The other colours only tell files apart; grey is for all else. “Your files” are the passages that the model got for this question.",
    read3: "This shows where a sentence comes from, not whether it is true.", unused: ["{n} file was not used", "{n} files were not used"], lost: "the model did not receive this file",
    partial: "Not everything could be checked.", composite: "Made from earlier answers, each followed to its files.", notes: "Notes",
    // What differs where another model read the answer.
    reader: {
      where: "What supports this", own: "no support in your files", owns: "{n} without support in your files",
      follows: "supported by sentence {n}", conversation: "supported by the conversation", instructions: "supported by the instructions", question: "supported by the question",
      from: "Supported by {names}", mostly: "Supported in part by {names}", alone: "No measurable support for “{words}” alone", owned: "The reader finds no support for this in your files. It may still be true.",
      leave: "Ask the model again without {names} (one call)", wrong: "Cited without support, or missing: {labels}.",
      read1: "A name after a sentence is a file in which the reader finds support.", read3: "This does not show why a sentence was written, or whether it is true.",
    },
  },
  de: {
    where: "Woher das kommt", sources: "Quellen", and: "und", or: "oder",
    own: "nicht aus Ihren Dateien", owns: ["{n} Satz in keiner gefundenen Passage", "{n} Sätze in keiner gefundenen Passage"],
    says: "{name} sagt {values}", except: "{told}, außer {values}",
    remarks: ["{n} Angabe prüfen", "{n} Angaben prüfen"], open: "Quelle unklar", opens: ["{n} Quelle unklar", "{n} Quellen unklar"],
    cut: "Antwort abgeschnitten (zu lang)", stopped: "angehalten", follows: "aus Satz {n}", answer: "aus der Antwort selbst",
    conversation: "aus dem Gespräch", instructions: "aus den Anweisungen", question: "aus der Frage",
    reading: ["Liest {n} Abschnitt…", "Liest {n} Abschnitte…"], read: "Liest…", writing: "Schreibt…", checking: "Prüft Satz {n} von {all}…", check: "Prüft die Quellen…",
    failed: "Die Quellen ließen sich nicht prüfen: {why}", whoRead: "Gelesen von {reader}, Antwort von {model}", another: "einem anderen",
    close: "Schließen", back: "Zurück", previous: "Voriger Satz", next: "Nächster Satz", place: "Satz {n} von {all}", help: "So liest man das",
    from: "Aus {names}", mostly: "Vor allem aus {names}", page: "S. {page}", document: "Datei {n}",
    same: ["Derselbe Satz steht in {names}; eine davon genügt.", "Derselbe Satz steht in {names}; jede davon genügt."], either: ["Eine davon genügt.", "Jede davon genügt."], together: "Nur zusammen genügen sie.",
    leave: "Antwort ohne {names}", leaving: "Antwortet ohne {names}…", without: "Ohne {names} antwortet das Modell", equal: "Dieselbe Antwort.", nothing: "Es gibt keine andere Antwort: {why}",
    view: "Datei öffnen", why: "Warum?", behind: "Hinter „{words}“", alone: "Keine Datei wirkt messbar auf „{words}“ allein", goto: "Zu Satz {n}",
    owned: ["Das hätte das Modell auch ohne Ihre Dateien geschrieben. Es kann trotzdem stimmen.", "Ihre Dateien haben damit wenig zu tun.", "Ihre Dateien tragen dazu bei, aber ein Teil, etwa eine Zahl, kommt vom Modell selbst.", "Ihre Dateien sagen es auch; das Modell hätte es ohne sie geschrieben."],
    scattered: "Ihre Dateien tragen dazu bei, aber keine Stelle sticht heraus.", not_located: "Das Modell hat nicht alle diese Dateien bekommen; so war das nicht zu entscheiden.",
    budget: "Die Zeit reichte nicht, um das zu entscheiden.", ended: "Hier endet die Antwort; das wurde nicht geprüft.", waiting: "Das wird noch geprüft.",
    levels: ["Sehr starker Einfluss: Ohne dies hätte das Modell es fast sicher nicht geschrieben.", "Starker Einfluss: Ohne dies hätte das Modell es wohl nicht geschrieben.", "Schwacher Einfluss: Das Modell hätte es vielleicht trotzdem geschrieben."],
    truth: "Einfluss heißt nicht Wahrheit: Die Quelle kann falsch oder falsch gelesen sein.", origin: "Das hatte mindestens so viel Einfluss wie alle Ihre Dateien zusammen.",
    wrong: ["Das Modell selbst zitiert {labels}; das wirkt hier nicht oder fehlt.", "Das Modell selbst zitiert {labels}; diese wirken hier nicht oder fehlen."],
    effect: "Ohne dies: {times} ({score} Nats).", times: "{n}-mal unwahrscheinlicher", million: "mehr als eine Million Mal unwahrscheinlicher", all: "Alle Ihre Dateien zusammen: {much} Einfluss ({score} Nats).", much: ["kaum", "schwacher", "starker"], rough: "etwa",
    read1: "Der Name hinter einem Satz ist die Datei, derentwegen das Modell ihn schrieb. Ein Klick zeigt den Text.", read2: "Orange heißt: prüfen. Keine Ihrer Dateien steht dahinter, oder eine sagt es anders.",
    colours: "Gelb ist der zitierte Text. Die anderen Farben unterscheiden nur die Dateien; grau ist alles Übrige. „Ihre Dateien“ sind die Abschnitte, die das Modell zu dieser Frage bekam.",
    read3: "Das zeigt, woher ein Satz kommt, nicht ob er stimmt.", unused: ["{n} Datei wurde nicht benutzt", "{n} Dateien wurden nicht benutzt"], lost: "das Modell hat diese Datei nicht bekommen",
    partial: "Nicht alles ließ sich prüfen.", composite: "Aus früheren Antworten gemacht, jede bis zu ihren Dateien verfolgt.", notes: "Hinweise",
    reader: {
      where: "Was das stützt", own: "ohne Beleg in Ihren Dateien", owns: "{n} ohne Beleg in Ihren Dateien",
      follows: "gestützt von Satz {n}", conversation: "gestützt vom Gespräch", instructions: "gestützt von den Anweisungen", question: "gestützt von der Frage",
      from: "Gestützt von {names}", mostly: "Zum Teil gestützt von {names}", alone: "Kein messbarer Beleg für „{words}“ allein", owned: "Der Leser findet in Ihren Dateien keinen Beleg. Es kann trotzdem stimmen.",
      leave: "Das Modell noch einmal ohne {names} fragen (ein Aufruf)", wrong: "Ohne Beleg zitiert, oder nicht da: {labels}.",
      read1: "Der Name hinter einem Satz ist eine Datei, die ihn für den Leser stützt.", read3: "Das zeigt nicht, warum ein Satz geschrieben wurde oder ob er stimmt.",
    },
  },
};
for (const language in STRINGS) {
  Object.assign(STRINGS[language].reader, REMARKS[language].reader);
  Object.assign(STRINGS[language], { ...REMARKS[language], reader: STRINGS[language].reader });
}
// A function that says these strings, or a reader's if one `reads`; a list is chosen from by `n`, or by `at`.
const sayer = (language, reads) => (key, values = {}) => {
  const entry = (reads && STRINGS[language].reader[key]) || STRINGS[language][key];
  const text = Array.isArray(entry) ? entry[values.at ?? Number(values.n > (values.most ?? 1))] : entry;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
};
