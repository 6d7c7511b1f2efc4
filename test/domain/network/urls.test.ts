import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  buildCompareUrl,
  isLinkable,
  isGitRemote,
  isWebUrl,
  repairRepoUrl,
  findRepoUrlProblem,
} from "../../../src/domain/network/urls.ts";

const test = suite("domain/network/urls");

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

test("repairs URLs in linear time", () => {
  const million = 1_000_000;
  for (const text of [
    `${"a.".repeat(million)}:`,
    `git@h:${"/".repeat(million)}x`,
    `ssh://a${":1".repeat(million)}/x`,
    `${"a.".repeat(million)}b:1`,
  ]) {
    repairRepoUrl(text);
  }
});

test("requires scheme and host in a repo URL", () => {
  for (const url of [
    "https://github.com/acme/api",
    "HTTPS://u:p@h",
    "ssh://git@h:22/x",
    "svn+ssh://h",
    "https://[::1]:80/x",
    "https://dev.azure.com/My Project",
  ]) {
    assert.is(findRepoUrlProblem(url), null, url);
  }
  for (const url of [
    "",
    "github.com/acme/api",
    "https:github.com",
    "https://",
    "https:///x",
    "file:///x",
    "git@github.com:a/b",
    "http://a b",
    "http://h/\n",
    "javascript://h/x",
    "data://h",
  ]) {
    assert.is(findRepoUrlProblem(url), `Input should be a valid URL with scheme and host [input: ${url}]`);
  }
});

for (const [text, linkable, remote] of [
  ["https://h/x", true, true],
  ["HTTP://h", true, true],
  ["", true, true],
  ["www.h.example/x", true, true],
  ["h.example:8080/x?y", true, true],
  ["localhost:8080", true, true],
  ["//h/x", true, true],
  ["/path", true, true],
  ["a b", true, true],
  ["#17", true, true],
  ["ssh://git@h/x", false, true],
  ["git@h.example:a/b", true, true],
  ["work:a/b", false, true],
  ["ftp://h", false, true],
  ["file:///x", false, true],
  ["javascript:x", false, false],
  ["JAVASCRIPT:x", false, false],
  ["javascript:8080/alert(1)", false, false],
  [" \u0000javascript:x", false, false],
  ["java\n\tscr\ript\r:x", false, false],
  ["data:,x", false, false],
  ["vbscript:x", false, false],
  ["\u00a0javascript:x", false, false],
  ["\ufeff \u200bjavascript:x", false, false],
] as const)
  test(
    `${JSON.stringify(text)} may ${linkable ? "" : "not "}become a link, and is ${remote ? "" : "not "}taken ` +
      `for a repository`,
    () => {
      assert.equal({ linkable: isLinkable(text), remote: isGitRemote(text) }, { linkable, remote });
    },
  );

test("checks URLs in linear time", () => {
  for (const text of ["a.", "a-", ".", ":", " ", "\t", "a@", "1"])
    for (const check of [isLinkable, isGitRemote]) check(text.repeat(500_000));
});

test("accepts only http and https with a host as web URLs", () => {
  assert.ok(isWebUrl("https://h/x?y#z"));
  for (const url of ["ftp://h", "https:h", "//h", "http://", "http://h:99999", " https://h"])
    assert.not(isWebUrl(url), url);
});

const [OLD, NEW] = ["a".repeat(40), "b".repeat(40)];
const comparisons: [string, string, string | null, string | null][] = [
  // URL of the commit, of the earlier commit (OLD and NEW stand for the ids), of the repository, and the comparison
  [
    "https://github.com/acme/api/commit/NEW",
    "https://github.com/acme/api/commit/OLD",
    null,
    `https://github.com/acme/api/compare/${OLD}...${NEW}`,
  ],
  [
    "https://git.acme.test:8443/acme/api/commit/NEW",
    "",
    null,
    `https://git.acme.test:8443/acme/api/compare/${OLD}...${NEW}`,
  ],
  [
    "https://gitlab.com/a/b/c/-/commit/NEW",
    "https://gitlab.com/a/b/c/-/commit/OLD",
    null,
    `https://gitlab.com/a/b/c/-/compare/${OLD}...${NEW}`,
  ],
  ["https://git.acme.test/a/-/commit/NEW", "n/a", null, `https://git.acme.test/a/-/compare/${OLD}...${NEW}`],
  [
    "https://bitbucket.org/acme/api/commits/NEW",
    "https://bitbucket.org/acme/api/commits/OLD",
    null,
    `https://bitbucket.org/acme/api/branches/compare/${NEW}..${OLD}`,
  ],
  [
    `https://github.com/acme/api/commit/${NEW.slice(0, 7)}`,
    "",
    null,
    `https://github.com/acme/api/compare/${OLD}...${NEW}`,
  ],
  [
    "https://user:secret@github.com/acme/api/commit/NEW?x#y",
    "",
    null,
    `https://github.com/acme/api/compare/${OLD}...${NEW}`,
  ],
  // derived from the repository if the commit URL is not known
  ["n/a", "", "https://github.com/acme/api.git", `https://github.com/acme/api/compare/${OLD}...${NEW}`],
  ["", "", "git@gitlab.com:a/b.git", `https://gitlab.com/a/b/-/compare/${OLD}...${NEW}`],
  ["", "", "bitbucket.org/acme/api/", `https://bitbucket.org/acme/api/branches/compare/${NEW}..${OLD}`],
  // unknown forges
  ["https://github.com/acme/api/commit/NEW", "https://github.com/acme/other/commit/OLD", null, null],
  ["https://dev.azure.com/o/p/_git/r/commit/NEW", "", "https://dev.azure.com/o/p/_git/r", null],
  ["https://git.acme.test/projects/A/repos/api/commits/NEW", "", null, null],
  ["https://github.com/acme/api/commit/OLD", "", null, null],
  ["https://github.com/commit/NEW", "", "https://github.com", null],
  ["javascript://github.com/acme/api/commit/NEW", "", "javascript:alert(1)", null],
  ["", "", "https://git.acme.test/acme/api", null],
  ["", "", null, null],
];
for (const [to, from, repoUrl, expected] of comparisons) {
  test(`compare ${to || "?"} with ${from || "?"} in ${repoUrl}`, () => {
    const placed = (sha: string, url: string) => ({
      sha,
      commitUrl: url.replace("NEW", NEW).replace("OLD", OLD),
      repoUrl,
    });
    assert.is(buildCompareUrl(placed(OLD, from), placed(NEW, to)), expected);
  });
}

test.run();
