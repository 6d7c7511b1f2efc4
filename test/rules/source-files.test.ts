/** The text of source files: their length, their lines, what they export, and what no query may do. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sourceFiles } from "./source.ts";

const test = suite("rules/source-files");

const MAX_LINES = 400;
const MAX_COLUMNS = 120;

const files = sourceFiles("src");
const everywhere = [...files, ...sourceFiles("test"), ...sourceFiles("bin")];

test(`no file of src/ is longer than ${MAX_LINES} lines`, () => {
  const long = files.filter(({ text }) => text.split("\n").length - 1 > MAX_LINES).map(({ path }) => path);
  assert.equal(long, []);
});

test(`no line is longer than ${MAX_COLUMNS} columns`, () => {
  const long = everywhere.flatMap(({ path, text }) =>
    text
      .split("\n")
      .flatMap((line, index) => (line.length > MAX_COLUMNS ? [`${path}:${index + 1}: ${line.length}`] : [])),
  );
  assert.equal(long, []);
});

test("every export is imported somewhere", () => {
  /** "path name" of everything that is imported by name, and the paths that are imported as a whole. */
  const byName = new Set<string>();
  const whole = new Set<string>();
  for (const { text, resolve } of everywhere) {
    for (const [, names, specifier] of text.matchAll(/^(?:import|export)(?: type)? \{([^}]*)\} from "(\.[^"]+)";/gms))
      for (const name of (names as string).split(","))
        byName.add(
          `${resolve(specifier as string)} ${
            name
              .trim()
              .replace(/^type /, "")
              .split(" as ")[0]
          }`,
        );
    for (const [, specifier] of text.matchAll(/(?:^import \* as \w+ from |\bimport\()"(\.[^"]+)"/gm))
      whole.add(resolve(specifier as string));
  }
  const unused = files
    .filter(({ path }) => !whole.has(path))
    .flatMap(({ path, text }) =>
      [
        ...text.matchAll(/^export (?:async )?(?:const|let|function\*?|class|abstract class|type|interface) (\w+)/gm),
      ].flatMap(([, name]) => (byName.has(`${path} ${name}`) ? [] : [`${path} ${name}`])),
    );
  assert.equal(unused, []);
});

test("no query selects all columns", () => {
  assert.equal(
    files.filter((file) => /SELECT \*/i.test(file.text)).map((file) => file.path),
    [],
  );
});

test.run();
