import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseApplyFile } from "../../../src/cli/apply/apply-file.ts";

const KEY = "k-0123456789abcdef";

const good = suite("cli/apply/apply-file: valid files");

good("reads the whole format", () => {
  const text = `
organizations:
  - name: acme
    kind: shared
    public: true
    features: { controls: false }
    members: [ { user: ops, role: admin }, { user: Eve_2.x~, role: reader } ]
    service_accounts:
      - { name: ci-bot, privilege: member, api_keys: [ { description: ci, key: "${KEY}1" } ] }
  - name: ops
    kind: personal
    members: [ { user: ops, role: admin } ]
users:
  - name: ops
    display_name: Operations
    email: ops@example.com
    api_keys: [ { description: laptop, key: "${KEY}2", expires_at: 4102444800 } ]
`;
  assert.equal(parseApplyFile(text), {
    plan: {
      organizations: [
        {
          name: "acme",
          kind: "shared",
          public: true,
          features: { controls: false },
          place: { line: 3, column: 5 },
          members: [
            { user: "ops", role: "admin", place: { line: 7, column: 16 } },
            { user: "Eve_2.x~", role: "reader", place: { line: 7, column: 44 } },
          ],
          serviceAccounts: [
            {
              name: "ci-bot",
              privilege: "member",
              place: { line: 9, column: 9 },
              apiKeys: [{ description: "ci", key: `${KEY}1`, expiresAt: 0, place: { line: 9, column: 56 } }],
            },
          ],
        },
        {
          name: "ops",
          kind: "personal",
          public: false,
          features: { controls: true },
          place: { line: 10, column: 5 },
          members: [{ user: "ops", role: "admin", place: { line: 12, column: 16 } }],
          serviceAccounts: [],
        },
      ],
      users: [
        {
          name: "ops",
          displayName: "Operations",
          email: "ops@example.com",
          place: { line: 14, column: 5 },
          apiKeys: [
            { description: "laptop", key: `${KEY}2`, expiresAt: 4_102_444_800, place: { line: 17, column: 17 } },
          ],
        },
      ],
    },
    problems: null,
  });
});

good("applies the defaults", () => {
  const text = `organizations:
  - name: acme
    features: {}
    service_accounts: [{name: a}]
users: [{name: ops, email: null, api_keys: [{description: d}]}]`;
  assert.equal(parseApplyFile(text), {
    plan: {
      organizations: [
        {
          name: "acme",
          kind: "shared",
          public: false,
          features: { controls: true },
          members: [],
          place: { line: 2, column: 5 },
          serviceAccounts: [{ name: "a", privilege: "reader", apiKeys: [], place: { line: 4, column: 24 } }],
        },
      ],
      users: [
        {
          name: "ops",
          displayName: "",
          email: null,
          place: { line: 5, column: 9 },
          apiKeys: [{ description: "d", key: null, expiresAt: 0, place: { line: 5, column: 45 } }],
        },
      ],
    },
    problems: null,
  });
});

good("accepts a file without organizations or users, and empty lists", () => {
  for (const text of [
    "{}",
    "organizations: []",
    "users: []",
    "---\nusers: []\n...\n",
    "\ufeffusers: []\r\n",
    '{"users": []}',
  ]) {
    assert.equal(parseApplyFile(text), { plan: { organizations: [], users: [] }, problems: null }, text);
  }
});

good("gives a key without a description the default one", () => {
  for (const fields of ["", "description: ''", 'description: ""', "description: null", "description: "]) {
    const { plan, problems } = parseApplyFile(`users: [{name: u, api_keys: [{${fields}}]}]`);
    assert.is(problems, null, fields);
    assert.equal(
      plan?.users[0]?.apiKeys.map(({ description, key }) => ({ description, key })),
      [{ description: "from an apply file", key: null }],
      fields,
    );
  }
});

good("accepts the same names and descriptions under different owners", () => {
  const text = `organizations:
  - {name: a, members: [{user: u, role: member}], service_accounts: [{name: bot, api_keys: [{description: ci}]}]}
  - {name: b, members: [{user: u, role: member}], service_accounts: [{name: bot, api_keys: [{description: ci}]}]}
users: [{name: u, api_keys: [{description: ci}]}, {name: U}]`;
  assert.is(parseApplyFile(text).problems, null);
});

