import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isWebUrl, repairRepoUrl, repoUrlProblem } from "../../src/domain/urls.ts";

const test = suite("urls");

const repairs: [string | null, string | null][] = [
  // URLs stay as they are
  ["https://github.com/acme/api", "https://github.com/acme/api"],
  ["https://github.com/acme/api.git", "https://github.com/acme/api.git"],
  ["http://git.local:8080/x", "http://git.local:8080/x"],
  ["svn://svn.example.org/trunk", "svn://svn.example.org/trunk"],
  // remotes become pages
  ["git@github.com:acme/api.git", "https://github.com/acme/api"],
  ["git@gitlab.com:a/b/c.git", "https://gitlab.com/a/b/c"],
  ["git@gitserver:acme/api/", "https://gitserver/acme/api"],
  ["bitbucket.org:acme/api.git", "https://bitbucket.org/acme/api"],
  ["ssh://git@github.com:22/acme/api.git", "https://github.com/acme/api"],
  ["git://github.com/acme/api", "https://github.com/acme/api"],
  ["git+https://user:secret@github.com/acme/api.git", "https://github.com/acme/api"],
  ["git@ssh.dev.azure.com:v3/org/project/repo", "https://dev.azure.com/org/project/_git/repo"],
  // hosts get a scheme
  ["github.com/acme/api", "https://github.com/acme/api"],
  [" github.com ", "https://github.com"],
  ["//github.com/acme", "https://github.com/acme"],
  ["git.example.com:8443/acme/api", "https://git.example.com:8443/acme/api"],
  ["localhost:3000/acme", "https://localhost:3000/acme"],
  ["git@github.com/acme/api", "https://github.com/acme/api"],
  // placeholders and texts without host are dropped
  [null, null],
  ["", null],
  ["  ", null],
  ["N/A", null],
  ["None", null],
  ["**REDACTED**", null],
  ["${CI_REPO_URL}", null],
  ["$CI_REPO_URL", null],
  ["{{ repo }}", null],
  ["<repo url>", null],
  ["acme/api", null],
  ["gitserver:acme/api", null],
  ["/srv/git/api", null],
  ["C:\\git\\api", null],
  ["https://", null],
  ["file:///srv/git", null],
  ["git@host:", null],
  ["javascript:alert(1)", null],
  ["javascript://host/%0aalert(1)", null],
];
for (const [stored, expected] of repairs) {
  test(`repair ${JSON.stringify(stored)}`, () => assert.is(repairRepoUrl(stored), expected));
}

test("repair takes linear time", () => {
  const million = 1_000_000;
  for (const text of [`${"a.".repeat(million)}:`, `git@h:${"/".repeat(million)}x`, `ssh://a${":1".repeat(million)}/x`, `${"a.".repeat(million)}b:1`]) {
    repairRepoUrl(text);
  }
});

test("a repo URL needs scheme and host", () => {
  for (const url of ["https://github.com/acme/api", "HTTPS://u:p@h", "ssh://git@h:22/x", "svn+ssh://h", "https://[::1]:80/x", "https://dev.azure.com/My Project"]) {
    assert.is(repoUrlProblem(url), null, url);
  }
  for (const url of ["", "github.com/acme/api", "https:github.com", "https://", "https:///x", "file:///x", "git@github.com:a/b", "http://a b", "http://h/\n", "javascript://h/x", "data://h"]) {
    assert.is(repoUrlProblem(url), `Input should be a valid URL with scheme and host [input: ${url}]`);
  }
});

test("only http and https with a host are web URLs", () => {
  assert.ok(isWebUrl("https://h/x?y#z"));
  for (const url of ["ftp://h", "https:h", "//h", "http://", "http://h:99999", " https://h"]) assert.not(isWebUrl(url), url);
});

test.run();
