/** Attacks by JSON bodies and uploads: memory by amplification, and time on the main thread. */
import { formRequest, jsonRequest, refusal } from "./attack.ts";
import type { Attack, World } from "./attack.ts";

const MB = 1_000_000;
const FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const VALUES = (limit: number, what = "The request body"): object => ({
  message: `${what} has more than ${limit} values, which is the most that this operation takes`,
});
const CONTAINERS = (limit: number, what = "The request body"): object => ({
  message: `${what} has more than ${limit} objects and lists, which is the most that this operation takes`,
});

/** The inside of a list of about `bytes` bytes. */
const repeated = (item: string, bytes: number): string =>
  `${item},`.repeat(Math.floor(bytes / (item.length + 1)) - 1) + item;
const keys = (count: number, value: string): string =>
  Array.from({ length: count }, (_, n) => `"k${n.toString(36)}":${value}`).join(",");

const reportPath = ({ org, environment }: World): string => `/environments/${org}/${environment}/report/K8S`;
const attestationPath = ({ org, flow, trail }: World, kind: string): string =>
  `/attestations/${org}/${flow}/trail/${trail}/${kind}`;

/** A pod as reporters send it, with one container and its owner. */
const pod = (n: number): string =>
  `{"podName":"web-${n}-5d8f7","namespace":"shop",` +
  `"digests":{"registry.example.com/web-${n % 500}:1.4":"${FINGERPRINT}"},"creationTimestamp":${1_700_000_000 + n},` +
  `"owners":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-${n}","uid":"uid-${n}",` +
  `"controller":true,"blockOwnerDeletion":true}]}`;
const pods = (count: number): string => `{"artifacts":[${Array.from({ length: count }, (_, n) => pod(n)).join(",")}]}`;

const generic = (more: string): string => `{"attestation_name":"unit-tests","is_compliant":true,${more}}`;
const custom = (more: string): string => `{"attestation_name":"coverage","type_name":"anything",${more}}`;
const artifact = (more: string): string =>
  `{"fingerprint":"${FINGERPRINT}","filename":"web","git_commit":"${"0f".repeat(20)}",` +
  '"build_url":"https://ci.example.com/1",' +
  `"commit_url":"https://git.example.com/1","trail_name":"release",${more}}`;

const tooLarge = (text: string) => [{ status: 413, body: { message: text } }];
const RECORDED = [{ status: 201, body: "OK" }];