good("accepts the longest and shortest valid values", () => {
  const accept = [
    "users: [{name: a-_.~}]",
    "users: [{name: '0'}]",
    `organizations: [{name: o, service_accounts: [{name: ${"a".repeat(64)}}]}]`,
    `users: [{name: u, api_keys: [{description: ${"é".repeat(256)}}]}]`,
    `users: [{name: u, api_keys: [{description: "${"😀".repeat(256)}"}]}]`,
    `users: [{name: u, api_keys: [{description: d, key: "!~#[]{},&*%@0123"}]}]`,
    `users: [{name: u, api_keys: [{description: d, key: ${"k".repeat(1024)}}]}]`,
    `users: [{name: u, display_name: ""}]`,
  ];
  for (const text of accept) assert.is(parseApplyFile(text).problems, null, text);
});

good("reads 50,000 service accounts", () => {
  const accounts = Array.from({ length: 50_000 }, (_, index) => `      - { name: ci-${index} }\n`).join("");
  const { plan, problems } = parseApplyFile(`organizations:\n  - name: acme\n    service_accounts:\n${accounts}`);
  assert.is(problems, null);
  assert.is(plan?.organizations[0]?.serviceAccounts.length, 50_000);
});

good.run();

const bad = suite("cli/apply/apply-file: mistakes");

const NAME = "give a name of letters, digits and - _ . ~ that begins with a letter or a digit";
const ACCOUNT = "give a name of 1 to 64 letters, digits and hyphens";
const KEY_RULE =
  "give 16 to 1024 printable ASCII characters without spaces and colons, in quotes, or omit it to generate a key";
const EXPIRY = "give whole epoch seconds from 0 (never) to 4102444800";
const ORG_KEYS = "known are name, kind, public, features, members, service_accounts";

// Wrap a snippet in an organization, a service account, a user or an API key, so that a row shows only its subject.
const org = (fields: string) => `organizations: [{name: acme, ${fields}}]`;
const account = (fields: string) => org(`service_accounts: [{${fields}}]`);
const user = (fields: string) => `users: [{name: u, ${fields}}]`;
const key = (fields: string) => user(`api_keys: [{description: d, ${fields}}]`);

