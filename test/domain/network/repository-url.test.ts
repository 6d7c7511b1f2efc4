import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  deriveNamespace,
  foldCase,
  vcsInstanceOf,
  removeEmptyLevels,
} from "../../../src/domain/network/repository-url.ts";

const test = suite("domain/network/repository-url");

test("derives the code host instance from a URL, in one spelling", () => {
  const cases: [url: string, instance: string][] = [
    ["https://github.com/acme/shop", "github.com"],
    ["https://GitHub.COM/acme/shop", "github.com"],
    ["https://github.com", "github.com"],
    ["https://github.com?x=1", "github.com"],
    ["https://github.com#x", "github.com"],
    ["https://git.acme.test:8443/shop", "git.acme.test:8443"],
    ["https://github.com:443/acme", "github.com"],
    ["https://github.com:/acme", "github.com"],
    ["http://git.test:80/x", "git.test"],
    ["http://git.test:443/x", "git.test:443"],
    ["ssh://git@git.test:22/x", "git.test"],
    ["SSH://git@git.test:7999/x", "git.test:7999"],
    ["git://git.test:9418/x", "git.test"],
    ["svn://svn.test:3690/x", "svn.test"],
    ["https://ada:secret@git.test/x", "git.test"],
    ["https://ada@corp@git.test/x", "git.test"],
    ["https://[2001:DB8::1]:8443/x", "[2001:db8::1]:8443"],
    ["https://[2001:db8::1]/x", "[2001:db8::1]"],
    ["https://git.test/a@b:c", "git.test"],
    ["no address", ""],
    ["", ""],
  ];
  for (const [url, instance] of cases) assert.is(vcsInstanceOf(url), instance, url);
});

test("parses a URL of any length in linear time", () => {
  for (const url of [`https://${"a@".repeat(40_000)}`, `https://${":1".repeat(40_000)}`, `${"a".repeat(80_000)}`])
    assert.type(vcsInstanceOf(url), "string");
});

test("derives the namespace from the reported path, else from the name", () => {
  const cases: [name: string, path: string[] | null, namespace: string][] = [
    ["acme/shop", null, "acme"],
    ["acme/web/shop", null, "acme/web"],
    ["shop", null, ""],
    ["/shop", null, ""],
    ["acme//shop", null, "acme"],
    ["acme/shop", [], "acme"],
    ["shop", ["acme", "web"], "acme/web"],
    ["acme/web/shop", ["acme"], "acme"],
    ["acme/shop", ["", "/other/"], "other"],
  ];
  for (const [name, path, namespace] of cases)
    assert.is(deriveNamespace(name, path), namespace, `${name} ${JSON.stringify(path)}`);
  assert.is(removeEmptyLevels("//a///b/"), "a/b");
});

test("folds the case of all letters for search", () => {
  assert.is(foldCase("Größe/ÄÖ"), "größe/äö");
});

test.run();