export const BODY_ATTACKS: readonly Attack[] = [
  {
    name: "27 MB of {} in the list of a report",
    request: (world) =>
      jsonRequest("PUT", reportPath(world), world.memberKey, `{"artifacts":[${repeated("{}", 27 * MB)}]}`),
    expect: [{ status: 413, body: CONTAINERS(600_000) }],
  },
  {
    name: "600,000 objects in a report, each with keys of its own",
    request: (world) => {
      const items = Array.from({ length: 599_990 }, (_, n) => `{"k${n.toString(36)}":1,"l${n.toString(36)}":1}`).join(
        ",",
      );
      return jsonRequest("PUT", reportPath(world), world.memberKey, `{"artifacts":[${items}]}`);
    },
    expect: [
      {
        status: 413,
        body: {
          message: "The request body has more than 150000 different keys, which is the most that this operation takes",
        },
      },
    ],
  },
  {
    name: "600,000 objects with numbers as keys in a report",
    request: (world) => {
      const items = Array.from(
        { length: 599_000 },
        (_, n) => `{"${900 + (n % 99)}":"${n.toString(36)}","99999":1}`,
      ).join(",");
      return jsonRequest("PUT", reportPath(world), world.memberKey, `{"artifacts":[${items}]}`);
    },
    // Whichever comes first: the end of the text, or of the time that its thread has.
    expect: [
      { status: 400, body: refusal({ "artifacts.0.digests": "Field required" }) },
      {
        status: 413,
        body: { message: "The report takes more time or memory to read than the server has for one request" },
      },
    ],
  },
  {
    name: "1,600,000 different texts in a report",
    request: (world) =>
      jsonRequest(
        "PUT",
        reportPath(world),
        world.memberKey,
        `{"artifacts":[${Array.from({ length: 1_599_000 }, (_, n) => `"${n.toString(36)}"`).join(",")},"\u00e9"]}`,
      ),
    expect: [{ status: 400, body: refusal({ artifacts: "List should have at most 1000000 items" }) }],
  },
  {
    name: "2,900,000 different texts in a report",
    request: (world) =>
      jsonRequest(
        "PUT",
        reportPath(world),
        world.memberKey,
        `{"artifacts":[${Array.from({ length: 2_900_000 }, (_, n) => `"${n.toString(36)}"`).join(",")}]}`,
      ),
    expect: [
      {
        status: 413,
        body: {
          message:
            "The request body has more than 1600000 texts, numbers and words, " +
            "which is the most that this operation takes",
        },
      },
    ],
  },
  {
    name: "1,490,000 keys in one object of a report",
    request: (world) =>
      jsonRequest("PUT", reportPath(world), world.memberKey, `{"artifacts":[{"digests":{${keys(1_490_000, '""')}}}]}`),
    expect: [
      {
        status: 413,
        body: {
          message:
            "The request body has an object that has more than 10000 keys, which is the most that this operation takes",
        },
      },
    ],
  },
  {
    name: "three reports of 27 MB of {} by a reader in the own personal organization",
    request: ({ readerOrg, readerKey }) =>
      jsonRequest(
        "PUT",
        `/environments/${readerOrg}/own/report/K8S`,
        readerKey,
        `{"artifacts":[${repeated("{}", 27 * MB)}]}`,
      ),
    expect: [{ status: 413, body: CONTAINERS(600_000) }],
    parallel: 3,
  },
  {
    name: "27 MB of {} in the name of a flow",
    request: ({ org, memberKey, flow }) =>
      jsonRequest("PUT", `/flows/${org}/${flow}/rename`, memberKey, `{"new_name":[${repeated("{}", 27 * MB)}]}`),
    expect: tooLarge("Request body size exceeds the 1MB limit"),
  },
  {
    name: "1 MB of {} in the name of a flow",
    request: ({ org, memberKey, flow }) =>
      jsonRequest("PUT", `/flows/${org}/${flow}/rename`, memberKey, `{"new_name":[${repeated("{}", MB)}]}`),
    expect: [{ status: 413, body: VALUES(50_000) }],
  },
  {
    name: "2,200,000 tag keys",
    request: ({ org, memberKey, flow }) =>
      jsonRequest("PATCH", `/tags/${org}/flow/${flow}`, memberKey, `{"set_tags":{${keys(2_200_000, '""')}}}`),
    expect: tooLarge("Request body size exceeds the 1MB limit"),
  },
  {
    name: "130,000 tag keys",
    request: ({ org, memberKey, flow }) =>
      jsonRequest("PATCH", `/tags/${org}/flow/${flow}`, memberKey, `{"set_tags":{${keys(130_000, '""')}}}`),
    expect: tooLarge("Request body size exceeds the 1MB limit"),
  },
  {
    name: "24,000 tag keys, within 1 MB and 50,000 values",
    request: ({ org, memberKey, flow }) =>
      jsonRequest("PATCH", `/tags/${org}/flow/${flow}`, memberKey, `{"set_tags":{${keys(24_000, '""')}}}`),
    expect: [{ status: 400 }, { status: 413 }, { status: 200 }],
  },
  {
    name: "9.9 MB of {} in the JSON part of a form",
    request: (world) =>
      formRequest("POST", attestationPath(world, "generic"), world.memberKey, {
        json: generic(`"user_data":[${repeated("{}", 9.9 * MB)}]`),
      }),
    expect: [{ status: 413, body: CONTAINERS(300_000, "Part 'data_json'") }],
  },
  {
    name: "9.9 MB of {} in a JSON part that is sent as a file",
    request: (world) => {
      const json = generic(`"user_data":[${repeated("{}", 9.9 * MB)}]`);
      const request = formRequest("POST", attestationPath(world, "generic"), world.memberKey, { json });
      const text = request.body.toString("latin1").replace('name="data_json"', 'name="data_json"; filename="a.json"');
      return { ...request, body: Buffer.from(text, "latin1") };
    },
    expect: [{ status: 413, body: CONTAINERS(300_000, "Part 'data_json'") }],
  },
  {
    name: "8 MB of nested [ in a report",
    request: (world) => jsonRequest("PUT", reportPath(world), world.memberKey, `{"artifacts":${"[".repeat(8 * MB)}`),
    expect: [
      {
        status: 400,
        body: refusal({ "artifacts.0.0.0.0.0.0.0.0.0.0.0…": "Input should not be nested deeper than 128 levels" }),
      },
    ],
  },
  {
    name: "8 MB of nested [ in user data",
    request: (world) =>
      formRequest("POST", attestationPath(world, "generic"), world.memberKey, {
        json: generic(`"user_data":${"[".repeat(8 * MB)}`),
      }),
    expect: [
      {
        status: 400,
        body: refusal({ "user_data.0.0.0.0.0.0.0.0.0.0.0…": "Input should not be nested deeper than 128 levels" }),
      },
    ],
  },
  {
    name: "31 MB of user data of an artifact",
    request: ({ org, flow, memberKey }) =>
      jsonRequest("POST", `/artifacts/${org}/${flow}`, memberKey, artifact(`"user_data":["${"x".repeat(31 * MB)}"]`)),
    expect: tooLarge("Request body size exceeds the 10MB limit"),
  },
  {
    name: "3.9 MB of user data in one text",
    request: (world) =>
      formRequest("POST", attestationPath(world, "generic"), world.memberKey, {
        json: generic(`"user_data":["${"é".repeat(1.9 * MB)}"]`),
      }),
    expect: RECORDED,
  },
  {
    name: "user data of 190,000 values, each object with a key of its own",
    request: (world) => {
      const items = Array.from({ length: 63_000 }, (_, n) => `{"k${n.toString(36)}":"${"v".repeat(12)}"}`).join(",");
      return formRequest("POST", attestationPath(world, "generic"), world.memberKey, {
        json: generic(`"user_data":[${items}]`),
      });
    },
    expect: RECORDED,
  },
  {
    name: "data of a custom type with 95,000 keys",
    request: (world) =>
      formRequest("POST", attestationPath(world, "custom"), world.memberKey, {
        json: custom(`"attestation_data":{${keys(95_000, '"some text"')}}`),
      }),
    expect: RECORDED,
  },
  {
    name: "data of a custom type as a text that holds 3.9 MB of {}",
    request: (world) => {
      const data = JSON.stringify(`[${repeated("{}", 3.9 * MB)}]`);
      return formRequest("POST", attestationPath(world, "custom"), world.memberKey, {
        json: custom(`"attestation_data":${data}`),
      });
    },
    expect: [{ status: 413, body: CONTAINERS(300_000, "The JSON in 'attestation_data'") }],
  },
  {
    name: "data of a decision as a text that holds 3.9 MB of {}",
    request: (world) => {
      const data = JSON.stringify(`{"is_compliant":true,"x":[${repeated("{}", 3.9 * MB)}]}`);
      const json = `{"attestation_name":"review","type_name":"decision","control":"SDLC-7","attestation_data":${data}}`;
      return formRequest("POST", attestationPath(world, "system"), world.memberKey, { json });
    },
    expect: [{ status: 413, body: CONTAINERS(200_000, "The JSON in 'attestation_data'") }],
  },
  {
    name: "unit tests of 10,000 suites with long names",
    request: (world) => {
      const suite = (n: number): string =>
        `{"name":"suite ${n} ${"x".repeat(300)}","failures":0,"errors":0,"skipped":0,"total":5,` +
        '"duration":0.5,"timestamp":1700000000}';
      const results = Array.from({ length: 10_000 }, (_, n) => suite(n)).join(",");
      return formRequest("POST", attestationPath(world, "junit"), world.memberKey, {
        json: `{"attestation_name":"unit","junit_results":[${results}]}`,
      });
    },
    expect: RECORDED,
  },
  {
    name: "issues with 190,000 values of their own",
    request: (world) => {
      const fields = Array.from({ length: 63_000 }, (_, n) => `{"k${n.toString(36)}":"${"v".repeat(12)}"}`).join(",");
      const issue =
        '{"issue_id":"A-1","issue_url":"https://jira.example.com/A-1","issue_exists":true,' +
        `"issue_fields":{"x":[${fields}]}}`;
      return formRequest("POST", attestationPath(world, "jira"), world.memberKey, {
        json: `{"attestation_name":"jira","jira_results":[${issue}]}`,
      });
    },
    expect: RECORDED,
  },
  {
    name: "45,000 issues with 315,000 texts and numbers of their own",
    request: (world) => {
      const issue = (n: number): string =>
        `{"issue_id":"A-${n}","issue_url":"https://jira.example.com/A-${n}","issue_exists":true,` +
        '"issue_fields":{"summary":"Customers can pay an order in parts","a":1,"b":2,"c":3}}';
      const results = Array.from({ length: 45_000 }, (_, n) => issue(n)).join(",");
      return formRequest("POST", attestationPath(world, "jira"), world.memberKey, {
        json: `{"attestation_name":"jira","jira_results":[${results}]}`,
      });
    },
    expect: RECORDED,
  },
  {
    name: "62,000 findings with 310,000 texts and numbers",
    request: (world) => {
      const finding = (n: number): string =>
        `{"id":"SNYK-${n}","message":"vulnerable","priority_score":5,` +
        `"locations":[{"uri":"src/part-${n}.ts","lines":"1-2"}]}`;
      const high = Array.from({ length: 62_000 }, (_, n) => finding(n)).join(",");
      return formRequest("POST", attestationPath(world, "snyk"), world.memberKey, {
        json:
          '{"attestation_name":"snyk","snyk_results":{"tool":{"name":"Snyk","version":"1"},"results":[' +
          `{"low_count":0,"medium_count":0,"high_count":62000,"high":[${high}]}]}}`,
      });
    },
    expect: RECORDED,
  },
  {
    name: "repository with 190,000 values of its own",
    request: (world) => {
      const items = Array.from({ length: 63_000 }, (_, n) => `{"k${n.toString(36)}":"${"v".repeat(12)}"}`).join(",");
      const url = "https://git.example.com/acme/web";
      const repo = `{"name":"acme/web","id":"1","url":"${url}","additional_info":{"x":[${items}]}}`;
      return formRequest("POST", attestationPath(world, "generic"), world.memberKey, {
        json: generic(`"repo_info":${repo}`),
      });
    },
    expect: [...RECORDED, { status: 400 }, { status: 413 }],
  },
  {
    name: "a pull request of 9,000 commits",
    request: (world) => {
      const commit = (n: number): string =>
        `{"sha1":"${n.toString(16).padStart(40, "0")}","author":"Ada <ada@example.com>",` +
        `"message":"${"m".repeat(120)}","timestamp":1700000000,"x${n}":1}`;
      const commits = Array.from({ length: 9_000 }, (_, n) => commit(n)).join(",");
      const pull = `{"url":"https://git.example.com/pull/1","state":"MERGED","author":"ada","commits":[${commits}]}`;
      const json = `{"attestation_name":"pr","git_provider":"github","pull_requests":[${pull}]}`;
      return formRequest("POST", attestationPath(world, "pull_request"), world.memberKey, { json });
    },
    expect: RECORDED,
  },
  {
    name: "100,000 pods in one report",
    request: (world) => jsonRequest("PUT", reportPath(world), world.memberKey, pods(100_000)),
    expect: [
      { status: 201, body: "OK" },
      { status: 200, body: "OK" },
    ],
  },
  {
    name: "30 MB for an operation without a body",
    request: ({ org, flow, memberKey }) =>
      jsonRequest("PUT", `/flows/${org}/${flow}-missing/archive`, memberKey, " ".repeat(30 * MB)),
    expect: [{ status: 404 }, { status: 413 }],
  },
  {
    name: "90 MB of evidence",
    request: (world) =>
      formRequest("POST", attestationPath(world, "generic"), world.memberKey, {
        json: generic('"description":"large"'),
        file: { part: "attachment_file", content: Buffer.alloc(90 * MB, "e") },
      }),
    expect: RECORDED,
    parallel: 4,
  },
];