const TABLE: [string, string[]][] = [
  // The file
  ["", ["line 1 column 1: the file is empty, give organizations or users"]],
  ["# only a comment\n", ["line 1 column 1: the file is empty, give organizations or users"]],
  ["~", ["line 1 column 1: the file is empty, give organizations or users"]],
  ["text", ["line 1 column 1: the file: a mapping with organizations, users is expected"]],
  ["- a", ["line 1 column 1: the file: a mapping with organizations, users is expected"]],
  ["users: []\n---\nusers: []", ["line 2 column 1: a second document begins here, one file holds one document"]],
  ["users: []\nusers: []", ['line 2 column 1: the key "users" is given more than once, first in line 1']],
  ["users: [", ["line 1 column 9: Flow sequence in block collection must be sufficiently indented and end with a ]"]],
  ["user: []", ["line 1 column 1: user: unknown key, known are organizations, users"]],
  ["%YAML 1.1\n---\nusers: []", ["line 1 column 1: directives (%) are not supported"]],
  // Lists
  ["users:", ["line 1 column 7: users: a list is expected"]],
  ["users: ops", ["line 1 column 8: users: a list is expected"]],
  ["users: {name: ops}", ["line 1 column 8: users: a list is expected"]],
  ["users: [ops]", ["line 1 column 9: users[0]: a mapping with name, display_name, email, api_keys is expected"]],
  ["users:\n  -\n", ["line 2 column 4: users[0]: a mapping with name, display_name, email, api_keys is expected"]],
  [org("members: ~"), ["line 1 column 39: organizations[0].members: a list is expected"]],
  // Organizations
  ["organizations: [{}]", ["line 1 column 17: organizations[0].name: it is missing"]],
  ["organizations: [{name}]", ["line 1 column 18: organizations[0].name: there is no value"]],
  ["organizations: [{name: -a}]", [`line 1 column 24: organizations[0].name: "-a" is not accepted, ${NAME}`]],
  ["organizations: [{name: a b}]", [`line 1 column 24: organizations[0].name: "a b" is not accepted, ${NAME}`]],
  ["organizations: [{name: ''}]", [`line 1 column 24: organizations[0].name: "" is not accepted, ${NAME}`]],
  ['organizations: [{name: "a\\n"}]', [`line 1 column 24: organizations[0].name: "a\\n" is not accepted, ${NAME}`]],
  ["organizations: [{name: 12}]", [`line 1 column 24: organizations[0].name: 12 is not accepted, ${NAME}`]],
  ["organizations: [{name: [a]}]", [`line 1 column 24: organizations[0].name: one value is expected, ${NAME}`]],
  [org("kind: public"), ['line 1 column 36: organizations[0].kind: "public" is not accepted, give shared or personal']],
  [org("public: 1"), ["line 1 column 38: organizations[0].public: 1 is not accepted, give true or false"]],
  [org("public: yes"), ['line 1 column 38: organizations[0].public: "yes" is not accepted, give true or false']],
  [org("features: true"), ["line 1 column 40: organizations[0].features: a mapping with controls is expected"]],
  [
    org("features: {beta: true}"),
    ["line 1 column 41: organizations[0].features.beta: unknown key, known are controls"],
  ],
  [
    org("features: {controls: ~}"),
    ["line 1 column 51: organizations[0].features.controls: there is no value, give true or false"],
  ],
  [org("colour: red"), [`line 1 column 30: organizations[0].colour: unknown key, ${ORG_KEYS}`]],
  [org("__proto__: {}"), [`line 1 column 30: organizations[0].__proto__: unknown key, ${ORG_KEYS}`]],
  [
    "organizations:\n- name: a\n- name: b\n- name: a",
    ['line 4 column 3: organizations[2]: "a" is already declared in line 2'],
  ],
  // Members
  [org("members: [{role: admin}]"), ["line 1 column 40: organizations[0].members[0].user: it is missing"]],
  [org("members: [{user: u}]"), ["line 1 column 40: organizations[0].members[0].role: it is missing"]],
  [
    org("members: [{user: u, role: owner}]"),
    [
      'line 1 column 56: organizations[0].members[0].role: "owner" is not accepted, give admin, member, ' +
        "snapshotter or reader",
    ],
  ],
  [
    org("members: [{user: u, role: admin}, {user: u, role: reader}]"),
    ['line 1 column 64: organizations[0].members[1]: "u" is already declared in line 1'],
  ],
  // Personal organizations
  [
    "organizations: [{name: u, kind: personal, members: [{user: u, role: admin}, {user: eve, role: reader}]}]",
    [
      'line 1 column 77: organizations[0].members[1]: only user "u" can be a member of this personal ' +
        'organization, not "eve"',
    ],
  ],
  [
    "organizations: [{name: u, kind: personal, service_accounts: [{name: a}]}]",
    [
      "line 1 column 62: organizations[0].service_accounts[0]: this organization is personal, only shared " +
        "organizations have service accounts",
    ],
  ],
  [
    "organizations: [{name: u}]\nusers: [{name: u}]",
    [
      'line 1 column 17: organizations[0]: "u" is also a user in this file and reserved for their personal ' +
        "organization",
    ],
  ],
  // Service accounts
  [account("privilege: admin"), ["line 1 column 49: organizations[0].service_accounts[0].name: it is missing"]],
  [
    account("name: a_b"),
    [`line 1 column 56: organizations[0].service_accounts[0].name: "a_b" is not accepted, ${ACCOUNT}`],
  ],
  [
    account(`name: ${"a".repeat(65)}`),
    [`line 1 column 56: organizations[0].service_accounts[0].name: "${"a".repeat(65)}" is not accepted, ${ACCOUNT}`],
  ],
  [
    account("name: a, privilege: root"),
    [
      'line 1 column 70: organizations[0].service_accounts[0].privilege: "root" is not accepted, give admin, ' +
        "member, snapshotter or reader",
    ],
  ],
  [
    account("name: a}, {name: a"),
    ['line 1 column 60: organizations[0].service_accounts[1]: "a" is already declared in line 1'],
  ],
  // Users
  ["users: [{name: _u}]", [`line 1 column 16: users[0].name: "_u" is not accepted, ${NAME}`]],
  ["users: [{name: u}, {name: u}]", ['line 1 column 20: users[1]: "u" is already declared in line 1']],
  [
    user("display_name: 7"),
    ["line 1 column 33: users[0].display_name: 7 is not accepted, give a text of at most 256 characters on one line"],
  ],
  [
    user('display_name: "a\\tb"'),
    [
      'line 1 column 33: users[0].display_name: "a\\tb" is not accepted, give a text of at most 256 characters ' +
        "on one line",
    ],
  ],
  [
    user("email: nobody"),
    ['line 1 column 26: users[0].email: "nobody" is not accepted, give an e-mail address or null'],
  ],
  [user("email: a@b@c"), ['line 1 column 26: users[0].email: "a@b@c" is not accepted, give an e-mail address or null']],
  [
    "users: [{name: a, email: x@Y}, {name: b, email: X@y}]",
    ['line 1 column 32: users[1].email: "X@y" already belongs to user "a" in line 1'],
  ],
  // Keys
  [
    user("api_keys: [{}, {description: ''}]"),
    ['line 1 column 34: users[0].api_keys[1]: "from an apply file" is already declared in line 1'],
  ],
  [
    user(`api_keys: [{description: ${"é".repeat(257)}}]`),
    [
      `line 1 column 44: users[0].api_keys[0].description: "${"é".repeat(99)}... is not accepted, give a text of ` +
        "up to 256 characters",
    ],
  ],
  [
    key("key: 0123456789abcde"),
    [`line 1 column 52: users[0].api_keys[0].key: this value is not accepted, ${KEY_RULE}`],
  ],
  [
    key(`key: ${"k".repeat(1025)}`),
    [`line 1 column 52: users[0].api_keys[0].key: this value is not accepted, ${KEY_RULE}`],
  ],
  [
    key("key: 0123456789:abcdef"),
    [`line 1 column 52: users[0].api_keys[0].key: this value is not accepted, ${KEY_RULE}`],
  ],
  [
    key("key: 0123456789 abcdef"),
    [`line 1 column 52: users[0].api_keys[0].key: this value is not accepted, ${KEY_RULE}`],
  ],
  [
    key("key: 0123456789abcdéf"),
    [`line 1 column 52: users[0].api_keys[0].key: this value is not accepted, ${KEY_RULE}`],
  ],
  [
    key("key: 12345678901234567890"),
    [`line 1 column 52: users[0].api_keys[0].key: this value is not accepted, ${KEY_RULE}`],
  ],
  [key("key: ~"), [`line 1 column 52: users[0].api_keys[0].key: there is no value, ${KEY_RULE}`]],
  [key("expires_at: -1"), [`line 1 column 59: users[0].api_keys[0].expires_at: -1 is not accepted, ${EXPIRY}`]],
  [key("expires_at: 1.5"), [`line 1 column 59: users[0].api_keys[0].expires_at: 1.5 is not accepted, ${EXPIRY}`]],
  [
    key("expires_at: 4102444801"),
    [`line 1 column 59: users[0].api_keys[0].expires_at: 4102444801 is not accepted, ${EXPIRY}`],
  ],
  ...[".inf", "1e400", "-1e400", "0x1ffffffff", "4102444800.50", "12345678901234567890", ".nan", "True"].map(
    (typed): [string, string[]] => [
      key(`expires_at: ${typed}`),
      [`line 1 column 59: users[0].api_keys[0].expires_at: ${typed} is not accepted, ${EXPIRY}`],
    ],
  ),
  [key("expires_at: '0'"), [`line 1 column 59: users[0].api_keys[0].expires_at: "0" is not accepted, ${EXPIRY}`]],
  [key("id: 7"), ["line 1 column 47: users[0].api_keys[0].id: unknown key, known are description, key, expires_at"]],
  [
    user("api_keys: [{description: d}, {description: d}]"),
    ['line 1 column 48: users[0].api_keys[1]: "d" is already declared in line 1'],
  ],
  // Indirections
  [
    "users: &u []\norganizations: *u",
    [
      "line 1 column 11: anchors (&) are not supported, put quotes around a text",
      "line 2 column 16: aliases (*) are not supported, put quotes around a text",
    ],
  ],
  [
    user("<<: {email: a@b}"),
    ["line 1 column 19: users[0].<<: unknown key, known are name, display_name, email, api_keys"],
  ],
  [user("email: !secret x@y"), ["line 1 column 34: tags (!) are not supported, put quotes around a text"]],
];

