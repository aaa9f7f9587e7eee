// Types of <attribot-answer>, its data and its events. `AnswerSummary` is docs/schemas/summary.json.

/** Characters [start, end) of a document, in code points, and their text where that has tags of HTML. */
export type Place = [document: number, start: number, end: number, plain?: string];

export interface AnswerSummary {
  status: "complete" | "partial" | "composite" | "pending" | "error" | "unsupported";
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
  tokens?: [start: number, end: number][][];
  evidence?: { source: number; score: number; exact: boolean; tokens: number[] }[][];
  /** What the model answers without some documents, by their indices ("0" or "0,2"). */
  without?: Record<string, string>;
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
export type AttribotWithout = CustomEvent<{ documents: number[]; names: string[]; respond(answer: string | Promise<string>): void }>;

declare global {
  interface HTMLElementTagNameMap {
    "attribot-answer": AttribotAnswer;
  }
  interface HTMLElementEventMap {
    "attribot-choose": AttribotChoose;
    "attribot-open": AttribotOpen;
    "attribot-without": AttribotWithout;
  }
}
