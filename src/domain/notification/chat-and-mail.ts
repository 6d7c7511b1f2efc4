/**
 * Messages for people: a heading, some lines and a link, rendered as a chat message or as an e-mail. Any of its texts
 * may contain user input, so every text is escaped for the format that it is rendered in.
 */
import { truncate } from "../text/excerpt.ts";

export type NotificationMessage = {
  heading: string;
  lines: readonly string[];
  /** Number of further lines that are not shown. */
  omitted: number;
  link: { url: string; text: string };
  /** Why the recipient gets the message. */
  footer: string;
};

type ChatBody = Readonly<Record<string, unknown>>;
export type MailText = { subject: string; text: string; html: string };

/** Lines of a message, which stays readable even if ten thousand artifacts start with one snapshot. */
export const MAX_LINES = 20;

/** A line holds a name and what happened to it. */
const MAX_LINE_CHARS = 250;
/** Chat services allow 3,000 characters in a block; the rest is for the line that counts omitted lines. */
const MAX_BLOCK_CHARS = 2_900;
/** Mail servers cut subjects at about a thousand bytes, and people read fewer than a hundred characters. */
const MAX_HEADING_CHARS = 150;

/**
 * Builds a message with as many of the lines as fit.
 * @param total number of lines, including those not in `lines`
 */
export function renderMessage(
  { heading, lines, link, footer }: Omit<NotificationMessage, "omitted">,
  total = lines.length,
): NotificationMessage {
  const beginning = lines.slice(0, MAX_LINES).map((line) => flatten(line, MAX_LINE_CHARS));
  return {
    heading: flatten(heading, MAX_HEADING_CHARS),
    lines: beginning,
    omitted: total - beginning.length,
    link: { ...link, text: flatten(link.text, MAX_LINE_CHARS) },
    footer: flatten(footer, MAX_LINE_CHARS),
  };
}

/**
 * A text as one line. Control characters, including line breaks, become spaces, so that no text starts a mail header or
 * a line of its own.
 */
export const flatten = (text: string, maxChars: number): string =>
  truncate(text.replace(/[\p{Cc}\u2028\u2029]+/gu, " "), maxChars);

const omittedLine = (count: number): readonly string[] => (count > 0 ? [`and ${count} more`] : []);

/** The body of a POST to a chat's incoming webhook. */
export function renderChatBody({ heading, lines, omitted, link }: NotificationMessage): ChatBody {
  const fitting = takeFitting(lines.map(escapeChat));
  const rest = omittedLine(omitted + lines.length - fitting.length);
  const text = [...fitting, ...rest].map((line) => `• ${line}`).join("\n");
  const linkText = `<${escapeChatUrl(link.url)}|${escapeChat(link.text)}>`;
  return {
    text: escapeChat([heading, lines[0]].filter((part) => part !== undefined).join(" - ")),
    blocks: [
      { type: "section", text: { type: "mrkdwn", text: `*${escapeChat(heading)}*` } },
      ...(text === "" ? [] : [{ type: "section", text: { type: "mrkdwn", text } }]),
      { type: "context", elements: [{ type: "mrkdwn", text: linkText }] },
    ],
  };
}

/** As many of the first lines as fit into a block. */
function takeFitting(lines: readonly string[]): string[] {
  let remaining = MAX_BLOCK_CHARS;
  return lines.filter((line) => (remaining -= line.length + "• \n".length) >= 0);
}

/** Escapes the three special characters of chat messages, without which there is no link, mention or command. */
const escapeChat = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** In a link, `|` precedes the text. Our URLs are percent-encoded, so special characters occur at most in the host. */
const escapeChatUrl = (url: string): string => escapeChat(url).replaceAll("|", "%7C");

/** An e-mail as plain text and as HTML. */
export function renderMail({ heading, lines, omitted, link, footer }: NotificationMessage): MailText {
  const all = [...lines, ...omittedLine(omitted)];
  const list = all.map((line) => `<li>${escapeHtml(line)}</li>`).join("");
  return {
    subject: heading,
    text: [heading, "", ...all.map((line) => `- ${line}`), "", `${link.text}: ${link.url}`, "", footer, ""].join("\n"),
    html: [
      "<!doctype html><html><body>",
      `<h3>${escapeHtml(heading)}</h3>`,
      `<ul>${list}</ul>`,
      `<p><a href="${escapeHtml(link.url)}">${escapeHtml(link.text)}</a></p>`,
      `<p><small>${escapeHtml(footer)}</small></p>`,
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
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