bad("reports each mistake with its line, column and place", () => {
  for (const [text, expected] of TABLE) assert.equal(parseApplyFile(text), { plan: null, problems: expected }, text);
});

bad("reports all mistakes at once in file order", () => {
  const text = `users:
  - name: ops
    api_keys:
      - { description: laptop, key: "${KEY}" }
      - { description: laptop, key: short }
  - { name: 12, mail: x }
organizations:
  - name: acme
    public: maybe
    members: [ { user: ops, role: boss }, nobody ]
    service_accounts: [ { name: ci, api_keys: [ { description: ci, key: "${KEY}" } ] } ]
  - name: acme
`;
  assert.equal(parseApplyFile(text), {
    plan: null,
    problems: [
      "line 4 column 9: users[0].api_keys[0].key: this key is already used in line 11",
      'line 5 column 9: users[0].api_keys[1]: "laptop" is already declared in line 4',
      `line 5 column 37: users[0].api_keys[1].key: this value is not accepted, ${KEY_RULE}`,
      `line 6 column 13: users[1].name: 12 is not accepted, ${NAME}`,
      "line 6 column 17: users[1].mail: unknown key, known are name, display_name, email, api_keys",
      'line 9 column 13: organizations[0].public: "maybe" is not accepted, give true or false',
      'line 10 column 35: organizations[0].members[0].role: "boss" is not accepted, give admin, member, ' +
        "snapshotter or reader",
      "line 10 column 43: organizations[0].members[1]: a mapping with user, role is expected",
      'line 12 column 5: organizations[1]: "acme" is already declared in line 8',
    ],
  });
});

