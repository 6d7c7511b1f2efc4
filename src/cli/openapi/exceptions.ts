/**
 * The file of exceptions of a comparison: differences that are meant, each with the reason.
 *
 *     exceptions:
 *       - reason: removed
 *         differences:
 *           - "GET /deployments/{org}: is missing"
 *           - "* response 200: *may be null"     # a star is any text
 */
import { OPERATOR_FILE, readYaml } from "../../domain/text/yaml.ts";
import type { SourcePosition } from "../../domain/text/source-position.ts";
import { list, record, text } from "../apply/yaml-schema.ts";
import type { Reading } from "../apply/yaml-schema.ts";
import { CommandError } from "../command.ts";
import { lineOfDifference } from "./compare-documents.ts";
import type { ApiDifference } from "./compare-documents.ts";

/** `pattern` is a line of the comparison, in which a star is any text. */
type ApiException = { pattern: string; reason: string; place: SourcePosition };

const WORDS = text((value) => value.trim() !== "", "a text");
const REASON = text((value) => value.trim() !== "", "the reason why these differences are meant");

const PATTERN = {
  blank: { pattern: "", place: { line: 1, column: 1 } },
  read: (reading: Reading, node: unknown, where: string) => ({
    pattern: WORDS.read(reading, node, where),
    place: reading.place(node),
  }),
};

type Group = { reason: string; differences: readonly Omit<ApiException, "reason">[]; place: SourcePosition };
const GROUP = record<Omit<Group, "place">, Group>(
  { reason: REASON, differences: list(PATTERN, ({ pattern }) => pattern) },
  (fields, place) => ({ ...fields, place }),
);
const FILE = record<{ exceptions: readonly Group[] }>({ exceptions: list(GROUP, () => "") }, (fields) => fields);

/**
 * Reads a file of exceptions.
 * @throws CommandError that lists its mistakes with their lines
 */
export function parseApiExceptions(source: string, name: string): ApiException[] {
  const yaml = readYaml(source, OPERATOR_FILE);
  const problems: (SourcePosition & { text: string })[] = [...yaml.problems];
  const refuse = (place: SourcePosition, problem: string): void => void problems.push({ ...place, text: problem });
  if (yaml.root === null && problems.length === 0) refuse({ line: 1, column: 1 }, "the file is empty");
  const groups = yaml.root === null ? [] : FILE.read({ place: yaml.positionOf, refuse }, yaml.root, "").exceptions;
  if (problems.length > 0)
    throw new CommandError(problems.map(({ line, column, text: problem }) => `${name}:${line}:${column}: ${problem}`));
  return groups.flatMap(({ reason, differences }) => differences.map((one) => ({ ...one, reason })));
}

/** What an exception explains is `excepted`; `unused` are exceptions that explain nothing. */
export function applyExceptions(
  differences: readonly ApiDifference[],
  exceptions: readonly ApiException[],
): { left: ApiDifference[]; excepted: (ApiDifference & { reason: string })[]; unused: ApiException[] } {
  const used = new Set<ApiException>();
  const left: ApiDifference[] = [];
  const excepted: (ApiDifference & { reason: string })[] = [];
  for (const difference of differences) {
    const line = lineOfDifference(difference);
    const matching = exceptions.filter(({ pattern }) => matchesStars(pattern, line));
    for (const one of matching) used.add(one);
    const [first] = matching;
    if (first) excepted.push({ ...difference, reason: first.reason });
    else left.push(difference);
  }
  return { left, excepted, unused: exceptions.filter((one) => !used.has(one)) };
}

/** Whether a line is a pattern, in which a star is any text. */
function matchesStars(pattern: string, line: string): boolean {
  const [first = "", ...others] = pattern.split("*");
  if (others.length === 0) return line === pattern;
  if (!line.startsWith(first)) return false;
  const last = others.pop() ?? "";
  let at = first.length;
  for (const part of others) {
    const found = line.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return line.length - last.length >= at && line.endsWith(last);
}
