/**
 * Messages for people: a letter is a heading, some lines and a link, and is written as a chat message or as an e-mail.
 * All of its texts may hold what users wrote, so nothing reaches a form without being escaped for it.
 */
import { truncate } from "../text/excerpt.ts";

export type NotificationMessage = {
  heading: string;
  lines: readonly string[];
  /** How many more lines there would be. */
  omitted: number;
  link: { url: string; text: string };
  /** Why somebody gets it, and how that ends. */
  footer: string;
};

export type ChatBody = Readonly<Record<string, unknown>>;
export type MailText = { subject: string; text: string; html: string };

/**
 * Lines of a letter. The message of a snapshot with which ten thousand artifacts start is still one that somebody
 * reads.
 */
export const MAX_LINES = 20;

/** Characters of a line: a name and what happened to it. */
const LINE_CHARACTERS = 250;
/** Characters that a block of a chat message may have, less room for how many lines there are more. */
const BLOCK_CHARACTERS = 2_900;
/**
 * Characters of a heading. Servers cut subjects at about a thousand bytes, and people read fewer than a hundred
 * characters.
 */
const HEADING_CHARACTERS = 150;

/** A letter with as many of the lines as fit. @param total how many there are, those not in `lines` included. */
export function renderMessage(
  { heading, lines, link, footer }: Omit<NotificationMessage, "omitted">,
  total = lines.length,
): NotificationMessage {
  const shown = lines.slice(0, MAX_LINES).map((line) => oneLine(line, LINE_CHARACTERS));
  return {
    heading: oneLine(heading, HEADING_CHARACTERS),
    lines: shown,
    omitted: total - shown.length,
    link: { ...link, text: oneLine(link.text, LINE_CHARACTERS) },
    footer: oneLine(footer, LINE_CHARACTERS),
  };
}

/**
 * A single line of that many characters; control characters, line breaks included, become spaces, so that no text
 * begins a header or a line of its own.
 */
const oneLine = (text: string, limit: number): string => truncate(text.replace(/[\p{Cc}\u2028\u2029]+/gu, " "), limit);

const moreLine = (more: number): readonly string[] => (more > 0 ? [`and ${more} more`] : []);

/** The body of a POST to an incoming webhook of a chat. */
export function renderChatBody({ heading, lines, omitted: more, link }: NotificationMessage): ChatBody {
  const fitting = firstFitting(lines.map(chatText));
  const text = [...fitting, ...moreLine(more + lines.length - fitting.length)].map((line) => `• ${line}`).join("\n");
  return {
    text: chatText([heading, lines[0]].filter((part) => part !== undefined).join(" - ")),
    blocks: [
      { type: "section", text: { type: "mrkdwn", text: `*${chatText(heading)}*` } },
      ...(text === "" ? [] : [{ type: "section", text: { type: "mrkdwn", text } }]),
      { type: "context", elements: [{ type: "mrkdwn", text: `<${chatUrl(link.url)}|${chatText(link.text)}>` }] },
    ],
  };
}

/** The first of the lines, as many as fit into a block. */
function firstFitting(lines: readonly string[]): string[] {
  let room = BLOCK_CHARACTERS;
  return lines.filter((line) => (room -= line.length + "• \n".length) >= 0);
}

/**
 * The three characters with a meaning of their own in chat messages: without them no link, no mention and no command
 * can be made.
 */
const chatText = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Behind `|` a link has its text. Our addresses are percent-encoded, so that these occur in a host at most. */
const chatUrl = (url: string): string => chatText(url).replaceAll("|", "%7C");

/** An e-mail in both of its forms. */
export function renderMail({ heading, lines, omitted: more, link, footer }: NotificationMessage): MailText {
  const all = [...lines, ...moreLine(more)];
  const list = all.map((line) => `<li>${htmlText(line)}</li>`).join("");
  return {
    subject: heading,
    text: [heading, "", ...all.map((line) => `- ${line}`), "", `${link.text}: ${link.url}`, "", footer, ""].join("\n"),
    html: [
      "<!doctype html><html><body>",
      `<h3>${htmlText(heading)}</h3>`,
      `<ul>${list}</ul>`,
      `<p><a href="${htmlText(link.url)}">${htmlText(link.text)}</a></p>`,
      `<p><small>${htmlText(footer)}</small></p>`,
      "</body></html>",
    ].join("\n"),
  };
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const htmlText = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
