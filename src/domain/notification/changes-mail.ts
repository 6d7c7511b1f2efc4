/**
 * The daily message about what changed, as an e-mail: HTML with inline styles, which is all that mail programs read,
 * and the same as plain text. A state is a word, a sign and a colour.
 */
import { escapeHtml, flatten } from "./chat-and-mail.ts";
import type { MailText } from "./chat-and-mail.ts";

export type MailTone = "bad" | "good" | "wait" | "plain";
type MailLink = { text: string; url: string };

/** One change. `why`: in sentences that begin with a subject, which is printed in bold. */
export type MailRow = {
  tone: MailTone;
  title: string;
  why: readonly { subject: string; text: string }[];
  detail: string;
  links: readonly MailLink[];
  /** In words, with the day. */
  when: string;
};

/** An environment. `omitted`: changes that are not among the rows. */
export type MailSection = {
  title: string;
  state: { tone: MailTone; word: string } | null;
  note: string;
  rows: readonly MailRow[];
  omitted: number;
  url: string;
};

export type ChangesMail = {
  subject: string;
  finding: string;
  /** Sentences: the period, and how many changes of each kind. */
  summary: string;
  sections: readonly MailSection[];
  /** Sentences about what is not in the sections; empty for nothing. */
  rest: string;
  button: MailLink;
  footer: string;
  stop: MailLink;
};

/** What all messages of a day are made from. */
export type DayMessage = {
  mail: ChangesMail;
  /** What a WEBHOOK gets, as texts by name. */
  facts: Readonly<Record<string, string>> & { timestamp: string };
};

const MAX_SUBJECT_CHARS = 150;
const MAX_TEXT_CHARS = 250;

const COLORS: Readonly<Record<MailTone, string>> = {
  bad: "#cf222e",
  good: "#1a7f37",
  wait: "#9a6700",
  plain: "#59636e",
};
const SIGNS: Readonly<Record<MailTone, string>> = { bad: "\u2715", good: "\u2713", wait: "!", plain: "\u00b7" };

const FONT = "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Helvetica,Arial,sans-serif";
const SMALL = "font-size:13px;line-height:18px;color:#59636e";
const LINK = "color:#0969da";
const TABLE = "border-collapse:collapse;font-size:14px;line-height:20px";
const RULE = "border-top:1px solid #d1d9e0";

export const renderChangesMail = (mail: ChangesMail): MailText => ({
  subject: flatten(mail.subject, MAX_SUBJECT_CHARS),
  text: renderText(mail),
  html: renderHtml(mail),
});

const plain = (text: string): string => flatten(text, MAX_TEXT_CHARS);
const safe = (text: string): string => escapeHtml(plain(text));

function renderText({ finding, summary, sections, rest, button, footer, stop }: ChangesMail): string {
  const lines = [plain(finding), plain(summary)];
  for (const { title, state, note, rows, omitted, url } of sections) {
    const head = [plain(title), state?.word ?? "", note].filter((part) => part !== "").join(" - ");
    lines.push("", head, "=".repeat(Math.min(head.length, 72)));
    for (const row of rows) {
      lines.push(`${SIGNS[row.tone]} ${plain(row.title)} (${row.when})`);
      for (const { text } of row.why) lines.push(`  ${plain(text)}.`);
      if (row.detail !== "") lines.push(`  ${plain(row.detail)}`);
      for (const link of row.links) lines.push(`  ${plain(link.text)}: ${link.url}`);
    }
    if (omitted > 0) lines.push(`and ${omitted} more: ${url}`);
  }
  if (rest !== "") lines.push("", plain(rest));
  lines.push("", `${button.text}: ${button.url}`, "", plain(footer), `${stop.text}: ${stop.url}`, "");
  return lines.join("\n");
}

const anchor = ({ text, url }: MailLink, style = LINK): string =>
  `<a href="${escapeHtml(url)}" style="${style}">${safe(text)}</a>`;

function renderHtml({ finding, summary, sections, rest, button, footer, stop }: ChangesMail): string {
  const style = "display:inline-block;padding:8px 14px;border-radius:6px;background:#0969da;color:#ffffff";
  const body = [
    `<h1 style="margin:0;font-size:18px;line-height:26px">${safe(finding)}</h1>`,
    `<p style="margin:2px 0 0;${SMALL}">${safe(summary)}</p>`,
    ...sections.map(renderSection),
    rest === "" ? "" : `<p style="margin:16px 0 0;${SMALL}">${safe(rest)}</p>`,
    `<p style="margin:20px 0">${anchor(button, `${style};text-decoration:none;font-weight:600;font-size:14px`)}</p>`,
    `<p style="margin:0;padding-top:12px;${RULE};${SMALL}">${safe(footer)} ${anchor(stop)}</p>`,
  ];
  const frame = "max-width:640px;margin:0 auto;padding:24px;border:1px solid #d1d9e0;border-radius:6px";
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
</head><body style="margin:0;padding:16px;background:#ffffff;color:#1f2328;${FONT}">
<div style="${frame};background:#ffffff">
${body.filter((part) => part !== "").join("\n")}
</div></body></html>
`;
}

const inTone = (tone: MailTone, text: string): string =>
  `<span style="color:${COLORS[tone]};font-weight:600">${text}</span>`;

function renderSection({ title, state, note, rows, omitted, url }: MailSection): string {
  const word = state && ` ${inTone(state.tone, `${SIGNS[state.tone]} ${safe(state.word)}`)}`;
  const head = `<a href="${escapeHtml(url)}" style="color:#1f2328;text-decoration:none">${safe(title)}</a>`;
  const more =
    omitted > 0
      ? `<tr><td></td><td colspan="2" style="padding:8px 0;${RULE}">${anchor({
          text: `and ${omitted} more`,
          url,
        })}</td></tr>`
      : "";
  return `<h2 style="margin:22px 0 6px;font-size:15px;line-height:22px">${head}${word ?? ""}
 <span style="font-weight:400;${SMALL}">${safe(note)}</span></h2>
<table role="presentation" width="100%" cellspacing="0" cellpadding="0" style="${TABLE}">
${rows.map(renderRow).join("\n")}
${more}</table>`;
}

function renderRow({ tone, title, why, detail, links, when }: MailRow): string {
  const causes = why.map(({ subject, text }) => {
    const isNamed = subject !== "" && text.startsWith(subject);
    return isNamed ? `<b>${safe(subject)}</b>${safe(text.slice(subject.length))}.` : `${safe(text)}.`;
  });
  const name = tone === "plain" ? safe(title) : `<b>${safe(title)}</b>`;
  const parts = [
    `<span style="overflow-wrap:anywhere">${name}</span>`,
    causes.length > 0 ? causes.join(" ") : "",
    detail === "" ? "" : `<span style="${SMALL}">${safe(detail)}</span>`,
    links.map((link) => anchor(link)).join(" &nbsp; "),
  ].filter((part) => part !== "");
  const cell = `padding:8px 0;${RULE};vertical-align:top`;
  const sign = inTone(tone, SIGNS[tone]);
  return `<tr><td width="22" style="${cell}">${sign}</td><td style="${cell}">${parts.join("<br>")}</td>
<td align="right" style="${cell};padding-left:12px;white-space:nowrap;${SMALL}">${safe(when)}</td></tr>`;
}
