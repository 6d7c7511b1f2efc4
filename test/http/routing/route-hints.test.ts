/** What a 404 and a 405 of the API say about a path that is nearly right. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../../src/api/index.ts";
import { describeAlternatives } from "../../../src/http/routing/route-hints.ts";
import { startServer } from "../../given.ts";

const test = suite("http/route-hints");

test("an unknown kind of attestation is told the kinds, the nearest first", async () => {
  const server = await startServer();
  try {
    const at = server.given.org();
    const { status, body } = await server.call("POST", `/attestations/${at.org}/f/trail/t/jnit`, {
      key: at.key,
      body: {},
    });
    assert.is(status, 405);
    assert.equal(body, {
      message:
        "The method is not allowed for the requested URL: 'jnit' is not one of junit, custom, generic, jira, " +
        "override, " +
        "pull_request, snyk, sonar, system",
    });
    const unknown = await server.call("GET", `/environments/${at.org}/prod/nothing`, { key: at.key });
    assert.is(unknown.status, 404);
    assert.match(String((unknown.body as { message: string }).message), /: 'nothing' is not one of [a-z-]+/);
  } finally {
    await server.stop();
  }
});

test("a path that differs in more than one word, or in its resource, has no alternatives", () => {
  for (const path of ["/nothing/acme", "/attestations/acme/f/way/t/jnit", "/repos/acme/x/y/z", ""])
    assert.is(describeAlternatives(operations, "POST", path), null, path);
});

test("a long or unprintable word is shown in a short line", () => {
  const text = describeAlternatives(operations, "POST", `/attestations/acme/f/trail/t/${"\u0007x".repeat(500)}`) ?? "";
  assert.ok(text.length < 400);
  assert.not.match(text, /\p{Cc}/u);
});

test.run();