bad("shows the value of a key in no message", () => {
  const secret = "hunter2hunter2";
  const rows = [
    `key: ${secret}`,
    `key: "${secret}:x"`,
    `key: &${secret} x`,
    `key: *${secret}`,
    `key: !${secret} x`,
    `key: |${secret}`,
    `key: [${secret}]`,
  ];
  for (const row of rows) {
    const { problems } = parseApplyFile(key(row));
    assert.ok((problems?.length ?? 0) > 0, row);
    assert.not.match(JSON.stringify(problems), secret);
  }
});

bad("lists at most a hundred mistakes", () => {
  const { problems } = parseApplyFile(`users:\n${"  - nobody\n".repeat(250)}`);
  assert.is(problems?.length, 101);
  assert.is(problems?.[100], "and 150 more");
});

bad("refuses control characters, in comments too, as the only mistake", () => {
  assert.equal(parseApplyFile("users: [] # \x1b[2J\n#\0\n"), {
    plan: null,
    problems: [
      "line 1 column 13: the character U+001B is not allowed in YAML",
      "line 2 column 2: the character U+0000 is not allowed in YAML",
    ],
  });
});

bad("refuses alias bombs and deep nesting", () => {
  const bomb = [
    "a0: &a0 [x, x]",
    ...Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`),
  ].join("\n");
  assert.is(parseApplyFile(bomb).problems?.length, 101);
  for (const open of ["[", "{users: ", "- "]) {
    assert.match(
      parseApplyFile(open.repeat(100_000)).problems?.[0] ?? "",
      /^line \d+ column \d+: more than 64 levels deep$/,
    );
  }
  assert.is(parseApplyFile("users: [*u, *u]").problems?.length, 2);
});

bad.run();
