// Types of <attribot-answer>, its data and its events. `AnswerSummary` is docs/schemas/summary.json.

/** Characters [start, end) of a document, in code points, and their text where that has tags of HTML. */
export type Place = [document: number, start: number, end: number, plain?: string];

/** A tag with its children, a place in a text, or where the citations of a sentence stand (display/rendered.py). */
export type Block = [tag: string, ...children: unknown[]] | [start: number, end: number, sentence: number, shown?: string];

/** What the model answers without some documents, as `without_data` gives it, or the text alone. */
export type OtherAnswer = string | { answer: string; blocks?: Block[]; short?: Block[] | null; said?: (Said | null)[]; is_same?: boolean };

/** What the other documents say of a sentence: `says`, or a remark of result/remarks.json. */
export interface Said { key: string; values: string[]; documents: number[] }

export interface AnswerSummary {
  status: "complete" | "incomplete" | "composite" | "pending" | "error" | "not_attributable";
  [field: string]: unknown;
}

export interface AnswerData {
  summary: AnswerSummary | { status: "pending" } | { error: { message: string } };
  question?: string;
  answer?: string;
  /** ISO 639 code of the question's language. */
  language?: string;
  /** Of an answer that is not whole yet. */
  stage?: "reading" | "writing";
  /** Texts by the documents' indices. */
  documents?: Record<string, string>;
  quotes?: Record<string, Place[]>;
  /** The Markdown of the answer, and of each document. */
  blocks?: Block[];
  rendered?: Record<string, Block[]>;
  first_lines?: Record<string, string>;
  headings?: Record<string, string>;
  /** The text that is cited first, of each document that is cited. */
  cited?: Record<string, string>;
  /** For each sentence, the words that it shares with its sources, and their other values. */
  compared?: ({ same: [number, number][]; sources: Record<string, { same: [number, number][]; differs: [number, number][] }> } | null)[];
  evidence?: { source: number; score: number; exact: boolean }[][];
  influence?: { level: string | null; times: number | null; of_all: number | null }[];
  /** How many files were searched. */
  searched?: { files: number };
  /** What the model answers without some documents, by their indices ("0" or "0,2"). */
  without?: Record<string, OtherAnswer>;
}

export class AttribotAnswer extends HTMLElement {
  data: AnswerData | AnswerSummary;
  close(): void;
}

/** A sentence's card is about to open; `preventDefault()` keeps it closed. */
export type AttribotChoose = CustomEvent<{ sentence: number; text: string; documents: number[]; name: string | null }>;
/** A document is about to open; `preventDefault()` leaves that to the page. */
export type AttribotOpen = CustomEvent<{ document: number; name: string; sentence?: number; number?: number; href: string | false }>;
/** The reader wants the answer without these documents; `respond` takes it, or a promise of it. */
export type AttribotWithout = CustomEvent<{ documents: number[]; names: string[]; ahead: boolean; respond(answer: OtherAnswer | Promise<OtherAnswer>): void }>;
/** A text of a file, the address that opens it there, the characters of it that are words of the sentence, and whether it has all of these. */
export interface Hit { name: string; text: string; href?: string; same?: [number, number][]; all?: boolean }

/** All files are to be searched for a sentence's text. */
export type AttribotSearch = CustomEvent<{ sentence: number; text: string; respond(found: Hit[] | Promise<Hit[]>): void }>;

declare global {
  interface HTMLElementTagNameMap {
    "attribot-answer": AttribotAnswer;
  }
  interface HTMLElementEventMap {
    "attribot-choose": AttribotChoose;
    "attribot-open": AttribotOpen;
    "attribot-without": AttribotWithout;
    "attribot-search": AttribotSearch;
  }
}
